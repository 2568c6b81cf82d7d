"""The host link without its line: bytes from a host become accesses to registers and memory, and answers."""

from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ...spec.config import Config
from .access import LinkAccess, LinkPorts
from .executor import LinkExecutor
from .frame_buffer import FrameBuffer
from .frames import Framer, Unframer

__all__ = ["ByteLink"]


class ByteLink(wiring.Component):
    """A host on a line of bytes that acts on three buses; see :mod:`adagp.spec.link`.

    Parameters
    ----------
    config : Config
        the accelerator's
    clock_hz : int
        clock that HELLO's answer names

    Members
    -------
    i, o : In, Out(stream of bytes)
        the line, of any kind
    error : In(1)
        a byte was lost on its way to ``i``
    irq : In(1)
        the accelerator's interrupt
    ports : Out(LinkPorts(config))
        the buses
    """

    def __init__(self, config: Config, clock_hz: int):
        self.config, self.clock_hz = config, clock_hz
        super().__init__({
            "i": In(stream.Signature(8, always_ready=True)), "error": In(1), "o": Out(stream.Signature(8)),
            "irq": In(1), "ports": Out(LinkPorts(config)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.unframer = unframer = Unframer()
        m.submodules.buffer = buffer = FrameBuffer()
        m.submodules.executor = executor = LinkExecutor(self.config, self.clock_hz)
        m.submodules.access = access = LinkAccess(self.config)
        m.submodules.framer = framer = Framer()
        for source, sink in (
            (flipped(self.i), unframer.i), (unframer.o, buffer.i), (buffer.o, executor.i), (executor.access, access.i),
            (executor.o, framer.i), (framer.o, flipped(self.o)), (access.ports, flipped(self.ports)),
        ):  # fmt: skip
            connect(m, source, sink)
        m.d.comb += [
            unframer.error.eq(self.error), buffer.end.eq(unframer.end), buffer.good.eq(unframer.good),
            executor.irq.eq(self.irq), executor.done.eq(access.done), executor.fault.eq(access.fault),
            executor.read.eq(access.o),
        ]  # fmt: skip
        return m
