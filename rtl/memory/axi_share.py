"""One AXI4 memory port for two masters, of which one seldom asks for anything."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from .axi import ID_BITS, OUTSTANDING, AxiMaster

__all__ = ["SHARED_ID_BITS", "AxiShare"]

SHARED_ID_BITS = ID_BITS + 1
"""The highest bit of an id says whose it is."""


class AxiShare(wiring.Component):
    """Puts ``guest`` in the gaps that ``host`` leaves on ``axi``; the host is delayed by guest's address at most.

    No latency. The guest sends bursts of one beat, and offers a write's data without waiting for its address to be
    taken. It reads when the host has no address to send, and writes when the host is neither sending nor has a burst's
    data left to send; both come only when the host pauses.
    """

    def __init__(self, config: Config):
        super().__init__({
            "host": In(AxiMaster(config)), "guest": In(AxiMaster(config)),
            "axi": Out(AxiMaster(config, SHARED_ID_BITS)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        reads, writes = Signal(), Signal()  # the guest has the channels
        self._grant(m, reads, writes)
        for channels, owned in ((("ar",), reads), (("aw", "w"), writes)):
            for name, member in self.axi.signature.members.items():
                if not name.startswith(channels):
                    continue
                port, host, guest = (getattr(each, name) for each in (self.axi, self.host, self.guest))
                if member.flow == In:
                    m.d.comb += [host.eq(port & ~owned), guest.eq(port & owned)]
                elif name.endswith("id"):
                    m.d.comb += port.eq(Cat(Mux(owned, guest, host), owned))
                else:
                    m.d.comb += port.eq(Mux(owned, guest, host))
        for channel in ("r", "b"):
            owned = getattr(self.axi, f"{channel}id")[-1]
            names = [name for name in self.axi.signature.members if name[0] == channel]
            for name in names:
                port, host, guest = (getattr(each, name) for each in (self.axi, self.host, self.guest))
                if name.endswith("ready"):
                    m.d.comb += port.eq(Mux(owned, guest, host))
                elif name.endswith("valid"):
                    m.d.comb += [host.eq(port & ~owned), guest.eq(port & owned)]
                else:
                    m.d.comb += [host.eq(port), guest.eq(port)]
        return m

    def _grant(self, m, reads, writes):
        """Who has the channels of addresses, and of data to write."""
        axi, host, guest = self.axi, self.host, self.guest
        waits = Signal()  # a guest's address of a read has been offered: it must stay
        m.d.comb += reads.eq(waits | guest.arvalid & ~host.arvalid)
        m.d.sync += waits.eq(reads & axi.arvalid & ~axi.arready)

        ahead = Signal(range(OUTSTANDING + 1))  # bursts of the host whose data haven't all been sent
        inside = Signal()  # of a burst's data
        begun = host.awvalid & host.awready
        sent = host.wvalid & host.wready
        m.d.sync += ahead.eq(ahead + begun - (sent & host.wlast))
        with m.If(sent):
            m.d.sync += inside.eq(~host.wlast)
        with m.If(writes):
            address_left = guest.awvalid & ~axi.awready
            data_left = guest.wvalid & ~axi.wready
            m.d.sync += writes.eq(address_left | data_left)
        with m.Else():
            free = ~host.awvalid & ~host.wvalid & (ahead == 0) & ~inside
            m.d.sync += writes.eq(guest.awvalid & guest.wvalid & free)
