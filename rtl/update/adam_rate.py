"""Adam's learning rate with its bias corrections, from powers of the betas."""

from contextlib import contextmanager

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from ..lib.interfaces import HyperLayout

__all__ = ["POWER_WIDTH", "AdamRate", "RateLayout"]

POWER_WIDTH = 32
_FACTOR_WIDTH = 16
_ROOT_WIDTH = 23
"""Width of the root of 1 - beta2^t; all are fraction bits."""
_REST_WIDTH = 24
"""Width of 1 - beta1^t; all are fraction bits."""
_RATIO_WIDTH = 40
"""Width of their ratio, with ``_REST_WIDTH`` fraction bits: after a step 1 - beta1^t is at least 2^-16."""
_RATIO_SHIFT = 2 * _REST_WIDTH - _ROOT_WIDTH

RateLayout = data.StructLayout({"mantissa": _FACTOR_WIDTH, "exponent": signed(9)})
"""A learning rate after its bias corrections, mantissa * 2^exponent."""


class _Step(enum.Enum, shape=2):
    """Effect of a step on the registers of :class:`_Serial`."""

    MULTIPLY = 0
    """``high`` * 2^16 + ``low`` becomes ``right`` * ``low`` in 16 steps, if ``high`` was 0."""
    DIVIDE = 1
    """``low`` becomes (``high`` * 2^40 + ``low``) / ``right`` in 40 steps, if ``high`` was less than ``right``."""
    ROOT = 2
    """``right`` becomes the root of ``low`` * 4^n in 20 + n steps, if ``high`` and ``right`` were 0."""


class _Serial(wiring.Component):
    """Three registers and an adder, which multiply, divide and take roots bit by bit.

    Members
    -------
    load, i_high, i_low, i_right : In
        take new values
    count, step : In
        with ``load``: number and kind of the steps that follow
    halve : In(1)
        halve the product
    ready : Out(1, init=1)
        all steps are done
    high, low, right : Out(_RATIO_WIDTH)
        the registers

    Timing
    ------
    ``STEP_CYCLES`` for each step: one chooses the summand and shifts the sum so far, one adds.
    """

    STEP_CYCLES = 2

    load: In(1)
    i_high: In(_RATIO_WIDTH)
    i_low: In(_RATIO_WIDTH)
    i_right: In(_RATIO_WIDTH)
    count: In(range(_RATIO_WIDTH + 1))
    step: In(_Step)
    halve: In(1)
    """Halve ``high`` * 2^16 + ``low`` in the next cycle; only while ``ready`` after steps of MULTIPLY."""
    ready: Out(1, init=1)
    high: Out(_RATIO_WIDTH)
    low: Out(_RATIO_WIDTH)
    right: Out(_RATIO_WIDTH)

    def elaborate(self, platform):
        m = Module()
        left = Signal.like(self.count)
        step = Signal(_Step)
        high, low, right = self.high, self.low, self.right
        y = Signal(_RATIO_WIDTH)  # the summand; 0 unless in a step's second cycle
        sums = Signal()  # the second cycle
        adds = Signal()  # the second cycle, or one that halves
        subtract = Signal()  # y is a complement
        total = Signal(_RATIO_WIDTH + 2)
        # The lowest place makes a subtraction's carry in; its carry out says that the difference isn't below 0.
        m.d.comb += total.eq(Cat(subtract, high) + Cat(subtract, y))
        result, covers = total[1:], total[-1]
        sums_next = ~self.ready & ~sums & ~self.load
        m.d.sync += [sums.eq(sums_next), adds.eq(sums_next | self.halve), y.eq(0)]
        with m.If(self.load):
            m.d.sync += [self.ready.eq(0), step.eq(self.step), subtract.eq(self.step != _Step.MULTIPLY)]
            m.d.sync += [left.eq(self.count), high.eq(self.i_high), low.eq(self.i_low), right.eq(self.i_right)]
        with m.Elif(adds):
            m.d.sync += [left.eq(left - sums), self.ready.eq(self.ready | (left == 1))]
            with m.If(~subtract):
                m.d.sync += [high.eq(result >> 1), low.eq(Cat(low[1:_FACTOR_WIDTH], result[0]))]
            with m.Else():
                with m.If(covers):
                    m.d.sync += high.eq(result)
                with m.If(step == _Step.DIVIDE):
                    m.d.sync += low[0].eq(covers)
                with m.Else():
                    m.d.sync += right.eq(Cat(covers, right))
        with m.Elif(~self.ready), m.Switch(step):
            with m.Case(_Step.MULTIPLY):
                m.d.sync += y.eq(Mux(low[0], right, 0))
            with m.Case(_Step.DIVIDE):
                m.d.sync += [Cat(low, high).eq(Cat(low, high) << 1), y.eq(~right)]
            with m.Default():
                m.d.sync += [low.eq(low << 2), high.eq(Cat(low[-2:], high)), y.eq(~Cat(Const(1, 2), right))]
        return m


class AdamRate(wiring.Component):
    """Steps the betas' powers and makes the corrected rate, a bit every two cycles.

    Members
    -------
    start : In(1)
        make the rate of one more step; only while nothing runs
    dry : In(1)
        with ``start``: don't count the step
    rate, beta1, beta2 : In
        learning rate and mantissas of the betas (exponent -16); stand still until ``done``
    done : Out(1)
        pulses when the rate is made
    o : Out(RateLayout)
        the corrected rate, from ``done`` until the next ``start``
    commit : In(1)
        take the step, if there was a ``start`` without ``dry`` since the last ``commit`` or ``clear``
    clear : In(1)
        forget the step, and end what runs
    set1, set2, value : In
        write ``value`` to a power, while nothing runs
    power1, power2 : Out(POWER_WIDTH, init=ones)
        powers of the betas as of the last commit, fractions of 2^32; all ones after reset, for 1

    Timing
    ------
    ``done`` comes at most ``LATENCY`` cycles after ``start``.
    """

    LATENCY = _Serial.STEP_CYCLES * (3 * _FACTOR_WIDTH + _ROOT_WIDTH + _RATIO_WIDTH) + 2 * _RATIO_WIDTH + 12
    """Steps for two powers, root, ratio and product, two cycles for each bit of its normalisation, and the states."""

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
        next1, next2 = Signal(POWER_WIDTH), Signal(POWER_WIDTH)  # after the step to commit
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
        """Run the steps of ``serial`` one after the other, from the powers to the rate."""
        dry, rest = Signal(), Signal(_REST_WIDTH)
        large = Signal()  # the product is too wide: known in HALVE, else 0
        halves = Signal()  # the product is being halved
        loads = Signal()  # the present state loads
        m.d.sync += [large.eq(halves), loads.eq(0)]
        m.d.comb += [serial.halve.eq(halves), serial.load.eq(loads)]

        @contextmanager
        def state(name):
            with m.State(name):
                yield
                with m.If(self.clear):
                    m.d.sync += loads.eq(0)
                    m.next = "IDLE"

        @contextmanager
        def stage(name, following, **loaded):
            """Load the serial part, which takes a cycle of its own, and wait for its result."""
            with state(f"LOAD_{name}"):
                self._load(m, serial, **loaded)
                m.next = name
            with state(name), m.If(serial.ready):
                yield
                m.d.sync += loads.eq(following.startswith("LOAD"))
                m.next = following

        complement = Cat(Const(0, 8), ~serial.high[:POWER_WIDTH])
        dividend = Cat(Const(0, _RATIO_SHIFT), serial.right[:_ROOT_WIDTH])
        low, high = dividend[:_RATIO_WIDTH], dividend[_RATIO_WIDTH:]
        with m.FSM():
            with state("IDLE"), m.If(self.start):
                m.d.sync += [dry.eq(self.dry), loads.eq(1)]
                m.next = "LOAD_POWER1"
            with stage("POWER1", "LOAD_POWER2", count=_FACTOR_WIDTH, low=self.beta1, right=self.power1):
                m.d.sync += [
                    next1.eq(Mux(dry, next1, serial.high)), rest.eq(~serial.high[:POWER_WIDTH] >> 8),
                ]  # fmt: skip
            with stage("POWER2", "LOAD_ROOT", count=_FACTOR_WIDTH, low=self.beta2, right=self.power2):
                m.d.sync += [next2.eq(Mux(dry, next2, serial.high)), stepped.eq(stepped | ~dry)]
            with stage("ROOT", "LOAD_RATIO", count=_ROOT_WIDTH, low=complement, step=_Step.ROOT):
                pass
            with stage("RATIO", "LOAD_PRODUCT", count=_RATIO_WIDTH, high=high, low=low, right=rest, step=_Step.DIVIDE):
                m.d.sync += self.o.exponent.eq(self.rate.exponent - _REST_WIDTH)
            with stage("PRODUCT", "NORMALISE", count=_FACTOR_WIDTH, low=self.rate.mantissa, right=serial.low):
                pass
            with state("NORMALISE"):
                m.d.comb += halves.eq((serial.high != 0) & ~self.clear)
                m.next = "HALVE"
            with state("HALVE"):
                m.d.comb += self.done.eq(~large)
                m.d.sync += self.o.exponent.eq(self.o.exponent + large)
                m.next = "IDLE"
                with m.If(large):
                    m.next = "NORMALISE"

    def _load(self, m, serial, count, low, high=0, right=0, step=_Step.MULTIPLY):
        m.d.comb += [
            serial.count.eq(count), serial.step.eq(step),
            serial.i_high.eq(high), serial.i_low.eq(low), serial.i_right.eq(right),
        ]  # fmt: skip
