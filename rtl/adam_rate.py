"""Adam's learning rate with its bias corrections, and the betas' powers that they come from."""

from contextlib import contextmanager

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from .hyper import HyperLayout

__all__ = ["POWER_WIDTH", "AdamRate", "RateLayout"]

POWER_WIDTH = 32
_FACTOR_WIDTH = 16
_ROOT_WIDTH = 23
"""Of the root of 1 - beta2^t; all of them fraction bits."""
_REST_WIDTH = 24
"""Of 1 - beta1^t; all of them fraction bits."""
_RATIO_WIDTH = 40
"""Of their ratio, ``_REST_WIDTH`` of them fraction bits: after a step 1 - beta1^t is 2^-16 at least."""
_RATIO_SHIFT = 2 * _REST_WIDTH - _ROOT_WIDTH

RateLayout = data.StructLayout({"mantissa": _FACTOR_WIDTH, "exponent": signed(9)})
"""A learning rate after its bias corrections, mantissa * 2^exponent."""


class _Step(enum.Enum, shape=2):
    """What a cycle does to the registers of :class:`_Serial`."""

    MULTIPLY = 0
    """``high`` * 2^16 + ``low`` becomes ``right`` * ``low`` in 16 cycles, if ``high`` was 0."""
    HALVE = 1
    """(``high`` * 2^16 + ``low``) / 2."""
    DIVIDE = 2
    """``low`` becomes (``high`` * 2^40 + ``low``) / ``right`` in 40 cycles, if ``high`` was less than ``right``."""
    ROOT = 3
    """``right`` becomes the root of ``low`` * 4^n in 20 + n cycles, if ``high`` and ``right`` were 0."""


class _Serial(wiring.Component):
    """Three registers and an adder. ``load`` takes new values; then come as many steps as ``count``, and ``ready``."""

    load: In(1)
    i_high: In(_RATIO_WIDTH)
    i_low: In(_RATIO_WIDTH)
    i_right: In(_RATIO_WIDTH)
    count: In(range(_RATIO_WIDTH + 1))
    step: In(_Step)
    more: In(1)
    """One more step than ``count``."""
    ready: Out(1, init=1)
    high: Out(_RATIO_WIDTH)
    low: Out(_RATIO_WIDTH)
    right: Out(_RATIO_WIDTH)

    def elaborate(self, platform):
        m = Module()
        left = Signal.like(self.count)
        high, low, right, step = self.high, self.low, self.right, self.step
        x, y, subtract = Signal(_RATIO_WIDTH + 2), Signal(_RATIO_WIDTH + 2), Signal()
        total = Signal(_RATIO_WIDTH + 3)
        with m.Switch(step):
            with m.Case(_Step.MULTIPLY):
                m.d.comb += [x.eq(high), y.eq(Mux(low[0], right, 0))]
            with m.Case(_Step.HALVE):
                m.d.comb += x.eq(high)
            with m.Case(_Step.DIVIDE):
                m.d.comb += [x.eq(Cat(low[-1], high)), y.eq(right), subtract.eq(1)]
            with m.Case(_Step.ROOT):
                m.d.comb += [x.eq(Cat(low[-2:], high)), y.eq(Cat(Const(1, 2), right)), subtract.eq(1)]
        # The lowest place makes the carry of a subtraction.
        m.d.comb += total.eq(Cat(subtract, x) + Cat(subtract, y ^ subtract.replicate(len(y))))
        result, less = total[1:], total[-1]
        with m.If(self.load):
            m.d.sync += self.ready.eq(0)
            m.d.sync += [left.eq(self.count), high.eq(self.i_high), low.eq(self.i_low), right.eq(self.i_right)]
        with m.Elif(~self.ready | self.more):
            m.d.sync += [left.eq(Mux(self.ready, 0, left - 1)), self.ready.eq(self.ready | (left == 1))]
            with m.If(subtract):
                m.d.sync += high.eq(Mux(less, x, result))
                with m.If(step == _Step.ROOT):
                    m.d.sync += [right.eq(Cat(~less, right)), low.eq(low << 2)]
                with m.Else():
                    m.d.sync += low.eq(Cat(~less, low))
            with m.Else():
                m.d.sync += [high.eq(result >> 1), low.eq(Cat(low[1:_FACTOR_WIDTH], result[0]))]
        return m


class AdamRate(wiring.Component):
    """Steps the betas' powers and makes the rate, a bit a cycle.

    ``power1``, ``power2``: the betas to the power of the steps taken, fractions of 2^32, as of the last commit (after
    reset all ones, for 1); ``set1``, ``set2`` write ``value`` to them, while nothing runs. ``start`` (only while
    nothing runs) takes ``dry``; ``rate`` and the mantissas ``beta1``, ``beta2`` (exponent -16) stand still until
    ``done``. ``o`` is the rate corrected for one more step, from the pulse of ``done`` on (at most ``LATENCY`` cycles
    after ``start``) until the next ``start``. ``commit`` takes that step if there was a ``start`` without ``dry``
    since the last ``commit`` or ``clear``; ``clear`` forgets it, and ends what runs.
    """

    LATENCY = 3 * _FACTOR_WIDTH + _ROOT_WIDTH + 3 * _RATIO_WIDTH + 7
    """One for each bit of two powers, root, ratio and product, two for each of its normalisation, and the states."""

    def __init__(self):
        ones = (1 << POWER_WIDTH) - 1
        super().__init__({
            "start": In(1), "dry": In(1), "rate": In(HyperLayout), "beta1": In(_FACTOR_WIDTH),
            "beta2": In(_FACTOR_WIDTH), "done": Out(1), "o": Out(RateLayout), "commit": In(1), "clear": In(1),
            "set1": In(1), "set2": In(1), "value": In(POWER_WIDTH),
            "power1": Out(POWER_WIDTH, init=ones), "power2": Out(POWER_WIDTH, init=ones),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.serial = serial = _Serial()
        next1, next2 = Signal(POWER_WIDTH), Signal(POWER_WIDTH)  # behind the step to commit
        stepped = Signal()
        m.d.comb += self.o.mantissa.eq(serial.low)
        with m.If(self.commit & stepped):
            m.d.sync += [self.power1.eq(next1), self.power2.eq(next2)]
        with m.If(self.commit):
            m.d.sync += stepped.eq(0)
        for power, written in ((self.power1, self.set1), (self.power2, self.set2)):
            with m.If(written):
                m.d.sync += power.eq(self.value)
        self._sequence(m, serial, next1, next2, stepped)
        with m.If(self.clear):
            m.d.sync += stepped.eq(0)
        return m

    def _sequence(self, m, serial, next1, next2, stepped):
        """One step of ``serial`` after the other, from the powers to the rate."""
        dry, rest = Signal(), Signal(_REST_WIDTH)
        large = Signal()  # the product, for its width

        @contextmanager
        def state(name):
            with m.State(name):
                yield
                with m.If(self.clear):
                    m.next = "IDLE"

        with m.FSM():
            with state("IDLE"), m.If(self.start):
                m.d.sync += dry.eq(self.dry)
                self._load(m, serial, _FACTOR_WIDTH, low=self.beta1, right=self.power1)
                m.next = "POWER1"
            with state("POWER1"), m.If(serial.ready):
                m.d.sync += [
                    next1.eq(Mux(dry, next1, serial.high)), rest.eq(~serial.high[:POWER_WIDTH] >> 8),
                ]  # fmt: skip
                self._load(m, serial, _FACTOR_WIDTH, low=self.beta2, right=self.power2)
                m.next = "POWER2"
            with state("POWER2"), m.If(serial.ready):
                m.d.sync += [next2.eq(Mux(dry, next2, serial.high)), stepped.eq(stepped | ~dry)]
                self._load(m, serial, _ROOT_WIDTH, low=Cat(Const(0, 8), ~serial.high[:POWER_WIDTH]))
                m.next = "ROOT"
            with state("ROOT"):
                m.d.comb += serial.step.eq(_Step.ROOT)
                with m.If(serial.ready):
                    dividend = Cat(Const(0, _RATIO_SHIFT), serial.right[:_ROOT_WIDTH])
                    low, high = dividend[:_RATIO_WIDTH], dividend[_RATIO_WIDTH:]
                    self._load(m, serial, _RATIO_WIDTH, high=high, low=low, right=rest)
                    m.next = "RATIO"
            with state("RATIO"):
                m.d.comb += serial.step.eq(_Step.DIVIDE)
                with m.If(serial.ready):
                    m.d.sync += self.o.exponent.eq(self.rate.exponent - _REST_WIDTH)
                    self._load(m, serial, _FACTOR_WIDTH, low=self.rate.mantissa, right=serial.low)
                    m.next = "PRODUCT"
            with state("PRODUCT"), m.If(serial.ready):
                m.next = "NORMALISE"
            with state("NORMALISE"):
                m.d.sync += large.eq(serial.high != 0)
                m.next = "HALVE"
            with state("HALVE"):
                m.d.comb += [serial.step.eq(_Step.HALVE), serial.more.eq(large), self.done.eq(~large)]
                m.d.sync += self.o.exponent.eq(self.o.exponent + large)
                m.next = "IDLE"
                with m.If(large):
                    m.next = "NORMALISE"

    def _load(self, m, serial, count, low, high=0, right=0):
        m.d.comb += [
            serial.load.eq(1), serial.count.eq(count), serial.i_high.eq(high), serial.i_low.eq(low),
            serial.i_right.eq(right),
        ]  # fmt: skip
