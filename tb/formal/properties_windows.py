"""Job: sums of a vector's results by window, where the vector comes in several groups of lanes."""

from dataclasses import replace

from adagp.rtl.drain.pixel_terms import PixelTerms
from adagp.rtl.drain.window_sums import N_WINDOWS
from amaranth import Cat, Mux, Signal

from .properties_reorganise import REORGANISES
from .registry import job

__all__ = []

FOLDED = replace(REORGANISES, cols=5, epilogue_lanes=2, n_filters=2)
"""A vector is three groups; the last one has a lane that there isn't."""
GROUPS, WIDTH = FOLDED.folds(FOLDED.cols), FOLDED.epilogue_width


def _before(value, place):
    """How many of the bits before a ``place`` are 1."""
    return sum(Mux(place > number, value[number], 0) for number in range(len(value)))


def _rows_rule(h, due, over):
    """What is assumed of rows of vectors; returns the windows of a row, whether its terms are fresh, and how many of
    its pixels are located, once it has begun; and windows of the pixel that is located.

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
