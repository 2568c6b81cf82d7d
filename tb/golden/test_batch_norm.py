"""Batch norm in integers against PyTorch's in float64, in LSBs of each result."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from adagp.golden import batch_norm
from adagp.golden.channel_constants import Affine, forward_constants, running_constants, running_state
from adagp.golden.channel_tables import pack_rows, unpack_rows
from adagp.golden.epilogue import epilogue
from adagp.host.compiler.norm_state import (
    evaluation_constants,
    export_states,
    import_states,
    norm_constants,
)
from adagp.host.compiler.quantise import dequantise, exponent_for, quantise
from adagp.spec.norm import FORWARD_ROW, LEAST_EXPONENT, MAX_VALUES, STATE_ROW, ZERO, Number, State

EPSILON, MOMENTUM = 1e-5, round(0.1 * 2**16) / 2**16


def quantised(values):
    exponent = exponent_for(float(np.abs(values).max()), 16)
    return quantise(values, exponent, 16), exponent


def stored(acc, exponents, out):
    return epilogue(acc, exponents, out, acc_width=48, operand_width=16).out


def in_lsbs(acc, exponents, expected, least=0.0):
    """The largest error of the result, stored with 16 bits for its largest magnitude or ``least``, in its LSBs."""
    out = exponent_for(max(least, float(np.abs(expected).max())), 16)
    return float(np.abs(stored(acc, exponents, out) - np.ldexp(expected, -out)).max())


class Case:
    """A batch in mantissas, the golden model's results, and PyTorch's from the same values."""

    def __init__(self, x, gamma, beta, g):
        (self.x, ex), (self.g, eg) = quantised(x), quantised(g)
        weights, ew = quantised(np.stack([gamma, beta]))
        n, channels = len(x), x.shape[-1]
        constants = norm_constants(n, EPSILON, MOMENTUM)
        states = import_states(np.linspace(-1, 1, channels), np.geomspace(0.01, 100, channels))
        of_x = batch_norm.sums(self.x)
        rows = batch_norm.forward_rows(of_x, weights, ew, ex, constants)
        of_g = batch_norm.sums(self.x, self.g)
        back = batch_norm.backward_rows(rows, of_g, ex, eg, n)
        self.y = batch_norm.apply(self.x, rows, ex)
        self.dx = batch_norm.apply_backward(self.g, self.x, back, eg)
        self.dw = batch_norm.parameter_gradients(rows, of_g, ex, eg, n)
        self.mean, self.variance = export_states(batch_norm.states_after(states, of_x, ex, constants))
        frozen = batch_norm.running_rows(states, weights, ew, ex, evaluation_constants(EPSILON))
        self.evaluated = batch_norm.apply(self.x, frozen, ex)
        self._torch(*(torch.tensor(dequantise(*each)) for each in ((self.x, ex), (weights, ew), (self.g, eg))), states)

    def _torch(self, x, weights, g, states):
        x.requires_grad_()
        gamma, beta = (weights[at].clone().requires_grad_() for at in (0, 1))
        mean, variance = map(torch.tensor, export_states(states))
        evaluated = torch.nn.functional.batch_norm(x, mean, variance, gamma, beta, False, MOMENTUM, EPSILON)
        y = torch.nn.functional.batch_norm(x, mean, variance, gamma, beta, True, MOMENTUM, EPSILON)
        y.backward(g)
        # The gradient of few values is far below its terms; their rounding is what counts.
        scales = gamma.detach() / torch.sqrt(x.detach().var(0, correction=0) + EPSILON)
        self.terms = float((scales * g).abs().max())
        self.expected = {
            "y": y.detach().numpy(), "dx": x.grad.numpy(), "dgamma": gamma.grad.numpy(), "dbeta": beta.grad.numpy(),
            "mean": mean.numpy(), "variance": variance.numpy(), "evaluated": evaluated.detach().numpy(),
        }  # fmt: skip

    def errors(self):
        found = {name: in_lsbs(*getattr(self, name), self.expected[name]) for name in ("y", "evaluated")}
        found["dx"] = in_lsbs(*self.dx, self.expected["dx"], self.terms)
        acc, exponents = self.dw
        for at, name in enumerate(("dgamma", "dbeta")):
            found[name] = in_lsbs(acc[at], exponents[at], self.expected[name])
        found["mean"] = float(np.abs(self.mean - self.expected["mean"]).max() / np.abs(self.expected["mean"]).max())
        found["variance"] = float(np.abs(self.variance / self.expected["variance"] - 1).max())
        return found


BOUNDS = {"y": 0.8, "evaluated": 0.8, "dx": 1.1, "dgamma": 0.6, "dbeta": 0.5001, "mean": 2**-28, "variance": 2**-15}
"""A constant off by 2^-14 moves the largest value of a result by two LSBs."""


def drawn(seed, n, channels, spread=0, mean=0.0, gamma=None):
    """A batch whose channels' sigmas lie between 1 and 2^``spread``, with means of ``mean`` sigmas."""
    rng = np.random.default_rng(seed)
    sigma = 2.0 ** np.linspace(0, spread, channels)
    z, g = rng.standard_normal((2, n, channels))
    gamma = rng.uniform(0.5, 1.5, channels) if gamma is None else gamma(channels)
    g += 0.5 * np.sign(z) * rng.uniform(-1, 1, channels)  # gradients that gamma feels
    return Case(sigma * (z + mean * rng.choice([-1, 1], channels)), gamma, rng.standard_normal(channels), g)


def checked(case, **wider):
    errors = case.errors()
    print(errors)
    assert len(errors) == len(BOUNDS)
    assert not {name: error for name, error in errors.items() if not error <= {**BOUNDS, **wider}[name]}


@pytest.mark.parametrize("n", [2, 3, 7, 64, 1000, 1024, 1 << 14])
@pytest.mark.parametrize("spread", [0, 5, 10])
def test_results_are_within_rounding(n, spread):
    """The sigma of the least channel is at least two LSBs, but its values are rounded before both sides see them."""
    checked(drawn(n + spread, n, 48, spread))


def test_many_values():
    checked(drawn(3, 1 << 20, 5, 10))


@pytest.mark.parametrize("mean", [1, 10, 100])
def test_means_far_from_zero(mean):
    checked(drawn(mean, 1000, 48, 2, mean), evaluated=1.0)  # there nothing takes the mean away


def test_gammas_of_zero_and_far_below_the_rest():
    checked(drawn(5, 500, 48, 4, gamma=lambda channels: np.where(np.arange(channels) % 3, 1.0, 0.0)))
    checked(drawn(6, 500, 48, 4, gamma=lambda channels: np.where(np.arange(channels) % 3, 1.0, 2.0**-14)))
    case = drawn(7, 500, 8, gamma=np.zeros)
    beta = case.expected["y"][0]
    assert (case.expected["y"] == beta).all() and not case.dx[0].any() and np.abs(case.dw[0]).max() > 0
    assert in_lsbs(*case.y, case.expected["y"]) <= 0.5


@pytest.mark.parametrize("factor", [1 + 2**-14, 1 - 2**-14])
@pytest.mark.parametrize("name", ["y", "dx", "evaluated"])
def test_the_bounds_notice_a_factor_that_is_off(name, factor):
    case = drawn(8, 1000, 16)
    acc, exponents = getattr(case, name)
    setattr(case, name, (np.rint(acc * factor).astype(np.int64), exponents))
    assert case.errors()[name] > BOUNDS[name]


def test_sums_are_exact_and_the_same_in_parts():
    rng = np.random.default_rng(9)
    x, g = rng.choice([-32767, 32767, 5], (2, 70_000, 3)).astype(np.int16)
    for gradients, other in ((None, x), (g, g)):
        first, last = (None, None) if gradients is None else (g[:999], g[999:])
        whole, begin = np.array(batch_norm.sums(x, gradients)), np.array(batch_norm.sums(x[:999], first))
        exact = (x.astype(object) * other.astype(object)).sum(0)
        assert whole[0].tolist() == other.sum(0, dtype=np.int64).tolist() and whole[1].tolist() == exact.tolist()
        rest = np.array(batch_norm.sums(x[999:], last))
        assert (begin + rest).tolist() == whole.tolist()


def test_too_many_values_are_refused():
    with pytest.raises(ValueError, match=f"at most {MAX_VALUES} values, not {MAX_VALUES + 1}"):
        batch_norm.sums(np.broadcast_to(np.int16(1), (MAX_VALUES + 1, 1)))


def test_one_channel_by_hand():
    """1, 3: V = 2 * 10 - 16 = 4, so sigma is 1; gamma = 1/2, beta = 3: y = 2.5 and 3.5."""
    constants = norm_constants(2, 2.0**-40, 0.5)
    assert constants.n == 2 and constants.momentum == 1 << 15
    row = forward_constants((4, 10), Affine(1, 6, -1), 0, constants)
    assert (row.a, row.a_exponent, row.sum, row.inverse, row.inverse_exponent) == (1 << 15, -16, 4, 1 << 23, -24)
    assert row.b == 2 << 16
    state = running_state(State(Number(1 << 30, -30), Number(1 << 30, -30)), (4, 10), 0, constants)
    assert [Fraction(n.mantissa) * Fraction(2) ** n.exponent for n in (state.mean, state.variance)] == [1.5, 1.5]


def test_all_values_alike():
    """V is epsilon alone; where even that is below an LSB of V it is 1. Nothing overflows at any exponent."""
    affine = Affine(32767, -32767, -14)
    for exponent in range(-128, 128, 8):
        for n in (2, 1000, MAX_VALUES):
            sums = (32767 * n, 32767 * 32767 * n)
            row = forward_constants(sums, affine, exponent, norm_constants(n, EPSILON, MOMENTUM))
            y = row.a * 32767 + row.b
            assert abs(np.ldexp(y, row.a_exponent + exponent) + 32767 * 2.0**-14) <= np.ldexp(
                2, row.a_exponent + exponent
            )
            assert abs(row.b) < 1 << 46
            epsilon = np.ldexp(n * n * EPSILON, -2 * exponent)
            real = np.ldexp(row.inverse, row.inverse_exponent + exponent)
            assert real == pytest.approx(1 / np.sqrt(epsilon), rel=1e-4) or (epsilon < 1 and real <= 256)


def test_running_statistics_survive_any_spread():
    """Many batches of one mean and variance end at them, whatever the exponents."""
    constants = norm_constants(100, EPSILON, MOMENTUM)
    for exponent in (-128, -30, 0, 100):
        state = State(Number(-(1 << 30), -30), Number(1 << 30, 10))
        for _ in range(2000):
            state = running_state(state, (-12345, 98765432), exponent, constants)
        variance = (98765432 - 12345**2 / 100) / 99 * 2.0 ** (2 * exponent)
        assert np.ldexp(state.mean.mantissa, state.mean.exponent - exponent) == pytest.approx(-123.45, rel=1e-6)
        assert float(state.variance.mantissa) * 2.0**state.variance.exponent == pytest.approx(variance, rel=1e-4)
    empty = running_state(State(ZERO, ZERO), (0, 0), 0, constants)
    assert empty == State(ZERO, ZERO)
    least = Number((1 << 31) - 1, LEAST_EXPONENT + 1)
    assert running_state(State(least, least), (0, 0), 0, norm_constants(100, EPSILON, 0.7)) == State(ZERO, ZERO)
    assert running_state(State(least, least), (0, 0), 0, norm_constants(100, EPSILON, 2.0**-16)) != State(ZERO, ZERO)


def test_a_running_mean_beyond_the_values_is_held_at_their_limit():
    state = State(Number(1 << 30, 0), Number(1 << 30, -30))
    row = running_constants(state, Affine(1 << 14, 0, -14), -10, evaluation_constants(EPSILON))
    assert row.b == -row.a * (1 << 15) + row.a // (1 << 31) or abs(row.b) <= row.a << 15
    assert np.ldexp(row.b, row.a_exponent - 10) == pytest.approx(-32, rel=1e-4)


def test_tables_give_back_what_they_hold():
    """At the limits of the digits; beyond them nothing is written wrong."""
    rng = np.random.default_rng(11)
    for row in (FORWARD_ROW, STATE_ROW):
        limits = {name: (32768 << 15 * (digits - 1)) - 1 for name, (_, digits) in row.items()}
        channels = [{name: int(rng.integers(-limit, limit)) for name, limit in limits.items()} for _ in range(50)]
        least = {name: -limit + (1 << 15 * (row[name][1] - 1)) - 1 for name, limit in limits.items()}
        channels += [limits, least]
        table = pack_rows(row, channels)
        assert unpack_rows(row, table) == channels and table.min() > -32768
        first = next(iter(row))
        assert unpack_rows(row, table[: row[first][1]], first) == [{first: channel[first]} for channel in channels]
        for name, limit in limits.items():
            with pytest.raises(OverflowError, match=f"{name} = {limit + 1} has more than {row[name][1]} digits"):
                pack_rows(row, [{**limits, name: limit + 1}])
