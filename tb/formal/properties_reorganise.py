"""Jobs: the sums that a layer's results are reorganised to, and who makes them.

What is assumed of terms (those of one sum are apart, none come while sums are read) the second job proves of the block
that makes them; that a descriptor asks for sums that there are, ``tb/support/descriptor_grammar.py`` checks
wherever tests have some.
"""

from dataclasses import replace

from adagp.rtl.drain.epilogue import result_latency
from adagp.rtl.drain.filter_terms import FilterTerms
from adagp.rtl.drain.reorganise import Reorganise
from adagp.rtl.drain.window_sums import N_WINDOWS, TermLayout, WindowSums
from amaranth import Cat, Const, Mux, Signal

from .registry import CONFIG, job
from .rules import bind_streams

__all__ = ["FOLDED", "REORGANISES", "sums_given"]

REORGANISES = replace(CONFIG, variant="max")
FOLDED = replace(REORGANISES, cols=5, epilogue_lanes=2, n_filters=2)
"""A vector is three groups; the last one has a lane that there isn't."""
FEW = replace(REORGANISES, n_filters=2)
PRODUCTS = ("t:$mul",)


def _read_data(h):
    (port,) = h.block("memory").read_ports
    return port.data.as_unsigned()


def _apart(h, rule, term, chosen):
    """Terms of one sum are so far apart that each finds the one before in memory; returns when there were some."""
    now = term.valid & (term.at == chosen)
    recent = Signal(WindowSums.ADD_LATENCY - 1)
    h.m.d.sync += recent.eq(Cat(now, recent))
    rule("term: those of a sum are apart", ~now | (recent == 0))
    return now, recent


@job("window_sums", lambda: WindowSums(FEW), cut=PRODUCTS)
def _window_sums(h):
    """One arbitrary sum is followed: it is of all its terms since the last fresh one, and is read as it is."""
    dut, d = h.dut, h.dut.d
    bind_streams(h)
    term, chosen = dut.term, h.constant(range(N_WINDOWS * FEW.n_filters))
    now, recent = _apart(h, h.assume, term, chosen)
    h.prove("term: there was one at most", (recent & (recent - 1)) == 0)
    stages, (reading, *_) = h.signals("stage"), h.signals("$signal")
    giving = [s for s in stages if len(s) == 1][-WindowSums.READ_LATENCY :]
    calm = ~reading & ~Cat(giving).any()
    h.assume("term: none while sums are read", ~term.valid | (calm & ~dut.start))
    quiet = Signal(WindowSums.ADD_LATENCY, init=(1 << WindowSums.ADD_LATENCY) - 1)
    h.m.d.sync += quiet.eq(Cat(~term.valid, quiet))
    h.assume("start: when all terms are in memory and nothing is read", ~dut.start | (quiet.all() & calm))
    there = (d.n_out != 0) & (d.at + d.n_out <= N_WINDOWS * FEW.n_filters)
    h.assume("start: sums that there are", ~dut.start | there)
    h.assume(
        "d: stands while sums are read", calm | h.before(calm & ~dut.start) | (h.before(d.as_value()) == d.as_value())
    )
    h.prove("nothing is read while terms come", quiet[:-1].all() | calm)
    h.prove("next_valid: o.valid of the next cycle", h.before(dut.next_valid) == dut.o.valid)
    known, total = Signal(), Signal.like(h.signal("s2_word"))
    with h.m.If(now):
        h.m.d.sync += [known.eq(known | term.fresh), total.eq(Mux(term.fresh, 0, total) + term.value)]
    layout = TermLayout(FEW)
    first, second = (layout(s) for s in stages if len(s) == layout.size)
    written, s3_sum = next(s for s in stages if len(s) == len(term.at)), h.signal("s3_sum")
    held, read, word = h.word("memory", chosen), _read_data(h), h.signal("s2_word")
    ways = Cat(first.valid, second.valid, next(s for s in stages if len(s) == 1))
    h.prove("terms on their way are the last ones", ways == ~quiet[:-1])
    at_write = next(s for s in stages if len(s) == 1) & (written == chosen)
    places = [each.valid & (each.at == chosen) for each in (first, second)] + [at_write]
    comes = [(Mux(each.fresh, 0, x) + each.value)[: len(total)] == total.as_unsigned()
             for each, x in ((first, read), (second, word))] + [s3_sum == total]  # fmt: skip
    for number, (place, right) in enumerate(zip(places, comes, strict=True)):
        h.prove(f"stage {number + 1}: a term of as many cycles ago", place == recent[number])
        h.prove(f"stage {number + 1}: comes to the sum", ~(known & place) | right)
    h.prove("the sum is in memory", ~known | (recent != 0) | (held == total.as_unsigned()))
    h.cover("a sum of three terms", known & at_write & h.before(h.count(now & known, 0, 7) == 3))
    _given(h, reading, giving, known & (h.signal("at") == chosen), total)


def _given(h, reading, giving, of_chosen, total):
    """As many sums are given as were asked for, each from its place."""
    dut, moving, at, left = h.dut, h.signal("moving"), h.signal("at"), h.signal("left")
    owed = Signal(range(2 * N_WINDOWS * FEW.n_filters))
    asked, given = Mux(dut.start, dut.d.n_out, 0), dut.o.valid & dut.o.ready
    h.m.d.sync += owed.eq(owed + asked - given)
    h.prove("o: as many as were asked for", owed == Mux(reading, left, 0) + sum(giving))
    there = dut.d.at + dut.d.n_out <= N_WINDOWS * FEW.n_filters
    h.prove("d: still of sums that there are", ~(reading | Cat(giving).any()) | there)
    h.prove("left: something while it reads", ~reading | (left != 0))
    h.prove("at: in their order, from the first on",
            ~reading | (at + left == dut.d.at + dut.d.n_out))  # fmt: skip
    stage = [Signal(name=f"chosen{number}") for number in range(2)]
    with h.m.If(moving):
        h.m.d.sync += [stage[0].eq(reading & of_chosen), stage[1].eq(stage[0])]
    with h.m.If(dut.term.valid):
        h.m.d.sync += [stage[0].eq(0), stage[1].eq(0)]
    h.prove("the word that is read is the sum", ~stage[0] | (_read_data(h) == total.as_unsigned()))
    h.prove("the word that is multiplied is the sum", ~stage[1] | (h.signal("s2_word") == total))
    h.cover("the third sum is given", given & (owed + 2 == h.dut.d.n_out))
    h.cover("the sum that is followed is given", stage[1])


def sums_given(h, walk, under_way, runs):
    """A drain that takes sums out for a descriptor asks for as many as there are vectors, some of them
    ``under_way``."""
    i, d = h.dut.i.p, walk.d
    one = (i.n_in == 1) & (i.idx == 0)
    h.assume("i: a vector for each sum", ~(h.dut.i.valid & i.reorganise & i.vector) | one)
    reading, left = h.signals("reorganise.sums.$signal")[0], h.signal("reorganise.sums.left")
    giving = [s for s in h.signals("reorganise.sums.stage") if len(s) == 1][-WindowSums.READ_LATENCY :]
    owed, takes = Mux(reading, left, 0) + sum(giving), d.reorganise & d.vector
    ahead = Mux(walk.step.valid, h.signal("walk.n_out_left"), 0) + under_way
    busy = ~h.state("", "IDLE")
    h.prove("sums: one to a vector, without their indices", ~(busy & takes) | ((d.n_in == 1) & (d.idx == 0)))
    h.prove("sums: as many as there are vectors to come", owed == Mux(runs & takes, ahead, 0))
    h.prove("sums: some while they are read", ~reading | (left != 0))
    h.prove(
        "walk: a pixel's vectors are one each", ~(runs & takes & walk.step.valid) | (h.signal("walk.n_in_left") == 1)
    )
    h.prove("walk: no index vector", ~(busy & takes) | ~h.signal("walk.plain"))
    h.cover("all sums are given", h.before(takes & (owed == 1)) & (owed == 0))


def _entering(h, latency):
    """Vectors that entered the epilogue, a bit for each number of cycles ago, and groups other than a vector's last."""
    dut, folds = h.dut, h.dut._config.folds(h.dut._config.cols) > 1
    line, groups = Signal(latency, name="line"), Signal(latency, name="groups")
    passes = dut.ready & ~dut.enter & h.free(name="passes") if folds else Const(0)
    h.m.d.sync += [line.eq(Cat(dut.enter & dut.ready, line)), groups.eq(Cat(passes, groups))]
    h.assume("i: what entered the epilogue", dut.i.mask[0] == (line[-1] | groups[-1]))
    h.assume("i: whether it is a vector's last group", ~dut.i.mask[0] | (dut.i.final == line[-1]))
    return line, groups


def _paced(h, line, groups, age, since):
    """Each vector comes when no more than one term of the one before, if that, is still to be read."""
    pixels, n_wanted, swap = h.block("pixels"), Signal(range(N_WINDOWS + 1), name="n_wanted"), h.dut.d.swap
    h.m.d.comb += n_wanted.eq(sum(pixels.wanted))
    left, pace, streams = h.signal("pixels.left"), h.signal("pace"), h.state("", "STREAM")
    latency, there = len(line), line | groups
    apart = [~(there[k] & line[j]) | (n_wanted <= j - k) for k in range(latency)
             for j in range(k + 1, min(k + N_WINDOWS, latency))]  # fmt: skip
    behind = [~there[k] | (n_wanted <= since + latency - 1 - k) for k in range(latency - N_WINDOWS, latency)]
    h.prove("pace: vectors in the epilogue are as far apart as they have terms", ~swap | Cat(*apart, *behind).all())
    h.prove("pace: terms of the last vector", ~(streams & swap) | (sum(pace) == Mux(age < n_wanted, n_wanted - age, 0)))
    others = ~(h.state("", "FIRST") | h.state("", "LOCATE") | h.state("", "END") | ~h.dut.busy)
    h.prove("pace: over where nothing enters", others | ((age > N_WINDOWS) & (since > N_WINDOWS)))
    h.prove("pixels: terms of the last vector", ~swap | (left == 0) | (sum(left) + since <= n_wanted + 1))
    h.prove("pixels: a vector comes when all terms but one are read", ~pixels.valid | ((left & (left - 1)) == 0))
    h.cover("pixels: a vector comes as the last term of four is read", pixels.valid & (since == 4) & (left != 0))


@job("reorganise_folded", lambda: Reorganise(FOLDED), cut=("t:$mul", "t:$mem_v2"))
@job("reorganise", lambda: Reorganise(REORGANISES), cut=("t:$mul", "t:$mem_v2"))
def _reorganise(h):
    """Terms of one sum are apart, and all are in memory when it is no longer busy."""
    dut, latency = h.dut, result_latency(h.dut._config)
    bind_streams(h)
    pixels, (line, groups) = h.block("pixels"), _entering(h, latency)
    entered = dut.enter & dut.ready
    running = h.before(dut.busy | dut.start)
    h.assume("d: stands from the start on, while busy", ~running | (h.before(dut.d.as_value()) == dut.d.as_value()))
    h.assume("start: only while not busy", ~dut.start | ~dut.busy)
    h.assume("last: ends a row", ~dut.last | dut.row)
    h.assume("start: of a tile with lanes", ~dut.start | (dut.d.lanes_last != 0))
    streams = h.state("", "STREAM")
    h.prove("ready: only while busy", ~dut.ready | dut.busy)
    h.prove("ready: only where vectors may enter", ~dut.ready | streams)
    h.prove("ready: no window of the last vector is left", ~dut.ready | (h.signal("pace") == 0))
    h.prove("next_ready: ready of the next cycle", h.before(dut.next_ready) == dut.ready)
    h.prove("next_valid: o.valid of the next cycle", h.before(dut.next_valid) == dut.o.valid)
    h.prove("STREAM: in time for the last vector's windows", ~streams | dut.ready | (h.signal("pace") != 0))
    term, left = h.block("sums").term, h.signal("pixels.left")
    count, settles, ends, swap = h.signal("count"), h.state("", "SETTLE"), h.state("", "END"), dut.d.swap
    # Cycles since something entered, since it arrived, and since the last flush.
    age, since, flushed = (Signal(range(64), name=name, init=63) for name in ("age", "since", "flushed"))
    flush = h.state("", "FLUSH")
    for counter, event in ((age, entered), (since, line[-1]), (flushed, flush)):
        with h.m.If(event):
            h.m.d.sync += counter.eq(1)
        with h.m.Elif(~counter.all()):
            h.m.d.sync += counter.eq(counter + 1)
    h.prove("age: since the last that entered", Cat(~line[k] | (age <= k + 1) for k in range(latency)).all())
    h.prove("age: counted from 1", (age != 0) & (since != 0) & (flushed != 0))
    h.prove("FLUSH: without swap", ~flush | ~swap)
    h.prove("LOCATE: with swap", ~h.state("", "LOCATE") | swap)
    h.prove("age: the last that entered is there", Cat((age != k + 1) | line[k] for k in range(latency)).all())
    h.prove("since: later by the epilogue's cycles", (age <= latency) | (since == age - latency)
            | (age.all() & (since >= age - latency)))  # fmt: skip
    h.prove("SETTLE: until all has settled", ~settles | (age + count == dut.settle_cycles))
    for state in ("FIRST", "LOCATE", "FLUSH", "END"):
        h.prove(f"{state}: nothing is in the epilogue", ~h.state("", state) | ((line | groups) == 0))
    h.prove("IDLE: nothing is in the epilogue", dut.busy | ((line | groups) == 0))
    h.prove("SETTLE: no group after the last vector",
            ~settles | Cat(~groups[k] | (age <= k) for k in range(latency)).all())  # fmt: skip
    _paced(h, line, groups, age, since)
    steps = h.state("", "FIRST") | h.state("", "LOCATE") | (line[-1] & ~swap)
    h.prove("walk: a pixel for each vector, or each of its lanes", h.block("walk").step == steps)
    h.prove("pixels: a vector's windows, one a cycle", (left == 0) | (sum(left) + since <= N_WINDOWS + 1))
    terms = [s for s in h.signals("pixels.stage") if len(s) == 1][: pixels.latency - 1]
    for number, stage in enumerate(terms):
        h.prove(f"pixels: a term {number + 1} cycles behind", ~stage | (since <= N_WINDOWS + number + 1))
    for number, stage in enumerate(s for s in h.signals("filters.stage") if len(s) == 1):
        h.prove(f"filters: stage {number} a cycle behind the flush", ~stage | (flushed == 1))
    cycles = max(pixels.latency, FilterTerms.LATENCY) + WindowSums.ADD_LATENCY
    h.prove(
        "END: with swap, some cycles behind the end",
        ~(ends & swap) | (age + count == dut.settle_cycles + cycles),
    )
    h.prove("END: else behind the flush", ~ends | swap | (flushed + count == cycles))
    quiet = Signal(WindowSums.ADD_LATENCY - 1, init=(1 << (WindowSums.ADD_LATENCY - 1)) - 1)
    h.m.d.sync += quiet.eq(Cat(~term.valid, quiet))
    # Each of the last terms was so long ago that it must have come before the end.
    for number, there in enumerate([term.valid, *~quiet]):
        h.prove(f"{number} cycles ago: no term later than its cause", ~there | Mux(
            swap, since <= N_WINDOWS + len(terms) + number, flushed <= number + FilterTerms.LATENCY))  # fmt: skip
    h.prove("terms are in memory when it isn't busy", dut.busy | (quiet.all() & ~term.valid))
    for name, here in (("filters", ~dut.d.swap), ("pixels", dut.d.swap)):
        h.cover(f"{name}: a term", term.valid & here & dut.busy)
    h.cover("sums are given", dut.o.valid)
    if dut._config is FOLDED:
        h.cover("a group before a vector's last comes", dut.busy & groups[-1])
