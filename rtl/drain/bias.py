"""Bias memory: the biases of two output tiles, aligned for the accumulator."""

from amaranth import Array, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.block_memory import BlockMemory
from ..lib.delay import delayed

__all__ = ["BiasMemory"]


class BiasMemory(wiring.Component):
    """Two halves of ``bias_words`` words. A word has ``cols`` values as wide as the accumulator (DEPTHWISE: ``rows``).

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
    r_serial, r_lane : In
        with ``r_serial``, all lanes get element ``r_word * cols + r_lane``
    r_none : In(1)
        ``o`` is 0 a cycle later
    o : Out(array of values)
        the values; lane l is element ``r_word * cols + l``

    Timing
    ------
    ``o`` follows ``LATENCY`` cycles after the other read ports, a word a cycle.
    """

    LATENCY = 3

    def __init__(self, config: Config):
        self._config = config
        lanes = max(config.rows, config.cols) if config.convolves_channels else config.cols
        self._layout = data.ArrayLayout(signed(config.acc_width), lanes)
        self._words = config.bias_words
        super().__init__({
            "valid": In(1), "half": In(1), "start": In(1), "data": In(signed(config.acc_width)),
            **({"vector": In(1)} if config.convolves_channels else {}),
            "r_half": In(1), "r_word": In(range(self._words)), "r_lane": In(range(config.cols)), "r_serial": In(1),
            "r_none": In(1),
            "o": Out(self._layout),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        lanes, last = self._layout.length, self._config.cols - 1
        if self._config.convolves_channels:
            last = Mux(self.vector, self._config.rows - 1, last)
        m.submodules.memory = memory = BlockMemory(self._layout, 2 * self._words, granularity=1)

        next_word = Signal(range(self._words))
        next_lane = Signal(range(lanes))
        word = Mux(self.start, 0, next_word)
        lane = Mux(self.start, 0, next_lane)
        with m.If(self.valid):
            wrap = lane == last
            m.d.sync += [next_lane.eq(Mux(wrap, 0, lane + 1)), next_word.eq(word + wrap)]
        m.d.comb += [
            memory.w_addr.eq(self.half * self._words + word),
            memory.w_en.eq(Mux(self.valid, 1 << lane, 0)),
            memory.r_addr.eq(self.r_half * self._words + self.r_word),
            memory.r_en.eq(1),
        ]
        for i in range(lanes):
            m.d.comb += memory.w_data[i].eq(self.data)

        s2_lane, s2_serial = (delayed(m, value, 2, reset=False) for value in (self.r_lane, self.r_serial))
        s2_word = Signal(self._layout, reset_less=True)
        chosen = Signal(self._layout.elem_shape)
        m.d.sync += s2_word.eq(memory.r_data)
        m.d.comb += chosen.eq(Array(s2_word)[s2_lane])
        for i in range(lanes):
            m.d.sync += self.o[i].eq(Mux(s2_serial, chosen, s2_word[i]))
        with m.If(self.r_none):
            m.d.sync += self.o.eq(0)
        return m
