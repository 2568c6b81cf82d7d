"""The host link: frames on a serial line become accesses to registers and memory."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ...spec.config import Config
from ...spec.link import BAUD
from ..control.csr import AxiLite
from ..memory.axi import AxiMaster
from .byte_link import ByteLink
from .uart import UartReceiver, UartTransmitter

__all__ = ["Link"]


class Link(wiring.Component):
    """A host on a serial line that acts on three buses; see :mod:`adagp.spec.link`.

    Parameters
    ----------
    config : Config
        the accelerator's
    baud : int
        rate of the line
    clock_hz : int or None
        rate of the clock; None: the configuration's

    Members
    -------
    rx, tx : In(1), Out(1)
        the line
    irq : In(1)
        the accelerator's interrupt
    csr, dram_csr : Out(AxiLite())
        registers of the accelerator and of the memory controller
    m_axi : Out(AxiMaster(config))
        memory, in bursts of one beat

    Raises
    ------
    ValueError for a line too fast for the clock
    """

    def __init__(self, config: Config, baud: int = BAUD, clock_hz: int | None = None):
        self.config, self.baud, self.clock_hz = config, baud, clock_hz or config.clock_hz
        self._receiver = UartReceiver(self.baud, self.clock_hz)
        self._transmitter = UartTransmitter(self.baud, self.clock_hz)
        super().__init__({
            "rx": In(1, init=1), "tx": Out(1, init=1), "irq": In(1),
            "csr": Out(AxiLite()), "dram_csr": Out(AxiLite()), "m_axi": Out(AxiMaster(config)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.receiver = receiver = self._receiver
        m.submodules.transmitter = transmitter = self._transmitter
        m.submodules.bytes = bytes_ = ByteLink(self.config, self.clock_hz)
        connect(m, receiver.o, bytes_.i)
        connect(m, bytes_.o, transmitter.i)
        for name in bytes_.ports.signature.members:
            connect(m, getattr(bytes_.ports, name), flipped(getattr(self, name)))
        m.d.comb += [
            receiver.rx.eq(self.rx), self.tx.eq(transmitter.tx), bytes_.irq.eq(self.irq),
            bytes_.error.eq(receiver.error),
        ]  # fmt: skip
        return m
