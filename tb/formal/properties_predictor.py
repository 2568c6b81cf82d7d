"""Jobs: the predictor memory between an arbiter and the memory port, a direction each."""

from collections import namedtuple

from adagp.rtl.memory.predictor_memory import PredictorMemory
from adagp.rtl.memory.predictor_window import PredictorWindow
from amaranth import Cat, Mux, Signal
from amaranth.lib import data

from .registry import job
from .rules import fifo_rule, handshake_rule
from .rules_window import (
    ADDRESS,
    N_IDS,
    ON_CHIP,
    address_rule,
    followed,
    in_page,
    members,
    queued,
    sides_rule,
    window_word,
)

__all__ = []

CUT = ("c:dut.memory.*",)

Names = namedtuple(
    "Names",
    "s1_valid s2_valid s1 s2 move1 move2 step shown coming announced here moved answer_valid held answered answers "
    "was_read was_written",
)
"""Names of the block's signals, in the order in which it makes them."""
Stage = namedtuple("Stage", "valid last id")


@job("predictor_addresses", lambda: PredictorMemory(ON_CHIP), depth=20, cut=("c:dut.inner",))
def _register(h):
    """Addresses go on as they came, each with whether it is in the window, as machine.md says what that is."""
    window = h.dut.window
    h.assume("window: stands", h.fresh | h.before(h.fresh) | (h.before(window) == window))
    h.assume("window: a multiple of its size", window[: ON_CHIP.predictor_window.bit_length() - 1] == 0)
    settled = ~(h.fresh | h.before(h.fresh))
    for prefix, axi in (("ar", h.dut.i_read), ("aw", h.dut.i_write)):
        skid = h.block(prefix)
        spare = data.View(skid.i.p.shape(), h.signal(f"{prefix}.spare"))
        valid, ready = getattr(axi, f"{prefix}valid"), getattr(axi, f"{prefix}ready")
        h.assume(f"{prefix}: nothing in the two cycles after reset", settled | ~valid)
        handshake_rule(h, f"i: {prefix}", valid, ready, members(axi, prefix, ADDRESS), guarantee=False)

        def inside(payload):
            addr = payload.addr
            return (window != 0) & (addr >= window) & (addr - window < ON_CHIP.predictor_bytes)

        for name, there, payload in (("given", skid.o.valid, skid.o.p), ("spare", ~skid.i.ready, spare)):
            h.prove(f"{prefix}: {name}: knows its side", ~there | (payload.inside == inside(payload)))
        h.prove(f"{prefix}: the spare register is free or behind another", skid.i.ready | skid.o.valid)
        h.cover(f"{prefix}: one inside is given", skid.o.valid & skid.o.p.inside & skid.o.ready)
        h.cover(f"{prefix}: one outside is given", skid.o.valid & ~skid.o.p.inside & skid.o.ready)


@job("predictor_reads", lambda: PredictorWindow(ON_CHIP), depth=40, cut=CUT)
def _reads(h):
    axi, port = h.dut.i_read, h.dut.o_read
    signals, queue = Names(*h.signals("$signal")), h.block("bursts")
    inside, word = h.dut.read_inside, window_word(axi, "ar")
    taken = address_rule(h, "ar", axi, port, inside)
    beats = ("id", "data", "resp", "last")
    handshake_rule(h, "o: r", port.rvalid, port.rready, members(port, "r", beats), guarantee=False)
    handshake_rule(h, "i: r", axi.rvalid, axi.rready, members(axi, "r", beats), guarantee=True)
    h.ignores("i: r: valid ignores ready", axi.rvalid, axi.rready)
    of_port, shown = port.rvalid & port.rready, h.signal("taken")
    h.prove("i: r: a beat of one side", (axi.rvalid & axi.rready) == (of_port ^ shown))
    h.prove("i: r: none of both at once", ~of_port | ~shown)
    h.prove("i: r: the port's as it is", ~of_port | (members(axi, "r", beats) == members(port, "r", beats)))
    counts = sides_rule(h, "ar", "r", axi, port, taken, inside, of_port & port.rlast, shown & axi.rlast)
    for number in range(N_IDS):
        on_the_way = sum(stage.last & (stage.id == number) for stage in _stages(h, signals))
        waiting = h.held("bursts", lambda entry, number=number: entry[-2:] == number)
        h.prove(f"id {number}: bursts in the window wait or are on their way",
                counts[True][number] == waiting + on_the_way)  # fmt: skip
    fifo_rule(h, "bursts", queue, by_stream=True)
    _beats(h, signals, queue, taken & inside, shown, word)


def _stages(h, signals):
    """Stages that hold a word of the window after the queue, the first to be shown first."""
    skid = h.block("beats")
    spare = data.View(skid.o.p.shape(), h.signal("beats.spare")).beat
    s1, s2 = (data.View(spare.shape(), signal) for signal in (signals.s1, signals.s2))
    beats = (
        (skid.o.valid, skid.o.p.beat), (~skid.i.ready, spare), (signals.s2_valid, s2), (signals.s1_valid, s1)
    )  # fmt: skip
    return [Stage(valid, valid & beat.last, beat.id) for valid, beat in beats]


def _beats(h, signals, queue, entered, shown, word):
    """The followed burst gives as many beats as it has, from its words."""
    axi, stages = h.dut.i_read, _stages(h, signals)
    burst, waiting = followed(h, entered, shown & axi.rlast, {"word": word, "length": axi.arlen, "id": axi.arid})
    known, length, count = burst.known, burst.length, h.signal("count")
    ends = sum(stage.last for stage in stages)  # bursts all of whose words are read
    h.prove("bursts: all that came and aren't on their way", waiting == queue.level + ends)
    place = (burst.ahead - ends)[: len(burst.ahead)]
    h.prove("bursts: the burst stands in its place", ~known | (burst.ahead < ends) | (
        queued(h, "bursts", place) == Cat(burst.word, length, burst.id)))  # fmt: skip
    layout = {"word": len(word), "length": len(axi.arlen), "id": len(axi.arid)}
    first = data.View(data.StructLayout(layout), queue.r_data)
    h.prove("count: of a burst that is there", (count == 0) | (queue.level != 0))
    h.prove("count: within the first burst", (count == 0) | (count <= first.length))
    out, spare, s2, s1 = stages
    h.prove("spare: behind one that is shown first", ~spare.valid | out.valid)
    h.prove("shown: a beat is there", ~signals.shown | out.valid)
    h.prove("s1: more of its burst is to come", ~(s1.valid & ~s1.last) | (count != 0))
    h.prove("s1: none of a burst is in front of another's end", ~s1.last | (count == 0))
    h.prove("s1: the next of its burst has its id", ~(s1.valid & ~s1.last) | (s1.id == first.id))
    behind, ident = s1.valid, s1.id
    for name, stage in (("s2", s2), ("spare", spare), ("out", out)):
        h.prove(f"{name}: the next of its burst follows", ~(stage.valid & ~stage.last) | (behind & (stage.id == ident)))
        behind, ident = behind | stage.valid, Mux(stage.valid, stage.id, ident)
    beat = Signal.like(axi.arlen)
    with h.m.If(shown):
        h.m.d.sync += beat.eq(Mux(axi.rlast, 0, beat + 1))
    front = known & (burst.ahead == ends)
    h.prove("count: within the burst", ~front | (count <= length))
    before, past = beat, 0  # of the stage's burst: beats in front of the stage; bursts that end there
    for name, stage in zip(("out", "spare", "s2", "s1"), stages, strict=True):
        own = known & (burst.ahead == past) & stage.valid
        h.prove(f"{name}: of the burst", ~own | (stage.id == burst.id))
        h.prove(f"{name}: ends the burst", ~(own & stage.last) | (before == length))
        following = Signal.like(axi.arlen, name=f"before_{name}")
        h.m.d.comb += following.eq(Mux(stage.last, 0, before + stage.valid))
        before, past = following, past + stage.last
    h.prove("count: of the burst in front", count == before)
    own = known & (burst.ahead == 0) & shown
    h.prove("i: r: beats of the window are the burst's", ~own | (axi.rid == burst.id))
    h.prove("i: r: last with the burst's last beat, and only there", ~own | (axi.rlast == (beat == length)))
    words = h.block("read_words")
    within = h.signals("read_words.$signal")[0]
    h.prove("words: within a burst", within == (count != 0))
    h.prove(
        "words: the burst's, one after the other",
        ~front | (queue.level == 0) | (words.word == in_page(burst.word, count)),
    )
    h.cover("a burst of three beats ends", own & axi.rlast & (length == 2))
    h.cover("shown in turn", h.before(axi.rvalid & axi.rready & ~shown) & shown)


@job("predictor_writes", lambda: PredictorWindow(ON_CHIP), depth=40, cut=CUT)
def _writes(h):
    axi, port = h.dut.i_write, h.dut.o_write
    signals, queue = Names(*h.signals("$signal")), h.block("order")
    inside, word = h.dut.write_inside, window_word(axi, "aw")
    taken = address_rule(h, "aw", axi, port, inside)
    beats, answer = ("data", "strb", "last"), ("id", "resp")
    handshake_rule(h, "i: w", axi.wvalid, axi.wready, members(axi, "w", beats), guarantee=False)
    handshake_rule(h, "o: w", port.wvalid, port.wready, members(port, "w", beats), guarantee=True)
    h.ignores("o: w: valid ignores ready", port.wvalid, port.wready)
    handshake_rule(h, "o: b", port.bvalid, port.bready, members(port, "b", answer), guarantee=False)
    handshake_rule(h, "i: b", axi.bvalid, axi.bready, members(axi, "b", answer), guarantee=True)
    h.ignores("i: b: valid ignores ready", axi.bvalid, axi.bready)
    of_port, of_window = port.bvalid & port.bready, signals.answered
    h.prove("i: b: an answer of one side", (axi.bvalid & axi.bready) == (of_port ^ of_window))
    h.prove("i: b: none of both at once", ~of_port | ~of_window)
    h.prove("i: b: the port's as it is", ~of_port | (members(axi, "b", answer) == members(port, "b", answer)))
    counts = sides_rule(h, "aw", "b", axi, port, taken, inside, of_port, of_window)
    answer_id = h.signal("$like")
    for number in range(N_IDS):
        inside_waiting = h.held("order", lambda entry, number=number: entry[-3:] == (number << 1 | 1))
        h.prove(f"id {number}: bursts in the window wait or are answered",
                counts[True][number] + (signals.announced & inside & (axi.awid == number))
                == inside_waiting + (signals.answer_valid & (answer_id == number)))  # fmt: skip
    fifo_rule(h, "order", queue, by_stream=True)
    _moves(h, signals, queue, inside, word)


def _moves(h, signals, queue, inside, word):
    """The followed burst's beats go to the port or into its words, and its answer comes after them."""
    axi, port = h.dut.i_write, h.dut.o_write
    moved, ends = signals.moved, signals.moved & axi.wlast
    entered = queue.w_en & queue.w_rdy
    burst, waiting = followed(h, entered, ends, {"word": word, "inside": inside, "id": axi.awid})
    h.prove("order: all that came and have beats to come", waiting == queue.level)
    h.prove("order: the burst stands in its place",
            ~burst.known | (queued(h, "order", burst.ahead) == Cat(burst.word, burst.inside, burst.id)))  # fmt: skip
    h.prove("announced: an address that waits is in it", signals.announced == h.before(
        entered | signals.announced & ~(axi.awvalid & axi.awready)))  # fmt: skip
    h.prove("announced: it is there", ~signals.announced | axi.awvalid)
    h.prove("order: a burst enters once", ~(entered & signals.announced))
    h.prove("order: a burst that is taken is in it", ~(axi.awvalid & axi.awready) | signals.announced)
    beat = Signal.like(axi.awlen)
    with h.m.If(moved):
        h.m.d.sync += beat.eq(Mux(axi.wlast, 0, beat + 1))
    h.assume("i: w: a burst is no longer than an address says", ~(axi.wvalid & beat.all()) | axi.wlast)
    own = burst.known & (burst.ahead == 0) & moved
    memory = h.block("memory").w_en
    h.prove("w: to the port or to the window", ~own | ((port.wvalid & port.wready) == ~burst.inside))
    h.prove("w: into the window, where it says so", ~own | (memory == Mux(burst.inside, axi.wstrb, 0)))
    h.prove("w: into the window only what moves", moved | (memory == 0))
    within = h.signals("write_words.$signal")[0]
    h.prove("words: within a burst", within == (beat != 0))
    h.prove("words: the burst's, one after the other",
            ~(burst.known & (burst.ahead == 0) & (queue.level != 0))
            | (h.block("memory").w_addr == in_page(burst.word, beat)))  # fmt: skip
    answered = h.before(own & axi.wlast & burst.inside)
    h.prove("i: b: the burst's, behind its last beat",
            ~answered | (signals.answer_valid & (h.signal("$like") == h.before(burst.id))))  # fmt: skip
    h.prove("i: b: no burst ends before the answer to one before is taken",
            ~(ends & signals.here) | ~signals.answer_valid | signals.answered)  # fmt: skip
    h.cover("a burst of three beats ends in the window", own & axi.wlast & (beat == 2) & burst.inside)
    h.cover("an answer waits for the port's", signals.answer_valid & axi.bvalid & (axi.bid != h.signal("$like")))
