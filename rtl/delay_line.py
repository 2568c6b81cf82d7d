"""A wide value many cycles later, in a memory."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["DelayLine"]


class DelayLine(wiring.Component):
    """``o`` is ``i`` of ``cycles`` cycles ago, whatever the reset; before that it is anything.

    For data whose validity is known beside it. Raises ValueError for less than three cycles.
    """

    def __init__(self, shape, cycles: int):
        if cycles < 3:
            raise ValueError(f"a delay line has three cycles at least, not {cycles!r}")
        self._depth = cycles - 1  # the rest is the register behind the memory
        super().__init__({"i": In(shape), "o": Out(shape)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=self.i.shape(), depth=self._depth, init=[])
        read, write = memory.read_port(), memory.write_port()
        following = Signal(range(self._depth))
        place = Signal(range(self._depth), init=self._depth - 1)
        m.d.sync += [
            following.eq(Mux(following == self._depth - 1, 0, following + 1)),
            self.o.eq(read.data),
            place.eq(following),  # so the word read is the one written next: never at the same time
        ]
        m.d.comb += [read.addr.eq(following), write.addr.eq(place), write.en.eq(1), write.data.eq(self.i)]
        return m
