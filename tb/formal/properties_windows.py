"""Jobs: sums of results by window, where a vector's results come in several groups of lanes."""

from adagp.rtl.drain.filter_terms import FilterTerms
from adagp.rtl.drain.pixel_terms import PixelTerms
from adagp.rtl.drain.window_sums import N_WINDOWS, tile_width
from amaranth import Cat, Mux, Signal, signed

from .properties_reorganise import FOLDED
from .registry import job

__all__ = []

GROUPS, WIDTH = FOLDED.folds(FOLDED.cols), FOLDED.epilogue_width


def _before(value, place):
    """The number of bits before a ``place`` that are 1."""
    return sum(Mux(place > number, value[number], 0) for number in range(len(value)))


def _rows_rule(h, due, over):
    """Assume rows of vectors as the epilogue gives them.

    Returns the windows of a row, a bit for fresh terms, the number of pixels located since it began, and the windows of
    the pixel that is being located.

    ``due``: results of the vector before are still to be read for a term; ``over``: none of them can be any more.
    """
    dut, d, part = h.dut, h.dut.d, h.dut.i
    cleared, begun, fresh = (Signal(name=name) for name in ("cleared", "begun_model", "fresh_model"))
    located, group = Signal(range(FOLDED.cols + 1), name="located"), Signal(range(GROUPS), name="group")
    last, wanted = Signal(range(GROUPS), name="last_group"), Signal(N_WINDOWS, name="wanted_model")
    ends = h.free(range(GROUPS), name="row_ends")
    h.assume("a row ends in a group that there is", ends < GROUPS)
    h.assume("d: stands", h.fresh | (h.before(d.as_value()) == d.as_value()) | h.before(dut.start))
    h.assume("one thing at a time", dut.start + dut.clear + dut.locate + dut.valid <= 1)
    h.assume("start, clear: between vectors", ~(dut.start | dut.clear) | ((group == 0) & over))
    h.assume("locate: each pixel of a row", ~dut.locate | (cleared & (located != FOLDED.cols)))
    h.assume("valid: a row's pixels are located", ~dut.valid | (cleared & (located == FOLDED.cols)))
    h.assume("valid: all terms but the last one of the vector before are read", ~dut.valid | ~due)
    h.assume("i: the row's groups in their order",
             ~dut.valid | ((part.group == group) & (part.final == (group == last))))  # fmt: skip
    with h.m.If(dut.start):
        h.m.d.sync += [cleared.eq(0), begun.eq(0)]
    first = d.fresh & ~begun
    with h.m.If(dut.clear):
        h.m.d.sync += [
            cleared.eq(1), begun.eq(1), fresh.eq(first), located.eq(0), last.eq(ends),
            wanted.eq(first.replicate(N_WINDOWS)),
        ]  # fmt: skip
    windows = Cat(dut.rows[window >> 1] & dut.columns[window & 1] for window in range(N_WINDOWS))
    with h.m.If(dut.locate):
        h.m.d.sync += [located.eq(located + 1), wanted.eq(wanted | windows)]
    with h.m.If(dut.valid):
        h.m.d.sync += group.eq(Mux(part.final, 0, group + 1))
    h.prove("wanted: windows of any pixel, all where sums begin", dut.wanted == wanted)
    h.prove("fresh: the first row of those that begin sums",
            (h.signals("$signal")[0] == begun) & (h.signal("fresh") == fresh))  # fmt: skip
    return wanted, fresh, cleared, located, windows


@job("pixel_terms_folded", lambda: PixelTerms(FOLDED))
def _pixel_terms_folded(h):
    """One arbitrary pixel, others being 0, and one window are followed: the window's terms have the pixel's results."""
    dut, part = h.dut, h.dut.i
    pixel, window = h.constant(range(FOLDED.cols)), h.constant(range(N_WINDOWS))
    h.assume("the pixel is one of a vector", pixel < FOLDED.cols)
    of_group, of_place = pixel // WIDTH, pixel % WIDTH
    age = Signal(range(N_WINDOWS + 2), init=N_WINDOWS + 1, name="age")  # cycles since a vector's last group
    with h.m.If(age <= N_WINDOWS):
        h.m.d.sync += age.eq(age + 1)
    with h.m.If(dut.valid & part.final):
        h.m.d.sync += age.eq(1)
    count = Signal(range(N_WINDOWS + 1), name="n_wanted")
    wanted, fresh, cleared, located, windows = _rows_rule(h, age < count, age >= N_WINDOWS)
    h.m.d.comb += count.eq(sum(wanted))
    here = dut.valid & (part.group == of_group)
    for place in range(WIDTH):
        others = ~dut.valid | (here & (of_place == place)) | (part.values[place] == 0)
        h.assume(f"i: the pixel's result alone, {place} has another one's", others)
    result, inside = Signal(FOLDED.operand_width, name="result"), Signal(N_WINDOWS, name="inside")
    number = Signal.like(h.signal("filter"), name="number")  # of the filter
    with h.m.If(dut.locate & (located == pixel)):
        h.m.d.sync += inside.eq(windows)
    with h.m.If(dut.clear):
        h.m.d.sync += [result.eq(0), number.eq(dut.d.at[2:] - 1)]
    with h.m.If(here):
        h.m.d.sync += result.eq(Mux(part.mask.bit_select(of_place, 1), part.values[of_place], 0))
    with h.m.If(dut.valid & part.final):
        h.m.d.sync += number.eq(number + 1)
    comes = wanted.bit_select(window, 1) & (age == 1 + _before(wanted, window))
    expected = Cat(comes, Mux(inside.bit_select(window, 1), result, 0), number, fresh)
    for _ in range(dut.latency - 1):
        expected = h.before(expected)
    bits = len(result)
    value, at, begins = expected[1 : 1 + bits].as_signed(), expected[1 + bits : -1], expected[-1]
    h.prove("term: one for each wanted window, in their order",
            (dut.term.valid & (dut.term.at[:2] == window)) == expected[0])  # fmt: skip
    h.prove("term: the filter's sum, fresh or not",
            ~expected[0] | ((dut.term.at == Cat(window, at)) & (dut.term.fresh == begins)))  # fmt: skip
    h.prove("term: the pixel's result if it lies in the window", ~expected[0] | (dut.term.value == value))
    _state_rule(h, pixel, (age, wanted, cleared, located), (result, inside, number))
    h.cover("term: of the last group's pixel", expected[0] & (pixel == FOLDED.cols - 1) & (value != 0))
    h.cover("term: a vector's fourth, as the next one's first group comes", dut.valid & (age == N_WINDOWS) & comes)
    h.cover("term: the second filter's, added to", expected[0] & ~begins & (at == 1) & (value != 0))


def _state_rule(h, pixel, row, followed):
    """Registers hold the pixel's result and windows, and the windows that are left."""
    (age, wanted, cleared, located), (result, inside, number), cols = row, followed, FOLDED.cols
    left, held, places = h.signal("left"), h.signal("held"), h.signal("places")
    h.prove("age: counted from 1, over where there are no vectors",
            (age != 0) & ((cleared & (located == cols)) | (age > N_WINDOWS)))  # fmt: skip
    for n in range(N_WINDOWS):
        h.prove(f"left: window {n} until its term", left[n] == (wanted[n] & (age <= 1 + sum(wanted[:n]))))
    width, size = len(result), len(places) // cols
    for lane in range(cols):
        mine = Mux(pixel == lane, result, 0)
        h.prove(f"held: lane {lane} of the row", ~cleared | (held.word_select(lane, width) == mine))
    for done in range(1, cols + 1):  # pixels that are located move down
        for lane in range(done):
            place = places.word_select(cols - done + lane, size)
            at = Cat(place[2 + (n >> 1)] & place[n & 1] for n in range(N_WINDOWS))
            h.prove(f"places: of pixel {lane}, {done} being located",
                    (located != done) | (pixel != lane) | (at == inside))  # fmt: skip
    h.prove("filter: of the vector", h.signal("filter") == number)


def _flushes_rule(h):
    """Assume vectors and flushes as the epilogue gives them.

    Returns the group that is to come, a row's last one, and two bits: the row had none yet, a flush is under way.
    """
    dut, part = h.dut, h.dut.i
    group, last = Signal(range(GROUPS), name="group"), Signal(range(GROUPS), name="last_group")
    empty, quiet = Signal(init=1, name="empty"), Signal(3, init=7, name="quiet")
    ends, flushing = h.free(range(GROUPS), name="row_ends"), h.before(dut.flush & ~dut.done)
    h.m.d.sync += quiet.eq(Cat(~(dut.valid | dut.flush), quiet))
    with h.m.If(dut.start | dut.done):
        h.m.d.sync += [last.eq(ends), empty.eq(1)]
    with h.m.If(dut.valid):
        h.m.d.sync += [group.eq(Mux(part.final, 0, group + 1)), empty.eq(0)]
    d, windows = dut.d.as_value(), Cat(dut.rows, dut.columns)
    h.assume("a row ends in a group that there is", ends < GROUPS)
    h.assume("d: stands", h.fresh | (h.before(d) == d) | h.before(dut.start))
    h.assume("one thing at a time", dut.start + dut.flush + dut.valid <= 1)
    h.assume("i: the row's groups in their order",
             ~dut.valid | ((part.group == group) & (part.final == (group == last))))  # fmt: skip
    h.assume("rows, columns: stand within a vector", (group == 0) | (h.before(windows) == windows))
    h.assume("valid: some cycles after a flush", ~(dut.valid & empty) | quiet.all())
    h.assume("flush: some cycles after the last vector, to its end",
             Mux(flushing, dut.flush, ~dut.flush | (quiet.all() & (group == 0))))  # fmt: skip
    h.assume("n_lanes: stands in a flush", ~flushing | (h.before(dut.n_lanes) == dut.n_lanes))
    some = (dut.n_lanes != 0) & (dut.n_lanes <= FOLDED.cols) & (dut.n_lanes <= (last + 1) * WIDTH)
    h.assume("n_lanes: of the row's groups", ~dut.flush | some)
    h.assume("start: between rows, at a filter's first sum",
             ~dut.start | (empty & quiet.all() & (dut.d.at[:2] == 0)))  # fmt: skip
    h.prove("group: one of the row's", (group <= last) & (last < GROUPS) & (~(empty | flushing) | (group == 0)))
    return group, last, empty, flushing


@job("filter_terms_folded", lambda: FilterTerms(FOLDED))
def _filter_terms_folded(h):
    """One arbitrary filter and window are followed: their term is the sum of the row's results."""
    dut, d, part = h.dut, h.dut.d, h.dut.i
    lane, window = h.constant(range(FOLDED.cols)), h.constant(range(N_WINDOWS))
    h.assume("the filter is one of a vector", lane < FOLDED.cols)
    of_group, of_place, width = lane // WIDTH, lane % WIDTH, tile_width(FOLDED)
    group, last, empty, flushing = _flushes_rule(h)
    total, some, whole = Signal(signed(width), name="total"), Signal(name="some"), Signal(name="whole")
    inside = dut.rows.any() & dut.columns.any() & (Cat(~dut.columns[0], ~dut.rows[0]) == window)
    mine = dut.valid & inside & (part.group == of_group)
    at_of_dut, flushed = h.signals("$signal")[0], Signal(range(N_WINDOWS * FOLDED.cols), name="flushed")
    at = Signal.like(at_of_dut, name="at_of_model")
    with h.m.If(mine):
        h.m.d.sync += [some.eq(1), total.eq(Mux(some, total, 0) + part.values[of_place])]
    with h.m.If(dut.valid & part.final & inside):
        h.m.d.sync += whole.eq(1)
    with h.m.If(dut.flush):
        h.m.d.sync += [flushed.eq(flushed + 1), at.eq(at + 1)]
    with h.m.If(dut.start):
        h.m.d.sync += at.eq(d.at)
    with h.m.If(dut.done):
        h.m.d.sync += [flushed.eq(0), some.eq(0), whole.eq(0)]
    h.prove("done: after the terms of all filters", dut.done == (dut.flush & (flushed + 1 == N_WINDOWS * dut.n_lanes)))
    h.prove("flushed: terms of a flush that goes on", Mux(flushing, flushed < N_WINDOWS * dut.n_lanes, flushed == 0))
    first = Cat(at[0] & (d.width != 1), at[1] & (d.height != 1))  # of windows with the same pixels
    asked = dut.flush & ((flushed >> 2) == lane) & (first == window)
    expected = h.before(h.before(Cat(dut.flush, asked, Mux(some, total, 0), at, d.fresh)))
    value, number, fresh = expected[2 : 2 + width].as_signed(), expected[2 + width : -1], expected[-1]
    h.prove("term: one for each filter and window", dut.term.valid == expected[0])
    h.prove("term: in their order, fresh or not",
            ~expected[0] | ((dut.term.at == number) & (dut.term.fresh == fresh)))  # fmt: skip
    h.prove("term: the sum of the filter's results in the window", ~expected[1] | (dut.term.value == value))
    held = h.word("memory", Cat(window, of_group)).word_select(of_place, width)
    h.prove("the sum is in memory a cycle later", ~h.before(some) | (held == h.before(total.as_unsigned())))
    h.prove("touched: by a whole vector", h.signal("touched").bit_select(window, 1) == h.before(whole))
    passed = (group > of_group) & inside
    h.prove("some: of whole vectors, or of the present one", (of_group > last) | (some == (whole | passed)))
    h.prove("some: none in a row that is empty", ~empty | ~(some | whole))
    h.prove("lane, at: of the term",
            (h.signal("lane") == flushed >> 2) & (at_of_dut == at) & (at[:2] == flushed[:2]))  # fmt: skip
    h.cover("term: of the last group's filter", expected[1] & (lane == FOLDED.cols - 1) & (value != 0))
    h.cover("term: three results", expected[1] & (value == 3) & (h.before(h.before(h.count(mine, 0, 15))) == 3))
