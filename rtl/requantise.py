"""Requantise: scale by a power of two, round half to even, saturate symmetrically."""

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..spec.numerics import operand_max

__all__ = ["Requantise"]


class Requantise(wiring.Component):
    """``o = requantise(i, shift, out_width)`` of docs/machine.md, as a free-running pipeline.

    A new pair of ``i`` and ``shift`` is taken every cycle; ``o`` follows ``LATENCY`` cycles later. There is
    no enable and no valid: delay those of the surroundings alongside.

    ``i`` is signed(in_width), ``o`` signed(out_width) within ±(2^(out_width-1) - 1), ``shift`` in
    shift_min..shift_max, positive to the right. Raises ValueError unless -out_width < shift_min < 0 < shift_max.
    """

    LATENCY = 2

    def __init__(self, in_width: int, out_width: int, shift_min: int, shift_max: int):
        if not -out_width < shift_min < 0 < shift_max:
            raise ValueError(
                f"shifts must satisfy -{out_width} < shift_min < 0 < shift_max, not {shift_min!r}, {shift_max!r}"
            )
        self._shift_min = shift_min
        self._shift_max = shift_max
        super().__init__({
            "i": In(signed(in_width)),
            "shift": In(range(shift_min, shift_max + 1)),
            "o": Out(signed(out_width)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        out_width = len(self.o)
        width = max(len(self.i), out_width)
        limit = operand_max(out_width)

        left = self.shift < 0
        n_left = Signal(range(1 - self._shift_min))
        n_right = Signal(range(max(self._shift_max + 1, out_width)))
        m.d.comb += [
            n_left.eq(Mux(left, -self.shift, 0)),
            # When shifting left, the right shifter shows the bits that will be lost above.
            n_right.eq(Mux(left, out_width - 1 + self.shift, self.shift)),
        ]
        raised = Signal(signed(out_width))
        m.d.comb += raised.eq(self.i)
        for level in range(len(n_left)):  # `<<` would make much wider intermediate results
            previous, raised = raised, Signal(signed(out_width))
            places = min(1 << level, out_width)
            m.d.comb += raised.eq(Mux(n_left[level], Cat(Const(0, places), previous[: out_width - places]), previous))
        lowered = self.i >> n_right

        # Bits below the result's LSB: a mask of `shift` ones.
        n_lost = (1 << len(n_right)) - 1
        lost_mask = Const((1 << n_lost) - 1, n_lost) >> ~n_right
        rest_mask = lost_mask >> 1
        below = Signal(signed(n_lost))

        # Data only, as in all pipelines: what is valid is known beside it, so nothing needs a reset.
        s0_value = Signal(signed(width), reset_less=True)
        s0_sign, s0_over, s0_half, s0_rest = (
            Signal(name=f"s0_{name}", reset_less=True) for name in ("sign", "over", "half", "rest")
        )
        s1_result = Signal.like(self.o, reset_less=True)
        m.d.comb += below.eq(self.i)
        m.d.sync += [
            s0_value.eq(Mux(left, raised, lowered)),
            s0_sign.eq(self.i < 0),
            s0_over.eq(left & (lowered != 0) & (lowered != -1)),
            s0_half.eq(~left & (below & (lost_mask ^ rest_mask)).any()),
            s0_rest.eq((below & rest_mask).any()),
        ]

        rounded = Signal(signed(width + 1))
        m.d.comb += rounded.eq(s0_value + (s0_half & (s0_rest | s0_value[0])))
        with m.If(s0_over | (rounded > limit) | (rounded < -limit)):
            m.d.sync += s1_result.eq(Cat(Const(1, 1), (~s0_sign).replicate(out_width - 2), s0_sign))
        with m.Else():
            m.d.sync += s1_result.eq(rounded)
        m.d.comb += self.o.eq(s1_result)
        return m
