"""Bias memory: the biases of two output tiles, aligned for the accumulator."""

from amaranth import Array, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..spec.config import Config

__all__ = ["BiasMemory"]


class BiasMemory(wiring.Component):
    """Two halves of ``bias_elements`` accumulator-wide values, ``cols`` to the word.

    Written element by element: ``valid`` with ``data`` for ``half``, the element after the last one, or
    element 0 with ``start``. Read every cycle: ``o`` follows ``LATENCY`` cycles after ``r_half``,
    ``r_word``, ``r_lane`` and ``r_serial``; lane l of it is element ``r_word * cols + l``, or with
    ``r_serial`` element ``r_word * cols + r_lane`` on all lanes.
    """

    LATENCY = 2

    def __init__(self, config: Config):
        self._layout = data.ArrayLayout(signed(config.acc_width), config.cols)
        self._words = config.bias_elements // config.cols
        super().__init__({
            "valid": In(1), "half": In(1), "start": In(1), "data": In(signed(config.acc_width)),
            "r_half": In(1), "r_word": In(range(self._words)), "r_lane": In(range(config.cols)), "r_serial": In(1),
            "o": Out(self._layout),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        cols = self._layout.length
        m.submodules.memory = memory = Memory(shape=self._layout, depth=2 * self._words, init=[])
        write, read = memory.write_port(granularity=1), memory.read_port()

        next_word = Signal(range(self._words))
        next_lane = Signal(range(cols))
        word = Mux(self.start, 0, next_word)
        lane = Mux(self.start, 0, next_lane)
        with m.If(self.valid):
            wrap = lane == cols - 1
            m.d.sync += [next_lane.eq(Mux(wrap, 0, lane + 1)), next_word.eq(word + wrap)]
        m.d.comb += [
            write.addr.eq(self.half * self._words + word),
            write.en.eq(Mux(self.valid, 1 << lane, 0)),
            read.addr.eq(self.r_half * self._words + self.r_word),
            read.en.eq(1),
        ]
        for i in range(cols):
            m.d.comb += write.data[i].eq(self.data)

        s1_lane = Signal.like(self.r_lane)
        s1_serial = Signal()
        chosen = Signal(self._layout.elem_shape)
        m.d.comb += chosen.eq(Array(read.data[i] for i in range(cols))[s1_lane])
        m.d.sync += [s1_lane.eq(self.r_lane), s1_serial.eq(self.r_serial)]
        for i in range(cols):
            m.d.sync += self.o[i].eq(Mux(s1_serial, chosen, read.data[i]))
        return m
