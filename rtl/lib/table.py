"""A table that host and machine share, and bursts of reads from it."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["Burst", "Table"]


class Table(wiring.Component):
    """``depth`` entries of ``shape``, all zero at power-up, in one 1R1W memory.

    Host side: ``show`` reads entry ``index``, which stays on ``shown`` from the second cycle after it on; ``set``
    writes ``value`` to it, unless the machine writes in that cycle.

    Machine side: entry ``addr`` appears on ``data`` one cycle after a cycle with ``ready``, which is
    low only when the host is shown an entry; ``write`` writes ``write_data`` to ``write_addr``.
    """

    def __init__(self, shape, depth: int):
        self.shape = shape
        self.depth = depth
        super().__init__({
            "index": In(range(depth)), "show": In(1), "shown": Out(shape), "set": In(1), "value": In(shape),
            "addr": In(range(depth)), "ready": Out(1), "data": Out(shape),
            "write": In(1), "write_addr": In(range(depth)), "write_data": In(shape),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=self.shape, depth=self.depth, init=[])
        read = memory.read_port()
        write = memory.write_port()
        m.d.comb += [
            self.ready.eq(~self.show),
            read.addr.eq(Mux(self.show, self.index, self.addr)),
            self.data.eq(read.data),
            write.en.eq(self.write | self.set),
            write.addr.eq(Mux(self.write, self.write_addr, self.index)),
            write.data.eq(Mux(self.write, self.write_data, self.value)),
        ]
        # The host may look while the machine is reset.
        reading, shown = Signal(reset_less=True), Signal(self.shape, reset_less=True)
        m.d.sync += reading.eq(self.show)
        with m.If(reading):
            m.d.sync += shown.eq(read.data)
        m.d.comb += self.shown.eq(shown)
        return m


class Burst(wiring.Component):
    """Reads ``count`` entries of a :class:`Table` one after the other.

    ``start`` (only while no other burst runs) begins; ``position`` counts the entries, whose address the
    owner makes of it; ``found`` holds them from the pulse of ``done`` on, ``count + BURST_LATENCY`` cycles
    after ``start`` and one more for each cycle the table wasn't ready, until the next burst.
    """

    BURST_LATENCY = 2

    def __init__(self, shape, count: int):
        self.count = count
        super().__init__({
            "start": In(1), "position": Out(range(count)), "ready": In(1), "data": In(shape),
            "found": Out(data.ArrayLayout(shape, count)), "done": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        busy = Signal()
        s1_valid = Signal()
        s1_last = Signal()
        last = self.position == self.count - 1
        width = len(self.data.as_value())
        m.d.sync += [s1_valid.eq(busy & self.ready), s1_last.eq(last), self.done.eq(s1_valid & s1_last)]
        with m.If(self.start):
            m.d.sync += [busy.eq(1), self.position.eq(0)]
        with m.Elif(busy & self.ready):
            m.d.sync += [busy.eq(~last), self.position.eq(self.position + 1)]
        with m.If(s1_valid):
            m.d.sync += self.found.as_value().eq(Cat(self.found.as_value()[width:], self.data.as_value()))
        return m
