"""An AXI4 master on a slave whose data are wider: bursts stay narrow, bytes go where the wider bus has them."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from ..rtl.memory.axi import OUTSTANDING

__all__ = ["AxiWiden", "widened"]


def widened(signature: wiring.Signature, width: int) -> wiring.Signature:
    """An AXI4 master's signature with ``width`` bits of data."""
    widths = {"rdata": width, "wdata": width, "wstrb": width // 8}
    return wiring.Signature({
        name: member.flow(widths.get(name, member.shape)) for name, member in signature.members.items()
    })  # fmt: skip


class _Lanes(wiring.Component):
    """Which part of the wide bus each beat of data belongs to: bursts come in the order of their addresses.

    ``begin`` with a burst's first ``part``, while ``room``; ``o`` is valid while there is a burst, and moves on with
    ``step``, which is a burst's ``last``.
    """

    def __init__(self, n_parts: int):
        self._shape = range(n_parts)
        super().__init__({
            "begin": In(1), "part": In(self._shape), "room": Out(1),
            "valid": Out(1), "o": Out(self._shape), "step": In(1), "last": In(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = SyncFIFO(width=len(self.part), depth=2 * OUTSTANDING)  # the link's bursts too
        count = Signal(self._shape)
        m.d.comb += [
            queue.w_en.eq(self.begin), queue.w_data.eq(self.part), self.room.eq(queue.w_rdy),
            self.valid.eq(queue.r_rdy), self.o.eq(queue.r_data + count), queue.r_en.eq(self.step & self.last),
        ]  # fmt: skip
        with m.If(self.step):
            m.d.sync += count.eq(Mux(self.last, 0, count + 1))
        return m


class AxiWiden(wiring.Component):
    """Joins ``i``, from a master of whole-beat INCR bursts, to ``o``, whose data are ``width`` bits wide.

    No latency. Each beat stays one, so the slave moves a part of its width at a time. The slave must answer reads in
    the order in which it took their addresses. ``width`` must be a power of two times the master's.
    """

    def __init__(self, signature: wiring.Signature, width: int):
        self._narrow = signature.members["wdata"].shape
        self._n_parts = width // self._narrow
        super().__init__({"i": In(signature), "o": Out(widened(signature, width))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.reads = reads = _Lanes(self._n_parts)
        m.submodules.writes = writes = _Lanes(self._n_parts)
        for name, member in self.o.signature.members.items():
            i, o = getattr(self.i, name), getattr(self.o, name)
            if len(i) == len(o):
                m.d.comb += o.eq(i) if member.flow == Out else i.eq(o)
        for lanes, prefix in ((reads, "ar"), (writes, "aw")):
            valid, ready, addr = (getattr(self.i, prefix + name) for name in ("valid", "ready", "addr"))
            m.d.comb += [
                getattr(self.o, f"{prefix}valid").eq(valid & lanes.room),
                ready.eq(getattr(self.o, f"{prefix}ready") & lanes.room),
                lanes.begin.eq(valid & ready),
                lanes.part.eq(addr >> (self._narrow // 8 - 1).bit_length()),
            ]
        m.d.comb += [
            reads.step.eq(self.o.rvalid & self.o.rready), reads.last.eq(self.o.rlast),
            self.i.rdata.eq(self.o.rdata.word_select(reads.o, self._narrow)),
            writes.step.eq(self.o.wvalid & self.o.wready), writes.last.eq(self.i.wlast),
            self.o.wvalid.eq(self.i.wvalid & writes.valid), self.i.wready.eq(self.o.wready & writes.valid),
            self.o.wdata.eq(self.i.wdata.replicate(self._n_parts)),
            self.o.wstrb.word_select(writes.o, self._narrow // 8).eq(self.i.wstrb),
        ]  # fmt: skip
        return m
