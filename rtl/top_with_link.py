"""The accelerator with its host link. A board adds clocks, a memory controller and pins."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..spec.config import Config
from ..spec.link import BAUD
from .control.csr import AxiLite
from .link.link import Link
from .memory.axi import AxiMaster
from .memory.axi_share import SHARED_ID_BITS, AxiShare
from .top import Top

__all__ = ["TopWithLink"]


class TopWithLink(wiring.Component):
    """The accelerator, driven by a host on a serial line; one clock domain, ``sync``.

    Parameters
    ----------
    baud
        bits per second of the line
    clock_hz
        frequency of ``sync`` (default: the configuration's)

    Members
    -------
    rx, tx : In, Out
        the serial line
    m_axi : Out(AxiMaster(config, SHARED_ID_BITS))
        AXI4 master of ``config.port_width`` bits, for the accelerator and the link
    dram_csr : Out(AxiLite())
        AXI4-Lite master, which gives the host the memory controller's registers

    Raises
    ------
    ValueError
        the line is too fast for the clock
    """

    def __init__(self, config: Config, baud: int = BAUD, clock_hz: int | None = None):
        self.config = config
        self._link = Link(config, baud, clock_hz)
        super().__init__({
            "rx": In(1, init=1), "tx": Out(1, init=1),
            "dram_csr": Out(AxiLite()), "m_axi": Out(AxiMaster(config, SHARED_ID_BITS)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.link = link = self._link
        m.submodules.top = top = Top(self.config)
        m.submodules.share = share = AxiShare(self.config)
        connect(m, link.csr, top.s_axil)
        connect(m, top.m_axi, share.host)
        connect(m, link.m_axi, share.guest)
        connect(m, share.axi, flipped(self.m_axi))
        connect(m, link.dram_csr, flipped(self.dram_csr))
        m.d.comb += [link.rx.eq(self.rx), self.tx.eq(link.tx), link.irq.eq(top.irq)]
        return m
