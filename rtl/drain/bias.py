"""Bias memory: the biases of two output tiles, aligned for the accumulator."""

from amaranth import Array, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.block_memory import BlockMemory
from ..lib.delay import delayed

__all__ = ["BiasMemory", "walk_biases"]


class BiasMemory(wiring.Component):
    """Two halves of ``bias_words`` words. A word has ``cols`` values as wide as the accumulator (DEPTHWISE: ``rows``).

    It is read in groups of as many values as the epilogue has lanes.

    Members
    -------
    valid, data : In
        write ``data`` to the element after the last one
    half : In(1)
        half that is written
    start : In(1)
        with ``valid``: write element 0
    vector : In(1)
        ``rows`` values to a word; with ``Config.depthwise``
    r_half, r_word : In
        word to read, every cycle
    r_group : In
        group of the word to read; only if a word has several
    r_serial, r_lane : In
        with ``r_serial``, all lanes get element ``r_word * cols + r_lane``
    r_none : In(1)
        ``o`` is 0 a cycle later
    o : Out(array of values)
        the values; lane l is element ``r_word * cols + r_group * epilogue_width + l``

    Timing
    ------
    ``o`` follows ``LATENCY`` cycles after the other read ports, a word a cycle.
    """

    LATENCY = 3

    def __init__(self, config: Config):
        self._config = config
        lanes = max(config.rows, config.cols) if config.convolves_channels else config.cols
        width = min(config.epilogue_width, lanes)
        self._lanes, self._groups = lanes, -(-lanes // width)
        self._layout = data.ArrayLayout(signed(config.acc_width), width)
        self._words = config.bias_words
        super().__init__({
            "valid": In(1), "half": In(1), "start": In(1), "data": In(signed(config.acc_width)),
            **({"vector": In(1)} if config.convolves_channels else {}),
            "r_half": In(1), "r_word": In(range(self._words)), "r_lane": In(range(config.cols)), "r_serial": In(1),
            "r_none": In(1), **({"r_group": In(range(self._groups))} if self._groups > 1 else {}),
            "o": Out(self._layout),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        last = self._config.cols - 1
        if self._config.convolves_channels:
            last = Mux(self.vector, self._config.rows - 1, last)
        group_bits = (self._groups - 1).bit_length()
        m.submodules.memory = memory = BlockMemory(self._layout, 2 * self._words << group_bits, granularity=1)

        next_word = Signal(range(self._words))
        next_lane = Signal(range(self._lanes))
        word = Mux(self.start, 0, next_word)
        lane = Mux(self.start, 0, next_lane)
        with m.If(self.valid):
            wrap = lane == last
            m.d.sync += [next_lane.eq(Mux(wrap, 0, lane + 1)), next_word.eq(word + wrap)]
        (w_group, w_place), (group, place) = self._split(lane), self._split(self.r_lane)
        if self._groups > 1:
            group = Mux(self.r_serial, group, self.r_group)
        m.d.comb += [
            memory.w_addr.eq(Cat(w_group, self.half * self._words + word)),
            memory.w_en.eq(Mux(self.valid, 1 << w_place, 0)),
            memory.r_addr.eq(Cat(group[:group_bits], self.r_half * self._words + self.r_word)),
            memory.r_en.eq(1), *(lane.eq(self.data) for lane in memory.w_data),
        ]  # fmt: skip

        s2_place, s2_serial = (delayed(m, value, 2, reset=False) for value in (place, self.r_serial))
        s2_word = Signal(self._layout, reset_less=True)
        chosen = Signal(self._layout.elem_shape)
        m.d.sync += s2_word.eq(memory.r_data)
        m.d.comb += chosen.eq(Array(s2_word)[s2_place])
        for value, own in zip(self.o, s2_word, strict=True):
            m.d.sync += value.eq(Mux(s2_serial, chosen, own))
        with m.If(self.r_none):
            m.d.sync += self.o.eq(0)
        return m

    def _split(self, lane):
        """The group of ``lane``, and its place there."""
        if self._groups == 1:
            return Const(0, 0), lane
        groups, places = zip(*(divmod(each, self._layout.length) for each in range(self._lanes)), strict=True)
        bits = (self._groups - 1).bit_length(), (self._layout.length - 1).bit_length()
        return tuple(
            Array(map(Const, of, [n] * len(of)))[lane][:n] for of, n in zip((groups, places), bits, strict=True)
        )


def walk_biases(m, config: Config, d, step, moving) -> tuple:
    """Word and lane of the bias of a descriptor's ``step``, which is over with ``moving``.

    Output o of a descriptor ``d`` has word o. With ``swap``, input i has element i, on all lanes.
    """
    word, lane = Signal(range(config.bias_words)), Signal(range(config.cols))
    with m.If(moving):
        with m.If(d.swap):
            wrap = lane == config.cols - 1
            m.d.sync += [lane.eq(Mux(wrap, 0, lane + 1)), word.eq(word + wrap)]
            with m.If(step.row_end):
                m.d.sync += [lane.eq(0), word.eq(0)]
        with m.Else():
            m.d.sync += word.eq(word + step.row_end)
        with m.If(step.last):
            m.d.sync += word.eq(0)
    return word, lane
