"""Steps that make a channel's backward row and its gradient of gamma."""

from amaranth import Mux, Signal

from ...spec.norm import LEAST_EXPONENT
from .layouts import WIDE, magnitude
from .serial_arithmetic import Kind

__all__ = ["backward_steps"]

NUMBER_BITS = 31
GRADIENT_BITS = 24
FACTOR_BITS = 16
Q_SHIFT_MAX = 14


def backward_steps(m, unit, steps, divide):
    """States from GX_TERM to DONE."""
    arithmetic, command, row, backward = steps.arithmetic, unit.command, unit.row, unit.backward
    step, at_once, acc = steps.step, steps.at_once, steps.arithmetic.acc
    of_g, of_x, a = magnitude(unit.first), magnitude(row.sum), magnitude(row.a)
    g_negative, gx_negative, x_negative, a_negative = unit.first < 0, unit.second < 0, row.sum < 0, row.a < 0
    z_negative, q_negative, w_negative = Signal(), Signal(), Signal()
    gradient, exponent, above, lowered = Signal(47), Signal(WIDE), Signal(WIDE), Signal(WIDE)
    p, q = Signal(FACTOR_BITS), Signal(FACTOR_BITS)

    with step("GX_TERM", "KEEP_GX", Kind.MULTIPLY, x=magnitude(unit.second), y=command.n):
        pass
    at_once("KEEP_GX", "G_TERM", Kind.KEEP)
    with step("G_TERM", "DIFFERENCE", Kind.MULTIPLY, x=of_g, y=of_x):
        pass
    product_negative = g_negative ^ x_negative
    with m.State("DIFFERENCE"):  # the product less the other term; Z is its negative
        m.d.comb += [
            arithmetic.start.eq(1), arithmetic.kind.eq(Kind.ADD),
            arithmetic.subtract.eq(~(product_negative ^ gx_negative)),
        ]  # fmt: skip
        m.d.sync += z_negative.eq(~(product_negative ^ (arithmetic.total < 0)))
        m.next = "Z"
    with step("Z", "GRADIENT", Kind.NORMALISE, amount=GRADIENT_BITS):
        z_exponent = command.x_exponent + command.g_exponent + arithmetic.places
        m.d.sync += backward.gradient_exponent.eq(Mux(acc == 0, LEAST_EXPONENT, z_exponent) + row.inverse_exponent)
    with step("GRADIENT", "RATIO", Kind.MULTIPLY, x=acc, y=row.inverse):
        m.d.sync += [gradient.eq(acc), backward.gradient.eq(Mux(z_negative, -acc[:47], acc[:47]))]
    with step("RATIO", "RATIO_NUMBER", Kind.MULTIPLY, x=gradient, y=row.inverse):
        pass
    with step("RATIO_NUMBER", "PRODUCT", Kind.NORMALISE, amount=NUMBER_BITS):
        m.d.sync += exponent.eq(
            backward.gradient_exponent + row.inverse_exponent + arithmetic.places + command.x_exponent
            - command.g_exponent
        )  # fmt: skip
    with step("PRODUCT", "PRODUCT_BITS", Kind.MULTIPLY, x=acc, y=a):
        m.d.sync += q_negative.eq(~(a_negative ^ z_negative))
    with step("PRODUCT_BITS", "Q", Kind.MEASURE):
        places = arithmetic.length - FACTOR_BITS + exponent
        over = places - Q_SHIFT_MAX
        some = (acc != 0) & (places > 0)
        m.d.sync += [above.eq(Mux(some, places, 0)), lowered.eq(Mux(some & (over > 0), over, 0))]

    def factor(value):
        return Mux(value[FACTOR_BITS:].any(), (1 << FACTOR_BITS) - 1, value[:FACTOR_BITS])

    with step("Q", "LOAD_P", Kind.SHIFT, amount=above - exponent, rounds=1):
        m.d.sync += [
            q.eq(factor(acc)), backward.q.eq(Mux(q_negative, -factor(acc), factor(acc))),
            backward.q_shift.eq(above - lowered),
        ]  # fmt: skip
    at_once("LOAD_P", "P", Kind.LOAD, i=a)
    with step("P", "X_TERM", Kind.SHIFT, amount=lowered, rounds=1):
        m.d.sync += [
            p.eq(factor(acc)), backward.p.eq(Mux(a_negative, -factor(acc), factor(acc))),
            backward.p_exponent.eq(row.a_exponent + lowered),
        ]  # fmt: skip
    with step("X_TERM", "X_PLACE", Kind.MULTIPLY, x=of_x, y=q):
        pass
    with step("X_PLACE", "KEEP_X", Kind.SHIFT, amount=lowered - above):
        pass
    at_once("KEEP_X", "P_TERM", Kind.KEEP)
    with step("P_TERM", "W", Kind.MULTIPLY, x=of_g, y=p):
        pass
    p_negative, qx_negative = a_negative ^ g_negative, q_negative ^ x_negative
    with m.State("W"):
        m.d.comb += [
            arithmetic.start.eq(1), arithmetic.kind.eq(Kind.ADD), arithmetic.subtract.eq(p_negative ^ qx_negative),
        ]  # fmt: skip
        m.d.sync += w_negative.eq(p_negative ^ (arithmetic.total < 0))
        m.next = "W_DIVIDES"
    with m.State("W_DIVIDES"):
        m.d.comb += [divide.i.eq(acc), divide.by.eq(command.n), divide.start.eq(1)]
        m.next = "W_ENDS"
    with m.State("W_ENDS"), m.If(divide.ready):
        m.d.sync += backward.r.eq(Mux(w_negative, divide.o, -divide.o))
        m.next = "DONE"
