"""Jobs: the host link, from a line's bytes to accesses and back."""

from adagp.rtl.link.access import LinkAccess
from adagp.rtl.link.executor import LinkExecutor
from adagp.rtl.link.frame_buffer import DEPTH, FrameBuffer
from adagp.rtl.link.frames import Framer, Unframer
from adagp.rtl.link.uart import FEWEST_CYCLES, UartReceiver, UartTransmitter
from amaranth import Cat, Signal

from .registry import CONFIG, job
from .rules import bind_streams, handshake_rule

__all__ = []

CHANNELS = {"ar": ("addr",), "aw": ("addr",), "w": ("data", "strb")}
RATES = (1, FEWEST_CYCLES)
"""Baud and clock of the fastest line, whose bytes are the nearest."""


@job("uart_receiver", lambda: UartReceiver(*RATES), depth=60)
def _uart_receiver(h):
    dut = h.dut
    bind_streams(h)
    h.prove("error: in place of a byte", ~dut.error | ~dut.o.valid)
    h.prove("left: bits of a byte", h.signal("left") <= len(dut.o.p))
    h.cover("error", dut.error)


@job("uart_transmitter", lambda: UartTransmitter(*RATES), depth=60)
def _uart_transmitter(h):
    dut = h.dut
    bind_streams(h)
    bits = len(dut.i.p) + 2
    h.prove("left: bits of a byte", h.signal("left") <= bits)
    h.cover("one byte behind the other", dut.i.valid & dut.i.ready & (h.signal("left") == 1))


@job("unframer", Unframer)
def _unframer(h):
    dut = h.dut
    bind_streams(h)
    h.prove("end: not with a byte of a frame", ~dut.end | ~dut.o.valid)
    h.prove("end: behind a byte", ~(dut.end & h.before(dut.end)))
    h.cover("end", dut.end)


@job("framer", Framer)
def _framer(h):
    bind_streams(h)
    h.cover("the end of a frame", h.before(h.state("", "END")) & h.state("", "BEGIN"))


@job("frame_buffer", FrameBuffer, cut=("t:$mem_v2",))
def _frame_buffer(h):
    """Counts are proved, not bytes: the memory's contents are cut."""
    dut, (port,) = h.dut, h.block("bytes").read_ports
    data = port.data
    h.assume("bytes: data stands while the port is off", ~h.before(~port.en) | (h.before(data) == data))
    bind_streams(h)
    place, first, end = h.signal("place"), h.signals("$signal")[1], h.signal("end")
    there, whole = ((to - first)[: len(first)] for to in (place, end))
    h.prove(f"place: at most {DEPTH} bytes", there <= DEPTH)
    h.prove("end: of what came", whole <= there)
    h.cover("a frame is forgotten", h.before(dut.end & (whole != there)) & (whole == there))


@job("link_executor", lambda: LinkExecutor(CONFIG, CONFIG.clock_hz), depth=90)
def _link_executor(h):
    dut = h.dut
    bind_streams(h)
    h.cover("an answer ends", dut.o.valid & dut.o.ready & dut.o.p.last)


@job("link_access", lambda: LinkAccess(CONFIG))
def _link_access(h):
    """On each bus proper handshakes, one access at a time, if answers come to what was asked only."""
    dut = h.dut
    bind_streams(h)
    for name in dut.ports.signature.members:
        bus = getattr(dut.ports, name)
        asked = {}
        for channel, members in CHANNELS.items():
            valid, ready = (getattr(bus, f"{channel}{end}") for end in ("valid", "ready"))
            payload = Cat(getattr(bus, channel + member) for member in members)
            handshake_rule(h, f"{name}: {channel}", valid, ready, payload, guarantee=True)
            asked[channel] = Signal(name=f"asked_{name}_{channel}")
            with h.m.If(valid & ready):
                h.m.d.sync += asked[channel].eq(1)
            with h.m.Elif(bus.rvalid | bus.bvalid):
                h.m.d.sync += asked[channel].eq(0)
        h.assume(f"{name}: r only to what was asked", ~bus.rvalid | asked["ar"])
        h.assume(f"{name}: b only to what was asked", ~bus.bvalid | (asked["aw"] & asked["w"]))
        h.prove(f"{name}: a read or a write", ~asked["ar"] | ~(asked["aw"] | asked["w"]))
        h.cover(f"{name}: an error", dut.done & dut.fault & h.before(bus.bvalid | bus.rvalid))
    h.prove("done: the next access is taken behind it", ~dut.done | ~dut.i.ready)
