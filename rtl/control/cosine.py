"""Compares the cosine between prediction and true gradient with a threshold, bit by bit."""

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..lib.delay import delayed
from ..lib.interfaces import QualityLayout, register_layout

__all__ = ["Cosine", "ThresholdLayout"]

SHIFT_MAX = 16
"""Exponents of error and target that are further apart are taken to be this far apart."""
MANTISSA = 16
"""Upper bits of the dot product and the squared norms that take part in the comparison."""
SUM = 64
STREAM = SUM + 2 * SHIFT_MAX + 3
"""Bits of a norm: a sum with its shift, three terms, a sign."""
ALIGN = 3
"""Cycles that computing the distance between the exponents takes."""
FACTOR, PRODUCT = 2 * MANTISSA, 3 * MANTISSA

ThresholdLayout = register_layout("GATE_THRESHOLD")
"""The threshold of a squared cosine, as register GATE_THRESHOLD holds it."""

TopLayout = data.StructLayout({"mantissa": MANTISSA, "exponent": signed(8)})
"""A magnitude's upper bits: 0, or normalised."""


class Cosine(wiring.Component):
    """Compares dot^2 with threshold * |p|^2 * |t|^2 for a layer: p is the prediction, t the true gradient.

    p is the sum of error and target. The sums are read one bit per cycle. While three of them are added up, the upper
    bits of the results are found; then one adder does all three multiplications.

    Members
    -------
    start : In(1)
        begin; only while no comparison runs
    quality, threshold : In(QualityLayout), In(ThresholdLayout)
        sums of the layer and the threshold; must stay from ``start`` to ``done``
    done : Out(1)
        pulses at the end
    passes : Out(1)
        the cosine is positive and its square reaches the threshold; valid with ``done``

    Timing
    ------
    ``done`` comes at most CYCLES after ``start``.
    """

    CYCLES = ALIGN + STREAM + 3 * (MANTISSA + 1) + MANTISSA + 7

    def __init__(self):
        super().__init__({
            "start": In(1), "quality": In(QualityLayout), "threshold": In(ThresholdLayout),
            "done": Out(1), "passes": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        step = Signal(range(-ALIGN, STREAM + 1))
        dot, predicted, true = (Signal(TopLayout, name=name, reset_less=True) for name in ("dot", "predicted", "true"))
        turn = Signal(range(3))
        aligning, streaming = Signal(), Signal()
        negative = self._stream(m, step, aligning, streaming, dot, predicted, true)
        x, product = Signal(FACTOR, reset_less=True), Signal(PRODUCT, reset_less=True)
        left = Signal(FACTOR, reset_less=True)
        ahead = Signal(signed(11))  # exponent of the left side less that of the right one
        threshold = self.threshold
        fails = Signal()
        certain = Signal()  # passes, unless it fails
        more = Signal()
        m.d.sync += [
            fails.eq(negative | ~dot.mantissa[-1]), more.eq(Cat(Const(0, PRODUCT - FACTOR), left) >= product),
            certain.eq(~predicted.mantissa[-1] | ~true.mantissa[-1] | (threshold.mantissa == 0)),
        ]  # fmt: skip
        with m.FSM():
            self._bits(m, step, aligning, streaming)
            with m.State("LAST"):
                m.d.sync += turn.eq(0)
                m.next = "SQUARE"
            with m.State("SQUARE"):
                m.d.sync += [
                    step.eq(0), x.eq(dot.mantissa), product.eq(dot.mantissa),
                    ahead.eq((dot.exponent << 1) - MANTISSA - true.exponent),
                ]  # fmt: skip
                m.next = "MULTIPLY"
            with m.State("MULTIPLY"):
                high = product[MANTISSA:] + Mux(product[0], x, 0)
                m.d.sync += [step.eq(step + 1), product.eq(Cat(product[1:MANTISSA], high))]
                with m.If(step == MANTISSA - 1):
                    m.next = "TURN"
            with m.State("TURN"):
                m.d.sync += [turn.eq(turn + 1), step.eq(0)]
                m.next = "MULTIPLY"
                with m.Switch(turn):
                    with m.Case(0):
                        m.d.sync += [
                            left.eq(product), x.eq(predicted.mantissa), product.eq(true.mantissa),
                            ahead.eq(ahead - predicted.exponent - threshold.exponent),
                        ]  # fmt: skip
                    with m.Case(1):
                        m.d.sync += [x.eq(product), product.eq(threshold.mantissa)]
                    with m.Default():
                        m.next = "COMPARE"
            self._compare(m, left, product, ahead, fails, certain, more)
        return m

    def _bits(self, m, step, aligning, streaming):
        """Step bit by bit through the sums, from ``start`` on."""
        with m.State("IDLE"), m.If(self.start):
            m.d.sync += step.eq(-ALIGN)
            m.next = "ALIGN"
        with m.State("ALIGN"):
            m.d.comb += aligning.eq(1)
            m.d.sync += step.eq(step + 1)
            with m.If(step == -1):
                m.next = "STREAM"
        with m.State("STREAM"):
            m.d.comb += streaming.eq(1)
            m.d.sync += step.eq(step + 1)
            with m.If(step == STREAM - 1):
                m.next = "LAST"

    def _compare(self, m, left, product, ahead, fails, certain, more):
        """Normalise both sides bit by bit; then compare their exponents, then their bits."""
        with m.State("COMPARE"):
            with m.If(~left[-1]):
                m.d.sync += left.eq(left << 1)
            with m.If(~product[-1]):
                m.d.sync += product.eq(product << 1)
            m.d.sync += ahead.eq(ahead + ~product[-1] - ~left[-1])
            with m.If(fails | certain | left[-1] & product[-1]):
                m.next = "DECIDE"
        with m.State("DECIDE"):
            m.d.sync += self.passes.eq(~fails & (certain | (ahead > 0) | (ahead == 0) & more))
            m.next = "DONE"
        with m.State("DONE"):
            m.d.comb += self.done.eq(1)
            m.next = "IDLE"

    def _stream(self, m, step, aligning, streaming, dot, predicted, true):
        """Add up the sums from their least bits on; returns the sign of the dot product, valid at the end."""
        quality = self.quality
        difference = delayed(m, quality.e_exponent - quality.t_exponent, 1)
        apart = Signal(range(-SHIFT_MAX, SHIFT_MAX + 1))
        at_least = Mux(difference < -SHIFT_MAX, -SHIFT_MAX, difference)
        m.d.sync += apart.eq(Mux(difference > SHIFT_MAX, SHIFT_MAX, at_least))
        up, down = Mux(apart > 0, apart, 0), Mux(apart < 0, -apart, 0)  # in units of the lower exponent
        bits = {}
        for name, shift in (("ee", up << 1), ("et", up + down), ("tt", down << 1)):
            rest = Signal(SUM, name=f"rest_{name}", reset_less=True)
            before_first = delayed(m, shift - 1, 1)
            there = delayed(m, step >= before_first, 1)
            bits[name] = rest[0] & there
            with m.If(aligning):
                m.d.sync += rest.eq(quality[name])
            with m.Elif(there):
                m.d.sync += rest.eq(Cat(rest[1:], rest[-1] if name == "et" else 0))
        before = Signal()  # the last bit of et
        dot_sum, predicted_sum = Signal(2), Signal(3)
        dot_carry, carry = Signal(), Signal(2)
        m.d.comb += [
            dot_sum.eq(bits["et"] + bits["tt"] + dot_carry),
            predicted_sum.eq(bits["ee"] + before + bits["tt"] + carry),
        ]
        m.d.sync += [before.eq(bits["et"]), dot_carry.eq(dot_sum[1]), carry.eq(predicted_sum[1:])]
        with m.If(aligning):
            m.d.sync += [before.eq(0), dot_carry.eq(0), carry.eq(0)]
        found = delayed(m, streaming, 1)
        for bit, top in ((dot_sum[0], dot), (predicted_sum[0], predicted), (bits["tt"], true)):
            self._upper(m, delayed(m, bit, 1), step, aligning, found, top)
        negative = Signal()
        with m.If(streaming):
            m.d.sync += negative.eq(dot_sum[0])
        return negative

    def _upper(self, m, bit, step, aligning, found, top):
        """Keep the last bits up to the highest 1; a cycle after ``step``."""
        window = Signal(MANTISSA, name=f"{top.as_value().name}_window", reset_less=True)
        now = Cat(window[1:], bit)
        with m.If(aligning):
            m.d.sync += [window.eq(0), top.eq(0)]
        with m.Elif(found):
            m.d.sync += window.eq(now)
            with m.If(bit):
                m.d.sync += [top.mantissa.eq(now), top.exponent.eq(step - MANTISSA)]
