"""A table shared by host and machine, and bursts of reads from it."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["Burst", "Table"]


class Table(wiring.Component):
    """A memory of ``depth`` entries, all zero at power-up, with a host side and a machine side.

    Parameters
    ----------
    shape, depth
        shape and number of the entries

    Members
    -------
    index : In(range(depth))
        the host's entry
    show : In(1)
        read entry ``index``
    shown : Out(shape)
        the entry read last, from the second cycle after ``show`` on
    set, value : In
        write ``value`` to entry ``index``, unless the machine writes in that cycle
    addr : In(range(depth))
        the machine's entry to read
    ready : Out(1)
        ``addr`` is read in this cycle; low only when the host is shown an entry
    data : Out(shape)
        the machine's entry
    write, write_addr, write_data : In
        write an entry for the machine

    Timing
    ------
    ``data`` follows one cycle after ``addr`` with ``ready``; an entry a cycle.
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
        # Without reset, since the host may look while the machine is reset.
        reading, shown = Signal(reset_less=True), Signal(self.shape, reset_less=True)
        m.d.sync += reading.eq(self.show)
        with m.If(reading):
            m.d.sync += shown.eq(read.data)
        m.d.comb += self.shown.eq(shown)
        return m


class Burst(wiring.Component):
    """Reads ``count`` entries of a :class:`Table`, one after the other.

    Parameters
    ----------
    shape, count
        shape and number of the entries

    Members
    -------
    start : In(1)
        begin; only while no other burst runs
    position : Out(range(count))
        number of the present entry; the owner makes the address from it
    ready, data : In
        the table's ports
    found : Out(data.ArrayLayout(shape, count))
        the entries, from ``done`` on until the next burst
    done : Out(1)
        pulses when all entries are in ``found``

    Timing
    ------
    ``done`` comes ``count + BURST_LATENCY`` cycles after ``start``, and one later for each cycle without ``ready``.
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
