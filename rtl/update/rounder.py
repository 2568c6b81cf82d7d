"""End of an update's sums: drops the guard bits and cuts the rest to its limit."""

from amaranth import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...spec.numerics import UPDATE_GUARD_BITS

__all__ = ["Rounder"]


def _beyond(magnitude: Value, limit: int) -> Value:
    """``magnitude > limit``, where ``limit + 1`` is ones followed by zeros, so that no carry is needed."""
    low, high = ((limit + 1) & -(limit + 1)).bit_length() - 1, (limit + 1).bit_length()
    if limit + 1 != (1 << high) - (1 << low):
        raise ValueError(f"a limit must be one less than ones followed by zeros, not {limit!r}")
    return magnitude[high:].any() | magnitude[low:high].all()


class Rounder(wiring.Component):
    """``o`` = ``i`` / 2^UPDATE_GUARD_BITS, rounded half to even, then cut to ± the limit.

    Parameters
    ----------
    in_width
        bits of ``i``
    limits
        the limits to choose from

    Members
    -------
    i : In(signed(in_width))
        the sum
    limit : In(range(len(limits)))
        number of the limit
    negate : In(1)
        change the sign of ``o``
    o : Out(signed(max(limits).bit_length() + 1))
        the result
    magnitude : Out(in_width - UPDATE_GUARD_BITS)
        its magnitude before it is cut
    saturated : Out(1)
        it was cut

    Raises
    ------
    ValueError
        a limit isn't one less than ones followed by zeros

    Timing
    ------
    Free-running: ``o`` follows ``LATENCY`` cycles after ``i``, a new one every cycle.
    """

    LATENCY = 3

    def __init__(self, in_width: int, *limits: int):
        self._limits = limits
        super().__init__({
            "i": In(signed(in_width)), "limit": In(range(len(limits))), "negate": In(1),
            "o": Out(signed(max(limits).bit_length() + 1)),
            "magnitude": Out(in_width - UPDATE_GUARD_BITS), "saturated": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        guard, whole, sign = self.i[:UPDATE_GUARD_BITS], self.i[UPDATE_GUARD_BITS:], self.i[-1]
        up = guard[-1] & (guard[:-1].any() | whole[0])
        s1_magnitude = Signal.like(self.magnitude, reset_less=True)
        s1_limit, s1_negative = Signal.like(self.limit, reset_less=True), Signal(reset_less=True)
        m.d.sync += [  # -(whole + up) is ~whole + ~up
            s1_magnitude.eq((whole ^ sign.replicate(len(whole))) + (up ^ sign)),
            s1_limit.eq(self.limit), s1_negative.eq(sign ^ self.negate),
        ]  # fmt: skip
        s2_magnitude, s2_limit = Signal.like(s1_magnitude, reset_less=True), Signal.like(s1_limit, reset_less=True)
        s2_negative, s2_over = Signal(reset_less=True), Signal(reset_less=True)
        over, most = Signal(), Signal(len(self.o) - 1)
        for n, limit in enumerate(self._limits):
            with m.If(s1_limit == n):
                m.d.comb += over.eq(_beyond(s1_magnitude, limit))
            with m.If(s2_limit == n):
                m.d.comb += most.eq(limit)
        s3_o, s3_magnitude = Signal.like(self.o, reset_less=True), Signal.like(s1_magnitude, reset_less=True)
        s3_over = Signal(reset_less=True)
        within = Mux(s2_over, most, s2_magnitude[: len(most)])
        m.d.sync += [
            s2_magnitude.eq(s1_magnitude), s2_limit.eq(s1_limit), s2_negative.eq(s1_negative), s2_over.eq(over),
            s3_o.eq((Cat(within, 0) ^ s2_negative.replicate(len(s3_o))) + s2_negative),
            s3_magnitude.eq(s2_magnitude), s3_over.eq(s2_over),
        ]  # fmt: skip
        m.d.comb += [self.o.eq(s3_o), self.magnitude.eq(s3_magnitude), self.saturated.eq(s3_over)]
        return m
