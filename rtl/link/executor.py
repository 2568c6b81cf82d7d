"""Carries out the host link's requests, and answers them; see :mod:`adagp.spec.link`."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.link import CRC_BYTES, IDENTITY, LINK_VERSION, MAX_PAYLOAD, REQUEST, Kind, n_bytes
from .access import AccessLayout
from .frames import FramerInput

__all__ = ["LinkExecutor", "identity"]

HeaderLayout = data.StructLayout({part.name: 8 * part.size for part in REQUEST if part.size})
MEMORY = 2


def identity(config: Config, clock_hz: int) -> bytes:
    """The body of HELLO's answer."""
    values = {
        "link_version": LINK_VERSION, "max_payload": MAX_PAYLOAD, "clock_hz": clock_hz,
        "config_hash": config.config_hash,
    }  # fmt: skip
    return b"".join(values[part.name].to_bytes(part.size, "little") for part in IDENTITY)


class LinkExecutor(wiring.Component):
    """Takes whole requests (header, payload, CRC) byte by byte and gives the bodies of their answers.

    A request with the expected sequence number is carried out. An earlier number has been carried out before: it is
    carried out again if it only reads, else only answered. A later number came too early, and is only answered. So are
    all requests before the first HELLO.

    Parameters
    ----------
    config : Config
        the accelerator's
    clock_hz : int
        clock that HELLO's answer names

    Members
    -------
    i : In(stream of bytes)
        requests
    o : Out(stream of FramerInput)
        answers
    irq : In(1)
        the accelerator's interrupt
    access, done, fault, read
        accesses, and their results; see :class:`.access.LinkAccess`
    """

    def __init__(self, config: Config, clock_hz: int):
        self.config, self._identity = config, identity(config, clock_hz)
        super().__init__({
            "i": In(stream.Signature(8)), "o": Out(stream.Signature(FramerInput)), "irq": In(1),
            "access": Out(stream.Signature(AccessLayout(config))),
            "done": In(1), "fault": In(1), "read": In(config.port_width),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        self._header, self._expected = Signal(HeaderLayout), Signal(8)
        self._beat = Signal(data.ArrayLayout(8, self.config.beat_bytes))
        self._writes, self._idle, self._early = Signal(), Signal(), Signal()  # idle: no effect
        self._faulty, self._count = Signal(), Signal(range(n_bytes(REQUEST)))
        self._strobe = Signal(self.config.beat_bytes)
        self._strange = Signal(init=1)
        self._space = (self._header.kind >> 1)[:2] - 1
        beat_bits = (self.config.beat_bytes - 1).bit_length()
        is_memory = self._space[:2] == MEMORY
        self._lane = Mux(is_memory, self._header.address[:beat_bits], self._header.address[:2])
        self._last_lane = Mux(is_memory, self._header.address[:beat_bits].all(), self._header.address[:2].all())
        self._aligned = Signal(32)
        m.d.comb += self._aligned.eq(Cat(
            Const(0, 2), Mux(is_memory, 0, self._header.address[2:beat_bits]), self._header.address[beat_bits:]
        ))  # fmt: skip
        with m.FSM():
            self._receive(m)
            self._access(m)
            self._answer(m)
        return m

    def _receive(self, m):
        """States that take a request: its header, and the bytes after the part that is used."""
        header, ahead = self._header, Signal(8)
        hello = header.kind == Kind.HELLO
        m.d.comb += ahead.eq(header.sequence - self._expected)
        with m.State("HEADER"):
            m.d.comb += self.i.ready.eq(1)
            with m.If(self.i.valid):
                m.d.sync += [Cat(header).eq(Cat(Cat(header)[8:], self.i.payload)), self._count.eq(self._count + 1)]
                with m.If(self._count == n_bytes(REQUEST) - 1):
                    m.d.sync += self._count.eq(0)
                    m.next = "DECIDE"
        with m.State("DECIDE"):
            writes = header.kind[0] & (header.kind != Kind.WAIT)
            early = ~hello & ~self._strange & ~ahead[-1] & (ahead != 0)
            idle = ~hello & self._strange | early | writes & (ahead != 0)
            m.d.sync += [self._writes.eq(writes), self._early.eq(early), self._idle.eq(idle), self._strobe.eq(0)]
            with m.If(hello | (ahead == 0)):
                m.d.sync += self._expected.eq(header.sequence + 1)
            with m.If(hello):
                m.d.sync += self._strange.eq(0)
                m.d.sync += [self._faulty.eq(0), header.address.eq(0), header.length.eq(len(self._identity))]
            with m.If(early):
                m.d.sync += header.sequence.eq(self._expected)
            m.next = "DROP"
            with m.If(writes):
                m.next = "TAKE"
        with m.State("DROP"):  # the CRC
            m.d.comb += self.i.ready.eq(1)
            with m.If(self.i.valid):
                m.d.sync += self._count.eq(self._count + 1)
                with m.If(self._count == CRC_BYTES - 1):
                    m.d.sync += self._count.eq(0)
                    m.next = "SEQUENCE"
                    with m.If((header.kind == Kind.WAIT) & ~self._idle):
                        m.next = "WAIT"
        with m.State("WAIT"):
            m.d.sync += header.address.eq(header.address - 1)
            with m.If(self.irq | (header.address == 0) | self.i.valid):
                m.next = "SEQUENCE"

    def _access(self, m):
        """States that move a beat: one gathered from the payload, or one for the answer."""
        header, access, strobe = self._header, self.access, self._strobe
        with m.State("TAKE"):
            m.d.comb += self.i.ready.eq(header.length != 0)
            with m.If(header.length == 0):
                m.next = "DROP"
            with m.Elif(self.i.valid):
                m.d.sync += [
                    self._beat[self._lane].eq(self.i.payload), strobe.bit_select(self._lane, 1).eq(1),
                    access.p.addr.eq(self._aligned), header.address.eq(header.address + 1),
                    header.length.eq(header.length - 1),
                ]  # fmt: skip
                with m.If(~self._idle & (self._last_lane | (header.length == 1))):
                    m.next = "ASK"
        with m.State("FETCH"):
            m.d.sync += access.p.addr.eq(self._aligned)
            m.next = "ASK"
        with m.State("ASK"):
            m.d.comb += access.valid.eq(1)
            with m.If(access.ready):
                m.next = "DONE"
        with m.State("DONE"), m.If(self.done):
            m.d.sync += [strobe.eq(0), self._faulty.eq(self._faulty | self.fault)]
            m.next = "TAKE"
            with m.If(~self._writes):
                m.d.sync += Cat(self._beat).eq(self.read)
                m.next = "GIVE"
        m.d.comb += [
            access.p.space.eq(self._space), access.p.write.eq(self._writes), access.p.data.eq(Cat(self._beat)),
            access.p.strobe.eq(strobe),
        ]  # fmt: skip

    def _answer(self, m):
        """States that send an answer."""
        header, o = self._header, self.o
        hello, wait = header.kind == Kind.HELLO, header.kind == Kind.WAIT
        who = Const(int.from_bytes(self._identity, "little"), 8 * len(self._identity))
        repeated = self._idle & ~self._early & ~self._strange
        outcome = Cat(self.irq, self._faulty, repeated, self._early, self._strange)
        stable = Signal.like(outcome)
        with m.State("SEQUENCE"):
            m.d.comb += [o.valid.eq(1), o.p.data.eq(header.sequence)]
            with m.If(o.ready):
                m.next = "KIND"
        with m.State("KIND"):
            m.d.comb += [o.valid.eq(1), o.p.data.eq(header.kind)]
            with m.If(o.ready):
                m.next = "FETCH"
                with m.If(hello):
                    m.next = "GIVE"
                with m.Elif(self._writes | self._idle | wait | (header.length == 0)):
                    m.next = "NOTE"
        with m.State("GIVE"):
            named = who.word_select(header.address[: len(self._identity).bit_length()], 8)
            m.d.comb += [o.valid.eq(1), o.p.data.eq(Mux(hello, named, self._beat[self._lane]))]
            with m.If(o.ready):
                m.d.sync += [header.address.eq(header.address + 1), header.length.eq(header.length - 1)]
                with m.If(header.length == 1):
                    m.next = "NOTE"
                with m.Elif(self._last_lane & ~hello):
                    m.next = "FETCH"
        with m.State("NOTE"):  # the last byte must not change while it waits
            m.d.sync += stable.eq(outcome)
            m.next = "OUTCOME"
        with m.State("OUTCOME"):
            m.d.comb += [o.valid.eq(1), o.p.data.eq(stable), o.p.last.eq(1)]
            with m.If(o.ready):
                m.next = "HEADER"
