"""One AXI4 memory port for two masters, one of which seldom uses it."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from .axi import ID_BITS, OUTSTANDING, AxiMaster

__all__ = ["SHARED_ID_BITS", "AxiShare"]

SHARED_ID_BITS = ID_BITS + 1
"""Bits of an id at the port; the highest says which master's it is."""


class AxiShare(wiring.Component):
    """Puts ``guest``'s bursts in the gaps that ``host`` leaves on ``axi``; a guest's address delays the host at most.

    The guest reads while the host has no address to send. It writes while the host sends nothing and has no burst's
    data left to send. Both come only when the host pauses.

    Members
    -------
    host : In(AxiMaster(config))
        the master that goes first
    guest : In(AxiMaster(config))
        the other one; sends bursts of one beat, and offers a write's data without waiting for its address to be taken
    axi : Out(AxiMaster(config, SHARED_ID_BITS))
        the port; the highest bit of an id is 1 for the guest's bursts

    Timing
    ------
    No latency.
    """

    def __init__(self, config: Config):
        super().__init__({
            "host": In(AxiMaster(config)), "guest": In(AxiMaster(config)),
            "axi": Out(AxiMaster(config, SHARED_ID_BITS)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        reads, writes = Signal(), Signal()  # the guest owns the channels
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
        """Choose the owner of the address channels, and of the write data channel."""
        axi, host, guest = self.axi, self.host, self.guest
        waits = Signal()  # a guest's read address has been offered: it must stay
        m.d.comb += reads.eq(waits | guest.arvalid & ~host.arvalid)
        m.d.sync += waits.eq(reads & axi.arvalid & ~axi.arready)

        ahead = Signal(range(OUTSTANDING + 1))  # bursts of the host whose data haven't all been sent
        inside = Signal()  # a burst's data are being sent
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
