"""Serial line: 8 data bits, no parity, one stop bit, at any rate up to a quarter of the clock."""

from amaranth import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

__all__ = ["FEWEST_CYCLES", "UartReceiver", "UartTransmitter", "phase_step"]

FEWEST_CYCLES = 4
"""Clock cycles that a bit must last."""

_PHASE_BITS = 24
_DATA_BITS = 8


def phase_step(baud: int, clock_hz: int) -> int:
    """Increment of a bit's phase, a fraction of 2^24, in a clock cycle.

    The rate is right to within 2^-25 of the clock, and errors of single bits don't add up.

    Raises
    ------
    ValueError for a rate above a quarter of the clock
    """
    if not 0 < FEWEST_CYCLES * baud <= clock_hz:
        raise ValueError(f"baud = {baud!r} must satisfy 0 < {FEWEST_CYCLES} * baud <= clock_hz = {clock_hz}")
    return round((baud << _PHASE_BITS) / clock_hz)


class UartReceiver(wiring.Component):
    """Receives bytes from a serial line.

    Parameters
    ----------
    baud, clock_hz : int
        rates of the line and of the clock

    Members
    -------
    rx : In(1)
        the line; may change at any time
    o : Out(stream of bytes)
        bytes, in the middle of their stop bits
    error : Out(1)
        pulses in place of a byte without stop bit; the next start bit counts only after the line has been high

    Raises
    ------
    ValueError for a line too fast for the clock
    """

    def __init__(self, baud: int, clock_hz: int):
        self._step = phase_step(baud, clock_hz)
        super().__init__({
            "rx": In(1, init=1), "o": Out(stream.Signature(_DATA_BITS, always_ready=True)), "error": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        line = Signal(init=1)
        m.submodules += FFSynchronizer(self.rx, line, init=1)
        phase = Signal(_PHASE_BITS)
        middle = Signal()
        left = Signal(range(_DATA_BITS + 1))
        m.d.sync += Cat(phase, middle).eq(phase + self._step)
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += Cat(phase, middle).eq((1 << (_PHASE_BITS - 1)) + self._step)
                with m.If(~line):
                    m.next = "START"
            with m.State("START"), m.If(middle):
                m.d.sync += left.eq(_DATA_BITS)
                m.next = "DATA"
                with m.If(line):  # shorter than half a bit
                    m.next = "IDLE"
            with m.State("DATA"), m.If(middle):
                m.d.sync += [self.o.payload.eq(Cat(self.o.payload[1:], line)), left.eq(left - 1)]
                with m.If(left == 1):
                    m.next = "STOP"
            with m.State("STOP"), m.If(middle):
                m.d.comb += [self.o.valid.eq(line), self.error.eq(~line)]
                m.next = "BREAK"
                with m.If(line):
                    m.next = "IDLE"
            with m.State("BREAK"), m.If(line):
                m.next = "IDLE"
        return m


class UartTransmitter(wiring.Component):
    """Sends bytes on a serial line, which is high between them.

    Parameters
    ----------
    baud, clock_hz : int
        rates of the line and of the clock

    Members
    -------
    i : In(stream of bytes)
        bytes; a waiting byte follows the one before without a pause
    tx : Out(1)
        the line

    Raises
    ------
    ValueError for a line too fast for the clock
    """

    def __init__(self, baud: int, clock_hz: int):
        self._step = phase_step(baud, clock_hz)
        super().__init__({"i": In(stream.Signature(_DATA_BITS)), "tx": Out(1, init=1)})

    def elaborate(self, platform):
        m = Module()
        phase = Signal(_PHASE_BITS)
        ends = Signal()
        bits = Signal(1 + _DATA_BITS, init=(1 << 1 + _DATA_BITS) - 1)  # from the bit on the line to the last data bit
        left = Signal(range(_DATA_BITS + 3))  # bits that haven't ended
        m.d.sync += [self.tx.eq(bits[0]), Cat(phase, ends).eq(phase + self._step)]
        m.d.comb += self.i.ready.eq((left == 0) | (left == 1) & ends)
        with m.If((left == 0) & ~self.i.valid):
            m.d.sync += Cat(phase, ends).eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [bits.eq(Cat(0, self.i.payload)), left.eq(_DATA_BITS + 2)]
            with m.If(left == 0):
                m.d.sync += Cat(phase, ends).eq(self._step)
        with m.Elif(ends & (left != 0)):
            m.d.sync += [bits.eq(Cat(bits[1:], 1)), left.eq(left - 1)]
        return m
