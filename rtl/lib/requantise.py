"""Requantise: scale by a power of two, round half to even, saturate symmetrically."""

from amaranth import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Requantise", "beyond", "saturated"]


def beyond(value: Value, width: int) -> Value:
    """1 if ``value`` doesn't fit into signed(width), which is no wider."""
    return (value[width - 1 : -1] ^ value[-1].replicate(len(value) - width)).any()


def saturated(
    value: Value, width: int, up: Value | int = 0, negated: Value | int = 0, over: Value | None = None
) -> tuple[Value, Value]:
    """``value`` within ±(2^(width-1) - 1), as signed(width), and a bit that is 1 if that has changed it.

    ``up`` is added to it. It may be 1 only where no limit is near, or with ``negated``: then ``value + up`` is the
    negative of the number to saturate, and ``value`` is that number's inverted bits. ``over`` is the bit of
    :func:`beyond`, where it is known already.
    """
    if len(value) < width:
        return (value + up)[:width].as_signed(), Const(0, 1)
    sign, low = value[-1], value[: width - 1]
    over = beyond(value, width) if over is None else over
    total = (value[:width].as_signed() + up)[:width]
    limit = Cat(Const(1, 1), (~sign).replicate(width - 2), sign)
    if isinstance(negated, int):
        least = sign & ~low.any()  # -2^(width-1) is one too many
        total = Cat(total[0] | least, total[1:])
        return Mux(over, limit, total).as_signed(), over | least
    over |= (sign ^ negated) & ~(low ^ negated.replicate(width - 1)).any()
    return Mux(over, limit, total).as_signed(), over


class Requantise(wiring.Component):
    """``o = requantise(i, shift, out_width)`` of docs/machine.md: shift, round half to even, saturate.

    A shift either way is a shift to the right of a word that begins ``-shift_min`` places further left, plus one place
    for the half. It is shifted in two steps, by the amount's greatest bits first. A number narrower than the result is
    shifted by the least bits first: so few of the places to its right are in use until the end. Then it is rounded.

    The negated result is made by inverting the bits before they are rounded. In bits of w, w + u is -(~w + ~u), so only
    the inverse of the rounding bit is added.

    Parameters
    ----------
    in_width, out_width
        bits of ``i`` and ``o``
    shift_min, shift_max
        range of ``shift``
    negates
        add ``negate``

    Members
    -------
    i : In(signed(in_width))
        the number
    shift : In(range(shift_min, shift_max + 1))
        places to the right, negative to the left
    o : Out(signed(out_width))
        the result, within ±(2^(out_width-1) - 1)
    negate : In(1)
        give the negative; stands still; only with ``negates``

    Raises
    ------
    ValueError
        unless shift_min < 0 < shift_max

    Timing
    ------
    Free-running: ``o`` follows ``LATENCY`` cycles after ``i`` and ``shift``, a new one every cycle. It has neither
    enable nor valid: delay the surroundings' valid alongside.
    """

    LATENCY = 4
    _SECOND = 3
    """Bits of the shift amount that the second part of the shifter takes."""

    def __init__(self, in_width: int, out_width: int, shift_min: int, shift_max: int, negates: bool = False):
        if not shift_min < 0 < shift_max:
            raise ValueError(f"shifts must satisfy shift_min < 0 < shift_max, not {shift_min!r}, {shift_max!r}")
        self._left, self._negates, self._narrow = -shift_min, negates, in_width < out_width
        super().__init__({
            "i": In(signed(in_width)),
            "shift": In(range(shift_min, shift_max + 1)),
            "o": Out(signed(out_width)),
            **({"negate": In(1)} if negates else {}),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        in_width, out_width, left = len(self.i), len(self.o), self._left
        negate = self.negate if self._negates else 0
        # Data only, as in all pipelines: their validity is known beside them, so no register needs a reset.
        s1_i = Signal.like(self.i, reset_less=True)
        s1_places = Signal(range(in_width + left), reset_less=True)
        s1_none, s2_none = Signal(reset_less=True), Signal(reset_less=True)
        m.d.sync += [
            s1_i.eq(self.i), s1_places.eq(self.shift + left),
            s1_none.eq(self.shift >= in_width), s2_none.eq(s1_none),  # less than a half is left
        ]  # fmt: skip

        order = range(len(s1_places)) if self._narrow else range(len(s1_places))[::-1]
        first, second = order[: -self._SECOND], order[-self._SECOND :]
        word = Cat(Const(0, left + 1), s1_i).as_signed()
        word, lost, over = self._lowered(m, word, s1_i[-1], s1_places, first, sum(1 << bit for bit in second))
        s2_word, s2_sign = Signal.like(word, reset_less=True), Signal(reset_less=True)
        s2_places = Signal.like(s1_places, reset_less=True)
        s2_lost, s2_over = Signal.like(lost, reset_less=True), Signal.like(over, reset_less=True)
        m.d.sync += [
            s2_word.eq(word), s2_sign.eq(s1_i[-1]), s2_places.eq(s1_places), s2_lost.eq(lost), s2_over.eq(over),
        ]  # fmt: skip

        word, lost, over = self._lowered(m, s2_word, s2_sign, s2_places, second, 0)
        s3_word, s3_sign = Signal.like(word, reset_less=True), Signal(reset_less=True)
        s3_lost, s3_over = Signal(reset_less=True), Signal(reset_less=True)
        if self._negates:
            word = word ^ negate.replicate(len(word))
        m.d.sync += [
            s3_word.eq(Mux(s2_none, 0, word)), s3_sign.eq(~s2_none & (s2_sign ^ negate)),
            s3_lost.eq(~s2_none & (s2_lost.any() | lost.any())), s3_over.eq(~s2_none & (s2_over.any() | over.any())),
        ]  # fmt: skip

        s4_result = Signal.like(self.o, reset_less=True)
        half, top = s3_word[0] ^ negate, Mux(s3_over, ~s3_sign, s3_word[-1])
        whole = Cat(s3_word[1:-1], top, s3_sign).as_signed()
        up = (half & (s3_lost | (whole[0] ^ negate))) ^ negate
        if in_width + left < out_width:  # no limit is ever reached
            m.d.sync += s4_result.eq(whole + up)
        elif in_width <= out_width:  # a word that is rounded has free places at its top
            m.d.sync += s4_result.eq(saturated(whole, out_width, up, negate)[0])
        else:
            m.d.sync += s4_result.eq(saturated((whole + up).as_signed(), out_width)[0])
        m.d.comb += self.o.eq(s4_result)
        return m

    def _lowered(self, m, word, sign, places, bits, rest):
        """``word`` shifted right by ``places`` as far as its ``bits`` say, in this order; its top is cut off.

        At most ``rest`` places follow. Also returns bits of which one is 1 if a 1 was lost to the right, and bits of
        which one is 1 if anything but the sign was lost to the left.
        """
        lost, over = [], []
        if self._narrow and bits:  # parts of what is lost, since all of it comes with the last bit, which is too late
            amount, unit = places[bits[0] : bits[-1] + 1], 1 << bits[0]
            lost = [(amount > part) & word[part * unit :][:unit].any() for part in range(-(-len(word) // unit))]
        left = rest + sum(1 << bit for bit in bits)
        for bit in bits:
            left -= 1 << bit
            by = min(1 << bit, len(word) - 1)
            reach = min(len(word), len(self.o) + left + 1)  # places that may still reach the result, and the half
            previous, word = word, Signal(signed(reach), name=f"by{by}")
            m.d.comb += word.eq(Mux(places[bit], previous >> by, previous))
            if not self._narrow:
                lost.append(places[bit] & previous[:by].any())
            above = previous[reach:]
            over.append(~places[bit] & (above ^ sign.replicate(len(above))).any())
        return word, Cat(lost), Cat(over)
