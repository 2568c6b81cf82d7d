"""Arithmetic on one wide magnitude, an operation after the other."""

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from ..lib.bit_length import BitLength
from ..lib.product import FACTOR_WIDTH, Product

__all__ = ["ACC_WIDTH", "AMOUNT_WIDTH", "X_WIDTH", "Y_WIDTH", "Kind", "SerialArithmetic"]

ACC_WIDTH = 96
X_WIDTH, Y_WIDTH = 56, 3 * FACTOR_WIDTH
AMOUNT_WIDTH = 19
_MOST = 127
"""Most places of a shift; nothing of a magnitude is left from there on."""


class Kind(enum.Enum, shape=3):
    """The operations on ``acc``."""

    LOAD = 0
    """It becomes ``i``."""
    KEEP = 1
    """A copy of it becomes ``other``."""
    SWAP = 2
    """It and ``other`` change places."""
    ADD = 3
    """It becomes the magnitude of itself plus or minus ``other``."""
    MULTIPLY = 4
    """It becomes ``x`` * ``y``."""
    SHIFT = 5
    """It goes ``amount`` places to the right, or to the left if that is negative; ``rounds``: half up."""
    MEASURE = 6
    """``length`` becomes its bit length."""
    NORMALISE = 7
    """It is shifted to ``amount`` bits; ``even``: or to one fewer, so that ``places`` + ``parity`` is even."""


class SerialArithmetic(wiring.Component):
    """One magnitude of 96 bits, a multiplier of 16-bit digits, a shifter by 16, 4 or 1, and an adder.

    Members
    -------
    start : In(1)
        begin an operation; only while ``ready``
    kind : In(Kind)
        the operation
    i : In(ACC_WIDTH)
        magnitude to load
    x, y : In
        factors
    subtract : In(1)
        ADD takes ``other`` away
    amount : In(signed(AMOUNT_WIDTH))
        places of a shift, or bits of NORMALISE
    rounds, even, parity : In(1)
        as :class:`Kind` says
    ready : Out(1, init=1)
        the last operation is done
    acc : Out(ACC_WIDTH)
        the magnitude
    length : Out(range(ACC_WIDTH + 1))
        its bit length, after MEASURE and NORMALISE, before the shift of the latter
    places : Out(signed(AMOUNT_WIDTH))
        places that NORMALISE moved it to the right
    total : Out(signed(ACC_WIDTH + 1))
        the sum of ADD with its sign, while ``start`` is high

    Timing
    ------
    LOAD, KEEP, SWAP and ADD take one cycle. MULTIPLY takes four, and one for each digit of ``y`` but upper zeros. SHIFT
    takes at most 15, MEASURE five, NORMALISE both.
    """

    start: In(1)
    kind: In(Kind)
    i: In(ACC_WIDTH)
    x: In(X_WIDTH)
    y: In(Y_WIDTH)
    subtract: In(1)
    amount: In(signed(AMOUNT_WIDTH))
    rounds: In(1)
    even: In(1)
    parity: In(1)
    ready: Out(1, init=1)
    acc: Out(ACC_WIDTH)
    length: Out(range(ACC_WIDTH + 1))
    places: Out(signed(AMOUNT_WIDTH))
    total: Out(signed(ACC_WIDTH + 1))

    def elaborate(self, platform):
        m = Module()
        acc, other = self.acc, Signal(ACC_WIDTH)
        m.d.comb += self.total.eq(Mux(self.subtract, acc - other, acc + other))
        with m.If(self.start), m.Switch(self.kind):
            with m.Case(Kind.LOAD):
                m.d.sync += acc.eq(self.i)
            with m.Case(Kind.KEEP):
                m.d.sync += other.eq(acc)
            with m.Case(Kind.SWAP):
                m.d.sync += [acc.eq(other), other.eq(acc)]
            with m.Case(Kind.ADD):
                m.d.sync += acc.eq(Mux(self.total < 0, -self.total, self.total))
        self._multiply(m)
        self._shift(m, self._measure(m))
        return m

    def _begins(self, *kinds):
        return self.start & Cat(self.kind == kind for kind in kinds).any()

    def _multiply(self, m):
        """Digits of ``y`` from the upper one on, each added at 2^16 times the product so far."""
        m.submodules.product = product = Product(X_WIDTH)
        digits, cycle = Signal(Y_WIDTH), Signal(range(Product.LATENCY + Y_WIDTH // FACTOR_WIDTH + 1))
        x = Signal(X_WIDTH)
        m.d.comb += [product.i.eq(x), product.factor.eq(digits[-FACTOR_WIDTH:])]
        m.d.sync += digits.eq(digits << FACTOR_WIDTH)
        last = Signal.like(cycle)
        with m.If(self._begins(Kind.MULTIPLY)):
            m.d.sync += [x.eq(self.x), cycle.eq(1), self.acc.eq(0), self.ready.eq(0)]
            upper = self.y[FACTOR_WIDTH:]
            for digit in range(Y_WIDTH // FACTOR_WIDTH):
                with m.If(upper == 0) if not digit else m.Elif(upper == 0) if digit == 1 else m.Else():
                    m.d.sync += digits.eq(self.y << Y_WIDTH - FACTOR_WIDTH * (digit + 1))
                    m.d.sync += last.eq(Product.LATENCY + 1 + digit)
                upper = self.y[FACTOR_WIDTH * (digit + 2) :]
        with m.Elif(cycle != 0):
            m.d.sync += cycle.eq(cycle + 1)
            with m.If(cycle > Product.LATENCY):
                m.d.sync += self.acc.eq((self.acc << FACTOR_WIDTH) + product.o)
            with m.If(cycle == last):
                m.d.sync += [cycle.eq(0), self.ready.eq(1)]

    def _measure(self, m):
        """Find the bit length; returns a pulse when NORMALISE knows its shift."""
        m.submodules.bit_length = bit_length = BitLength(ACC_WIDTH)
        cycle, normalises = Signal(range(BitLength.LATENCY + 2)), Signal()
        bits, even, parity = Signal(range(ACC_WIDTH)), Signal(), Signal()
        done = cycle == BitLength.LATENCY + 1
        m.d.comb += bit_length.i.eq(self.acc)
        with m.If(self._begins(Kind.MEASURE, Kind.NORMALISE)):
            m.d.sync += [
                cycle.eq(1), normalises.eq(self.kind == Kind.NORMALISE), self.ready.eq(0), bits.eq(self.amount),
                even.eq(self.even), parity.eq(self.parity),
            ]  # fmt: skip
        with m.Elif(cycle != 0):
            m.d.sync += cycle.eq(cycle + 1)
            with m.If(done):
                past = bit_length.o - bits
                m.d.sync += [
                    cycle.eq(0), self.length.eq(bit_length.o), self.ready.eq(~normalises),
                    self.places.eq(past + (even & (past[0] ^ parity))),
                ]  # fmt: skip
        measured = Signal()
        m.d.sync += measured.eq(done & normalises)
        return measured

    def _shift(self, m, measured):
        """Shift by ``amount``, or by ``places`` once they are ``measured``."""
        left, right, half, shifts = Signal(range(_MOST + 1)), Signal(), Signal(), Signal()
        amount = Mux(measured, self.places, self.amount)
        size = Mux(amount < 0, -amount, amount)
        rounds = self.rounds & ~measured & (amount > 0)
        with m.If(self._begins(Kind.SHIFT) | measured):
            m.d.sync += [
                left.eq(Mux(size > _MOST, _MOST, size - rounds)), right.eq(amount >= 0), half.eq(rounds), shifts.eq(1),
                self.ready.eq(0),
            ]  # fmt: skip
        with m.Elif(shifts):
            for step, places in enumerate((16, 4, 1)):
                with m.If(left >= places) if not step else m.Elif(left >= places):
                    m.d.sync += left.eq(left - places)
                    m.d.sync += self.acc.eq(Mux(right, self.acc >> places, self.acc << places))
            with m.Else():
                with m.If(half):
                    m.d.sync += self.acc.eq((self.acc + 1) >> 1)
                m.d.sync += [shifts.eq(0), self.ready.eq(1)]
