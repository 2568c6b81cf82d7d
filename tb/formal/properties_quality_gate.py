"""Jobs: the gate that judges predictions, and the steps of Adam's rate."""

from adagp.rtl.control.cosine import ALIGN, MANTISSA, STREAM, Cosine
from adagp.rtl.control.quality_gate import DEPTH, VOTES, Gate
from adagp.rtl.update.adam_rate import _FACTOR_WIDTH, _RATIO_WIDTH, _ROOT_WIDTH, AdamRate, _Serial
from amaranth import Cat, Mux, Signal

from .registry import job
from .rules import fifo_rule

__all__ = []

FIRST = 3 + ALIGN + STREAM + 3 * (MANTISSA + 1)
"""Cycles from a comparison's start to its last state."""
RATE_STATES = {
    "POWER1": _FACTOR_WIDTH, "POWER2": _FACTOR_WIDTH, "ROOT": _ROOT_WIDTH, "RATIO": _RATIO_WIDTH,
    "PRODUCT": _FACTOR_WIDTH,
}  # fmt: skip
"""States of Adam's rate in their order, each with its steps; the last one follows them."""


@job("gate", Gate, cut=("c:*cosine*",))
def _gate(h):
    """With any answer of the comparison, at any time: it opens and shuts at commit only, by the votes."""
    dut = h.dut
    queue, cosine = h.block("waiting"), h.block("cosine")
    judging, balance, arrived = h.signal("judging"), h.signal("balance"), h.signal("arrived")
    h.assume("cosine: done with what it was given", ~cosine.done | judging)
    h.assume("quality: while there is room", ~dut.quality_valid | (queue.level + arrived != DEPTH))
    h.assume("commit: only while not busy", ~dut.commit | ~dut.busy)
    fifo_rule(h, "waiting", queue)
    h.prove("judging: something", ~judging | (queue.level != 0))
    steady = h.before(judging & ~cosine.done & ~dut.clear)
    h.prove("cosine: judges one after the other", ~(cosine.start & judging))
    h.prove("cosine: its quality stands", ~steady | (h.before(queue.r_data) == queue.r_data))
    changed = ~h.fresh & (h.before(dut.open) != dut.open)
    h.prove("open: changes by commit or the host only", ~changed | h.before(dut.commit | dut.set))
    h.prove("open: not by a commit while no threshold is in use",
            ~changed | h.before(dut.set | dut.threshold.in_use))  # fmt: skip
    # One arbitrary layer is followed from where it comes to its vote; the others' votes may be anything.
    numbers = range(2 * DEPTH)
    chosen = h.constant(numbers)
    came, judged, known, weights = Signal(numbers), Signal(numbers), Signal(), Signal(32)
    h.m.d.sync += [came.eq(came + dut.quality_valid), judged.eq(judged + cosine.done)]
    with h.m.If(dut.quality_valid & (came == chosen)):
        h.m.d.sync += [known.eq(1), weights.eq(dut.quality.count)]
    with h.m.If(dut.clear | (cosine.done & (judged == chosen))):
        h.m.d.sync += known.eq(0)
    with h.m.If(dut.clear):
        h.m.d.sync += [came.eq(0), judged.eq(0)]
    waiting = (came - judged)[: len(came)]
    h.prove("waiting: what came and isn't judged", waiting == queue.level + arrived)
    h.prove("arrived: there is room for it", ~arrived | (queue.level != DEPTH))
    h.prove("busy: until all is judged", ~dut.busy == ((waiting == 0) & ~dut.quality_valid))
    ahead = (chosen - judged)[: len(came)]
    h.prove("waiting: the layer that is followed is there", ~known | (ahead < waiting))
    first, last, stored = (h.signal(f"waiting.{name}") for name in ("first", "last", "stored"))
    h.prove("waiting: what is stored lies between its ends", (first + stored)[: len(first)] == last)
    place = h.word("waiting.memory.memory", (first + ahead - queue.r_rdy)[: len(first)])
    shown = Mux(queue.r_rdy & (ahead == 0), queue.r_data, place)
    held = dut.quality.shape()(Mux(ahead == queue.level, queue.w_data, shown))
    h.prove("waiting: its weights are kept", ~known | (held.count == weights))
    votes = known & cosine.done & (judged == chosen) & ~dut.clear
    vote = Mux(cosine.passes, weights, -weights)
    h.prove("votes: each layer's, by its weights",
            ~h.before(votes) | (balance == h.before((balance + vote)[: VOTES + 1].as_signed())))  # fmt: skip
    any_vote = h.signal("judged")
    h.prove("votes: none since clear, none counted", any_vote | (balance == 0))
    h.prove("votes: counted at their own time only",
            h.fresh | h.before(cosine.done | dut.clear) | (h.before(balance) == balance))  # fmt: skip
    decides = h.before(dut.commit & any_vote & dut.threshold.in_use & ~dut.set)
    h.prove("open: the majority of the weights", ~decides | (dut.open == h.before(balance > 0)))
    h.cover("shut by a commit", changed & ~dut.open & h.before(dut.commit & ~dut.set))
    h.cover("opened by a commit", changed & dut.open & h.before(dut.commit & ~dut.set))
    h.cover("the third layer votes", h.before(cosine.done) & (judged == 3))


@job("cosine", Cosine, depth=Cosine.CYCLES, far=("passes", "fails", "shifts"))
def _cosine(h):
    """A comparison ends in time: products of normalised numbers take few shifts to be normalised."""
    dut = h.dut
    names = ("IDLE", "ALIGN", "STREAM", "LAST", "SQUARE", "MULTIPLY", "TURN", "COMPARE", "DECIDE", "DONE")
    idle, align, stream, last, square, multiply, turning, compare, decide, ends = (h.state("", name) for name in names)
    step, turn, left = (h.signal(name) for name in ("step", "turn", "left"))
    x, product = h.signals("$signal")[-1], h.signal("product")
    h.assume("start: only while nothing runs", ~dut.start | idle)
    threshold, running = dut.threshold.as_value(), h.before(dut.start | ~idle & ~dut.done)
    h.assume("threshold: stands while it runs", ~running | (h.before(threshold) == threshold))
    h.prove("done: only what was started", ~dut.done | ends)
    h.prove("step: before the stream", ~align | ((step >= -ALIGN) & (step < 0)))
    h.prove("step: of the stream", ~stream | ((step >= 0) & (step < STREAM)))
    h.prove("step: of a product", ~multiply | ((step >= 0) & (step < MANTISSA)))
    h.prove("turn: one of three", ~(multiply | turning) | (turn < 3))
    spent = Signal(range(2 * Cosine.CYCLES))
    h.m.d.sync += spent.eq(Mux(idle, dut.start, spent + 1))
    begun = 3 + ALIGN + STREAM + turn * (MANTISSA + 1)
    h.prove("turn: none before", ~square | (turn == 0))
    h.prove("time: of the stream", ~(align | stream) | (spent == 1 + ALIGN + step))
    h.prove("time: behind the stream", ~last | (spent == 1 + ALIGN + STREAM))
    h.prove("time: of the square", ~square | (spent == 2 + ALIGN + STREAM))
    h.prove("time: of a product", ~multiply | (spent == begun + step))
    h.prove("time: behind a product", ~turning | (spent == begun + MANTISSA))
    found = h.signals("stage")[7]  # behind the exponents' difference, and where each of the three sums begins
    h.prove("found: a cycle behind the stream", found == h.before(stream))
    h.prove("found: no bits behind that, so that their tops stand", ~found | stream | last)
    # Where two numbers have their highest bit, their product has one of the upper two. That bit of the multiplier is
    # the last that counts; before, it moves down by a place a step.
    dot, true, predicted = (h.signal(name)[MANTISSA - 1] for name in ("dot", "true", "predicted"))
    least = 2 * MANTISSA - 2
    narrow = (x >> MANTISSA == 0) & (product >> (2 * MANTISSA) == 0)
    h.prove("products 0 and 1: of two mantissas", ~((multiply | turning) & (turn < 2)) | narrow)
    for number, multiplier, factor in ((0, dot, dot), (1, true, predicted)):
        there, counts = turn == number, multiplier & factor
        h.prove(f"product {number}: the highest bit is to come",
                ~(multiply & there & counts) | product.bit_select((MANTISSA - 1 - step)[:4], 1))  # fmt: skip
        h.prove(f"product {number}: its factor is normalised", ~(multiply & there & counts) | x[MANTISSA - 1])
        h.prove(f"product {number}: large", ~(turning & there & counts) | (product >> least).any())
    h.prove("left: large", ~(dot & (((turn != 0) & (multiply | turning)) | (compare & (spent == FIRST))))
            | (left >> least).any())  # fmt: skip
    third, counts = turn == 2, true & predicted & (dut.threshold.mantissa != 0)
    h.prove("product 2: its factor is large", ~(multiply & third & counts) | (x >> least).any())
    done = product >> (MANTISSA - step)[:5]  # what the bits of the multiplier that were used come to
    h.prove("product 2: large once a bit of the threshold was used", ~(multiply & third & counts)
            | ((product ^ (done << (MANTISSA - step)[:5])) != 0) | (done >> least).any())  # fmt: skip
    h.prove("product 2: large", ~(turning & third & counts) | (product >> least).any())
    shifts = (spent - FIRST)[:5]
    h.prove("compare: in its time", ~compare | ((spent >= FIRST) & (spent <= Cosine.CYCLES - 2)))
    h.prove("done: in its time", ~(decide | ends) | (spent <= Cosine.CYCLES - decide))
    h.prove("compare: what needs no shifts is known", ~compare | (h.signal("certain") == ~counts))
    h.prove("compare: what fails anyway is known", ~compare | dot | h.signal("fails"))
    for name, value, given in (("left", left, dot), ("product", product, counts)):
        h.prove(f"compare: {name} is normalised by and by", ~(compare & dot & counts & given) | value[-1]
                | (value >> (shifts + least)).any())  # fmt: skip
    h.cover("passes", dut.done & dut.passes)
    h.cover("fails", dut.done & ~dut.passes)
    h.cover("shifts are needed", compare & (spent == FIRST + 2))
    h.cover("an exponent of an error above a target's", dut.start & (dut.quality.e_exponent > dut.quality.t_exponent))


@job("cosine_small", Cosine, depth=Cosine.CYCLES)
def _cosine_small(h):
    """Comparisons of small sums from their start to their end, which are out of reach with sums of 64 bits."""
    dut, quality, idle = h.dut, h.dut.quality, h.state("", "IDLE")
    ran = Signal()
    h.m.d.sync += ran.eq(ran | dut.start)
    h.assume("start: once", ~dut.start | (idle & ~ran))
    stands = h.before(Cat(quality.as_value(), dut.threshold.as_value())) == Cat(quality, dut.threshold)
    h.assume("what is compared stands", h.fresh | stands)
    h.assume("sums: below 4", Cat(part >> 2 == 0 for part in (quality.ee, quality.et, quality.tt)).all())
    h.assume("exponents: alike", (quality.e_exponent == 0) & (quality.t_exponent == 0))
    h.assume("threshold: a power of 2", dut.threshold.mantissa == 1 << (MANTISSA - 1))
    h.cover("passes", dut.done & dut.passes)
    h.cover("fails", dut.done & ~dut.passes)
    compare = h.state("", "COMPARE")
    h.cover("shifts are needed", compare & h.before(compare & h.before(compare)))


@job("adam_rate", AdamRate, depth=40)
def _adam_rate(h):
    """It ends in time, and nothing but a commit of a step that wasn't dry makes a power of the next one."""
    dut = h.dut
    idle, normalise, halve = (h.state("", name) for name in ("IDLE", "NORMALISE", "HALVE"))
    left, high, large = h.signal("serial.left"), h.block("serial").high, h.signal("large")
    (next1, dry), next2, stepped = h.signals("$signal"), h.signal("next2"), h.signal("stepped")
    h.assume("start: only while nothing runs", ~dut.start | idle)
    writes = dut.set1 | dut.set2
    h.assume("powers: written while nothing runs, and not with a start or a commit",
             ~writes | (idle & ~dut.start & ~dut.commit))  # fmt: skip
    h.assume("commit: only while nothing runs", ~dut.commit | (idle & ~dut.start))
    spent = Signal(range(2 * AdamRate.LATENCY))
    h.m.d.sync += spent.eq(Mux(idle, dut.start, spent + 1))
    begins, sums = 2, h.signal("serial.sums")
    for state, steps in RATE_STATES.items():
        here, cycles = h.state("", state), _Serial.STEP_CYCLES * steps
        h.prove(f"LOAD_{state}: in its time", ~h.state("", f"LOAD_{state}") | (spent == begins - 1))
        h.prove(f"{state}: its steps", ~here | (left <= steps))
        h.prove(f"{state}: in its time", ~here | (spent + _Serial.STEP_CYCLES * left == begins + cycles + sums))
        begins += cycles + 2
    begins -= 1
    h.prove("ready: no steps are left", h.block("serial").ready == (left == 0))
    h.prove("sums: of a step", ~sums | (left != 0))
    halved = (spent - begins)[1:7]
    last = begins + 2 * _RATIO_WIDTH
    h.prove("NORMALISE: has no steps but its own", ~(normalise | halve) | (left == 0))
    h.prove("NORMALISE: in its time", ~normalise | ((spent >= begins) & (spent <= last) & ~(spent - begins)[0]))
    h.prove("HALVE: in its time", ~halve | ((spent > begins) & (spent <= last + 1) & (spent - begins)[0]))
    h.prove("HALVE: knows whether there is something to halve", ~halve | (large == (high != 0)))
    h.prove("loads: in its states", h.signal("loads") == Cat(h.state("", f"LOAD_{s}") for s in RATE_STATES).any())
    h.prove("large: known in HALVE", ~large | halve)
    h.prove("NORMALISE: by a bit in two cycles", ~(normalise | halve) | ((high << halved) >> _RATIO_WIDTH == 0))
    h.prove(f"done: at most {AdamRate.LATENCY} cycles after start", idle | (spent <= AdamRate.LATENCY))
    h.prove("done: only what was started", ~dut.done | halve)
    kept = Signal()
    with h.m.If(dut.done & ~dut.clear):
        h.m.d.sync += kept.eq(1)
    with h.m.If(dut.start | dut.clear):
        h.m.d.sync += kept.eq(0)
    rate = dut.o.as_value()
    h.prove("o: stands from done to the next start", ~(h.before(kept) & kept) | (h.before(rate) == rate))
    h.prove("o: done has it", ~kept | (idle & (left == 0)))
    # What a commit takes: the last step that wasn't dry, whose powers come in their states.
    to_take = Signal()
    with h.m.If(h.state("", "POWER2") & (left == 0) & ~dry):
        h.m.d.sync += to_take.eq(1)
    with h.m.If(dut.commit | dut.clear):
        h.m.d.sync += to_take.eq(0)
    h.prove("stepped: a step that wasn't dry", stepped == to_take)
    for number, following in ((1, next1), (2, next2)):
        power = getattr(dut, f"power{number}")
        changed = ~h.fresh & (h.before(power) != power)
        written = h.before(getattr(dut, f"set{number}"))
        h.prove(
            f"power{number}: changes by commit or the host only", ~changed | written | h.before(dut.commit & stepped)
        )
        h.prove(f"power{number}: a commit takes the step",
                ~h.before(dut.commit & stepped) | (power == h.before(following)))  # fmt: skip
        h.prove(f"next{number}: not by a dry start", h.fresh | ~h.before(dry) | (h.before(following) == following))
    h.cover("POWER2", h.state("", "POWER2"))
    h.cover("ended by clear", h.before(dut.clear & ~idle) & idle)
