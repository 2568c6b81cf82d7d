"""Steps that make a channel's forward row and its running statistics."""

from amaranth import Cat, Const, Mux, Signal

from ...spec.norm import LEAST_EXPONENT, MOMENTUM_BITS
from .layouts import N_WIDTH, WIDE, Task, magnitude
from .serial_arithmetic import Kind

__all__ = ["forward_steps"]

NUMBER_BITS = 31
FACTOR_BITS = 16
MEAN_FRACTION = 31
MEAN_BITS = 46
SQUARE_BITS = 48
EPSILON_LEFT = 79
SQUARE_FRACTION = 16


def forward_steps(m, unit, steps, root, rooted, divide):
    """States from MEAN or RUNNING_MEAN to DONE; ``rooted``: the last root, and whether it is there."""
    arithmetic, command, forward, state = steps.arithmetic, unit.command, unit.forward, unit.state
    step, at_once, acc = steps.step, steps.at_once, steps.arithmetic.acc
    batch = unit.task == Task.BATCH
    mean, mean_negative = Signal(MEAN_BITS), Signal()
    n = Signal(N_WIDTH)
    m.d.comb += n.eq(Mux(batch, command.n, 1))
    place, exponent, above = Signal(WIDE), Signal(WIDE), Signal(WIDE)
    total = magnitude(unit.first)
    square = Signal(80)

    # The mean, in the background for a batch; then the variance.
    with m.State("MEAN"):
        m.d.comb += [divide.i.eq(total << MEAN_FRACTION), divide.by.eq(command.n), divide.start.eq(1)]
        m.d.sync += mean_negative.eq(unit.first < 0)
        m.next = "SQUARES"
    with step("SQUARES", "KEEP_SQUARES", Kind.MULTIPLY, x=unit.second, y=command.n):
        pass
    at_once("KEEP_SQUARES", "SQUARE", Kind.KEEP)
    with step("SQUARE", "VARIANCE", Kind.MULTIPLY, x=total, y=total):
        pass
    with step("VARIANCE", "EPSILON", Kind.ADD, subtract=1):
        m.d.sync += [square.eq(acc), place.eq((command.x_exponent << 1) - SQUARE_FRACTION)]
    place_of_mean = state.mean_exponent - command.x_exponent + MEAN_FRACTION
    with step("RUNNING_MEAN", "RUNNING_PLACE", Kind.LOAD, i=magnitude(state.mean)):
        m.d.sync += mean_negative.eq(state.mean < 0)
    with step("RUNNING_PLACE", "EPSILON", Kind.SHIFT, amount=-Mux(place_of_mean > MEAN_BITS, MEAN_BITS, place_of_mean)):
        m.d.sync += [
            mean.eq(Mux(acc[MEAN_BITS:].any(), (1 << MEAN_BITS) - 1, acc)), square.eq(state.variance),
            place.eq(state.variance_exponent - SQUARE_FRACTION),
        ]  # fmt: skip

    # Variance and epsilon at one exponent, the root, its inverse.
    with step("EPSILON", "EPSILON_PLACE", Kind.LOAD, i=command.epsilon):
        beyond = command.epsilon_exponent - place - EPSILON_LEFT
        cut = Mux(beyond > 0, beyond, 0)
        m.d.sync += [above.eq(cut), exponent.eq(place + cut)]
    with step("EPSILON_PLACE", "KEEP_EPSILON", Kind.SHIFT, amount=exponent - command.epsilon_exponent):
        pass
    at_once("KEEP_EPSILON", "LOAD_SQUARE", Kind.KEEP)
    at_once("LOAD_SQUARE", "SQUARE_PLACE", Kind.LOAD, i=square)
    with step("SQUARE_PLACE", "ADD_EPSILON", Kind.SHIFT, amount=above - SQUARE_FRACTION):
        pass
    at_once("ADD_EPSILON", "LEAST", Kind.ADD)
    at_once("LEAST", "RADICAND", Kind.LOAD, i=Mux(acc == 0, 1, acc))
    with step("RADICAND", "ROOT", Kind.NORMALISE, amount=SQUARE_BITS, even=1, parity=exponent[0]):
        pass
    with m.State("ROOT"):
        half = (arithmetic.places + exponent) >> 1
        m.d.comb += root.start.eq(1)
        m.d.sync += forward.inverse_exponent.eq(-(SQUARE_BITS - 2) - half)
        m.next = "ROOT_ENDS"
    with m.State("ROOT_ENDS"), m.If(rooted[1] & divide.ready):
        with m.If(batch):
            m.d.sync += mean.eq(divide.o)
        m.next = "INVERSE"
    with m.State("INVERSE"):
        m.d.comb += [divide.i.eq(1 << SQUARE_BITS - 2), divide.by.eq(rooted[0]), divide.start.eq(1)]
        m.next = "STATE"
    _state_steps(m, unit, steps, mean, mean_negative, square, batch)
    with m.State("INVERSE_ENDS"), m.If(divide.ready):
        m.d.sync += forward.inverse.eq(divide.o)
        m.next = "FACTOR"
    _row_steps(m, unit, steps, n, mean, mean_negative)


def _row_steps(m, unit, steps, n, mean, mean_negative):
    """A from gamma, n and the inverse; B from beta and the mean."""
    step, at_once, arithmetic = steps.step, steps.at_once, steps.arithmetic
    command, forward, acc = unit.command, unit.forward, arithmetic.acc
    exponent, shift, factor = Signal(WIDE), Signal(WIDE), Signal(FACTOR_BITS)
    with step("FACTOR", "GAMMA", Kind.MULTIPLY, x=forward.inverse, y=n):
        m.d.sync += exponent.eq(command.w_exponent + forward.inverse_exponent)
    with step("GAMMA", "FACTOR_BITS", Kind.MULTIPLY, x=acc, y=magnitude(unit.gamma)):
        pass
    with step("FACTOR_BITS", "FACTOR_SHIFT", Kind.MEASURE):
        excess = arithmetic.length - FACTOR_BITS
        least = command.w_exponent - command.x_exponent - MEAN_FRACTION - exponent
        more = Mux(excess > least, excess, least)
        m.d.sync += shift.eq(Mux(more > 0, more, 0))
    with step("FACTOR_SHIFT", "OFFSET", Kind.SHIFT, amount=shift, rounds=1):
        value = Mux(acc[FACTOR_BITS:].any(), (1 << FACTOR_BITS) - 1, acc[:FACTOR_BITS])
        m.d.sync += [
            factor.eq(value), forward.a.eq(Mux(unit.gamma < 0, -value, value)),
            forward.a_exponent.eq(exponent + shift),
        ]  # fmt: skip
    with step("OFFSET", "KEEP_OFFSET", Kind.MULTIPLY, x=mean, y=factor):
        pass
    at_once("KEEP_OFFSET", "BETA", Kind.KEEP)
    at_once("BETA", "BETA_PLACE", Kind.LOAD, i=magnitude(unit.beta))
    beta_place = command.w_exponent - command.x_exponent - forward.a_exponent + MEAN_FRACTION
    with step("BETA_PLACE", "SUM", Kind.SHIFT, amount=-beta_place):
        pass
    beta_negative, negative = unit.beta < 0, (unit.gamma < 0) ^ mean_negative
    with m.State("SUM"):
        signed_total = Signal.like(arithmetic.total)
        m.d.comb += [
            arithmetic.subtract.eq(~(beta_negative ^ negative)),
            signed_total.eq(Mux(beta_negative, -arithmetic.total, arithmetic.total)),
        ]  # fmt: skip
        rounded = (signed_total + (1 << MEAN_FRACTION - 1)) >> MEAN_FRACTION
        m.d.sync += [forward.b.eq(rounded), forward.sum.eq(unit.first)]
        m.next = "DONE"


def _state_steps(m, unit, steps, mean, mean_negative, square, batch):
    """Running statistics, while the inverse is divided."""
    command, state = unit.command, unit.state
    following = unit.next_state
    with m.State("STATE"):
        m.next = "INVERSE_ENDS"
        with m.If(batch):
            m.next = "MEAN_LOAD"
    _blend_steps(
        m, unit, steps, "MEAN", "VARIANCE_LOAD", mean, command.x_exponent - MEAN_FRACTION, mean_negative,
        command.momentum, Const(-MOMENTUM_BITS, 8), (state.mean, state.mean_exponent),
        (following.mean, following.mean_exponent),
    )  # fmt: skip
    _blend_steps(
        m, unit, steps, "VARIANCE", "INVERSE_ENDS", square, command.x_exponent << 1, Const(0, 1),
        command.unbiased, command.unbiased_exponent, (state.variance, state.variance_exponent),
        (following.variance, following.variance_exponent),
    )  # fmt: skip


def _blend_steps(m, unit, steps, name, end, new, new_exponent, new_negative, rate, rate_exponent, old, out):
    """(1 - momentum) * old + rate * new, each a number in floating point."""
    step, at_once, arithmetic, acc = steps.step, steps.at_once, steps.arithmetic, steps.arithmetic.acc
    added, ahead, exponent = (Signal(WIDE, name=f"{name.lower()}_{each}") for each in ("added", "ahead", "exponent"))
    old_negative = old[0] < 0
    negative = Signal(name=f"{name.lower()}_negative")
    at_once(f"{name}_LOAD", f"{name}_NUMBER", Kind.LOAD, i=new)
    with step(f"{name}_NUMBER", f"{name}_RATE", Kind.NORMALISE, amount=NUMBER_BITS):
        with m.If(acc == 0):
            m.d.sync += added.eq(LEAST_EXPONENT + rate_exponent)
        with m.Else():
            m.d.sync += added.eq(new_exponent + arithmetic.places + rate_exponent)
    with step(f"{name}_RATE", f"{name}_ADDED", Kind.MULTIPLY, x=acc, y=rate):
        m.d.sync += ahead.eq(added - (old[1] - MOMENTUM_BITS))
    at_once(f"{name}_ADDED", f"{name}_KEPT", Kind.KEEP)
    rest = Cat(Const(0, MOMENTUM_BITS), 1) - unit.command.momentum
    with step(f"{name}_KEPT", f"{name}_ORDER", Kind.MULTIPLY, x=magnitude(old[0]), y=rest[: MOMENTUM_BITS + 1]):
        pass
    with m.State(f"{name}_ORDER"):
        m.next = f"{name}_KEPT_CUT"
        with m.If(ahead < 0):
            m.next = f"{name}_SWAP"
    at_once(f"{name}_SWAP", f"{name}_ADDED_CUT", Kind.SWAP)
    with step(f"{name}_ADDED_CUT", f"{name}_SWAP_BACK", Kind.SHIFT, amount=-ahead):
        m.d.sync += exponent.eq(old[1] - MOMENTUM_BITS)
    at_once(f"{name}_SWAP_BACK", f"{name}_SUM", Kind.SWAP)
    with step(f"{name}_KEPT_CUT", f"{name}_SUM", Kind.SHIFT, amount=ahead):
        m.d.sync += exponent.eq(added)
    with m.State(f"{name}_SUM"):
        m.d.comb += [
            arithmetic.start.eq(1), arithmetic.kind.eq(Kind.ADD), arithmetic.subtract.eq(old_negative ^ new_negative),
        ]  # fmt: skip
        m.d.sync += negative.eq(old_negative ^ (arithmetic.total < 0))
        m.next = f"{name}_NEW"
    with step(f"{name}_NEW", end, Kind.NORMALISE, amount=NUMBER_BITS):
        place = exponent + arithmetic.places
        m.d.sync += [out[0].eq(0), out[1].eq(LEAST_EXPONENT)]
        with m.If((acc != 0) & (place > LEAST_EXPONENT)):
            m.d.sync += [out[0].eq(Mux(negative, -acc[:NUMBER_BITS], acc[:NUMBER_BITS])), out[1].eq(place)]
