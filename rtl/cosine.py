"""Whether a prediction points where the true gradient does: its cosine against a threshold, bit by bit."""

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .interfaces import QualityLayout

__all__ = ["Cosine", "ThresholdLayout"]

SHIFT_MAX = 16
"""Error and target are compared as if their exponents were no further apart."""
MANTISSA = 16
"""Upper bits of dot product and squared norms that are compared."""
SUM = 64
STREAM = SUM + 2 * SHIFT_MAX + 3
"""Bits of a norm: a sum with its shift, three terms, a sign."""
FACTOR, PRODUCT = 2 * MANTISSA, 3 * MANTISSA

ThresholdLayout = data.StructLayout({"mantissa": MANTISSA, "exponent": signed(8), "unused": 7, "in_use": 1})
"""What a squared cosine must reach, laid out as the GATE_THRESHOLD register shows it."""

TopLayout = data.StructLayout({"mantissa": MANTISSA, "exponent": signed(8)})
"""A magnitude's upper bits: 0, or normalised."""


class Cosine(wiring.Component):
    """Compares dot^2 with threshold * |p|^2 * |t|^2 for the ``quality`` of a layer, p being error plus target.

    ``quality`` and ``threshold`` must stay from ``start`` (only while nothing else runs) to ``done``, ``CYCLES``
    later at most; ``passes`` is valid with that. One bit of the sums and of a product per cycle: three of the first
    are added up while the upper bits of what they make are looked for, and one adder does all three multiplications.
    """

    CYCLES = STREAM + 3 * (MANTISSA + 1) + MANTISSA + 4

    def __init__(self):
        super().__init__({
            "start": In(1), "quality": In(QualityLayout), "threshold": In(ThresholdLayout),
            "done": Out(1), "passes": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        step = Signal(range(STREAM))
        dot, predicted, true = (Signal(TopLayout, name=name) for name in ("dot", "predicted", "true"))
        turn = Signal(range(3))
        streaming = Signal()
        negative = self._stream(m, step, streaming, dot, predicted, true)
        x, product = Signal(FACTOR), Signal(PRODUCT)
        left = Signal(FACTOR)
        ahead = Signal(signed(11))  # exponent of the left side less that of the right one
        threshold = self.threshold
        with m.FSM():
            with m.State("IDLE"), m.If(self.start):
                m.d.sync += step.eq(0)
                m.next = "STREAM"
            with m.State("STREAM"):
                m.d.comb += streaming.eq(1)
                m.d.sync += step.eq(step + 1)
                with m.If(step == STREAM - 1):
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
            with m.State("COMPARE"):
                fails = negative | ~dot.mantissa[-1]
                passes = ~predicted.mantissa[-1] | ~true.mantissa[-1] | (threshold.mantissa == 0)
                more = Cat(Const(0, PRODUCT - FACTOR), left) >= product
                m.d.comb += [
                    self.done.eq(fails | passes | left[-1] & product[-1]),
                    self.passes.eq(~fails & (passes | (ahead > 0) | (ahead == 0) & more)),
                ]
                with m.If(~left[-1]):
                    m.d.sync += left.eq(left << 1)
                with m.If(~product[-1]):
                    m.d.sync += product.eq(product << 1)
                m.d.sync += ahead.eq(ahead + ~product[-1] - ~left[-1])
                with m.If(self.done):
                    m.next = "IDLE"
        return m

    def _stream(self, m, step, streaming, dot, predicted, true):
        """Add up the sums from their least bits on; returns whether the dot product is negative, at the end."""
        quality = self.quality
        apart = Signal(range(-SHIFT_MAX, SHIFT_MAX + 1))
        difference = quality.e_exponent - quality.t_exponent
        clamped = Mux(difference > SHIFT_MAX, SHIFT_MAX, Mux(difference < -SHIFT_MAX, -SHIFT_MAX, difference))
        with m.If(self.start):
            m.d.sync += apart.eq(clamped)
        up, down = Mux(apart > 0, apart, 0), Mux(apart < 0, -apart, 0)  # in units of the lower exponent
        bits = {}
        for name, shift in (("ee", up << 1), ("et", up + down), ("tt", down << 1)):
            rest = Signal(SUM, name=f"rest_{name}")
            bits[name] = Signal(name=f"bit_{name}")
            there = step >= shift
            m.d.comb += bits[name].eq(rest[0] & there)
            with m.If(self.start):
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
        with m.If(self.start):
            m.d.sync += [before.eq(0), dot_carry.eq(0), carry.eq(0)]
        for bit, top in ((dot_sum[0], dot), (predicted_sum[0], predicted), (bits["tt"], true)):
            self._upper(m, bit, step, streaming, top)
        negative = Signal()
        with m.If(streaming):
            m.d.sync += negative.eq(dot_sum[0])
        return negative

    def _upper(self, m, bit, step, streaming, top):
        """The last bits up to the highest 1."""
        window = Signal(MANTISSA, name=f"{top.as_value().name}_window")
        now = Cat(window[1:], bit)
        with m.If(self.start):
            m.d.sync += [window.eq(0), top.eq(0)]
        with m.Elif(streaming):
            m.d.sync += window.eq(now)
            with m.If(bit):
                m.d.sync += [top.mantissa.eq(now), top.exponent.eq(step - (MANTISSA - 1))]
