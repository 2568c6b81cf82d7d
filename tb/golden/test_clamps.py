"""Bounds and slopes of ReLUs in the golden epilogue: by hand, and against PyTorch and its gradients in float64."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from adagp.golden import epilogue as epilogues
from adagp.golden.epilogue import Bound, epilogue
from adagp.golden.exponents import rule
from adagp.spec.commands import CMode

SIX = Bound(0xC000, -13)
WIDTHS = {"acc_width": 48, "operand_width": 16}


def test_bound_by_hand():
    assert [SIX.at(e, 16) for e in (-13, -12, 0, 1, 2, 3, 4)] == [49152, 24576, 6, 3, 2, 1, 0]
    assert SIX.at(-40, 16) == 65535
    assert [SIX.at(e, 8) for e in (0, -4, -5, -6)] == [6, 96, 192, 255]
    assert [SIX.shift(e) for e in (-128, -13, 0, 127)] == [-40, 0, 13, 40]


def test_clamped_by_hand():
    acc = np.array([[-5, 0, 3, 5, 6, 7, 1 << 20]])
    six = epilogue(acc, 0, 0, **WIDTHS, relu=True, bound=SIX)
    assert (six.out.tolist(), six.top, six.saturations) == ([[0, 0, 3, 5, 6, 6, 6]], 3, 0)
    within = epilogue(acc[:, :3], 0, 0, **WIDTHS, relu=True, bound=SIX)
    assert (within.out.tolist(), within.top) == ([[0, 0, 3]], 2)
    beyond = epilogue(acc, -20, -20, **WIDTHS, relu=True, bound=SIX)
    assert (beyond.out.tolist(), beyond.top, beyond.saturations) == ([[0, 0, 3, 5, 6, 7, 32767]], 1, 1)
    exact = epilogue(np.array([[40000]]), 0, 0, **WIDTHS, bound=Bound(32767, 0))
    assert (exact.out.tolist(), exact.saturations) == ([[32767]], 0), "the bound is the largest operand"
    sums = epilogue(acc, 0, 0, **WIDTHS, relu=True, bound=SIX, c=np.full((1, 7), 4), c_mode=CMode.ADD)
    assert sums.out.tolist() == [[0, 4, 6, 6, 6, 6, 6]]


@pytest.mark.parametrize("seed", range(40))
def test_parts_are_the_whole(seed, monkeypatch):
    """The epilogue works on parts of its rows: with any operands, exponents by place or by element, last ones apart."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 6, rng.integers(1, 5)))
    acc, c, d = rng.integers(-(1 << 20), 1 << 20, shape), *rng.integers(-(1 << 15) + 1, 1 << 15, (2, *shape))
    mode = list(CMode)[seed % len(CMode)]
    exponents = [-3, rng.integers(-6, 3, shape[-1]), rng.integers(-6, 3, shape)][seed % 3]
    options = {
        "relu": bool(rng.integers(2)), "bias": rng.integers(-99, 99, shape[-1]) if rng.integers(2) else None,
        "last_exp": -5 if seed % 3 == 0 and rng.integers(2) else None, "exp_c": 1, "exp_bias": 2, "c_mode": mode,
        "c": c if mode != CMode.NONE else None, "d": d if mode == CMode.ADD_MASK else None,
    }  # fmt: skip
    if mode != CMode.ADD_MASK:
        options |= [{}, {"bound": Bound(3, 10)}, {"slope": 6554}][rng.integers(3)]
    whole = epilogue(acc, exponents, 2, **WIDTHS, **options)
    monkeypatch.setattr(epilogues, "_CHUNK", 2 * shape[-1])
    parts = epilogue(acc, exponents, 2, **WIDTHS, **options)
    assert (parts.out == whole.out).all() and (parts.top, parts.saturations) == (whole.top, whole.saturations)
    monkeypatch.setattr(epilogues, "_CHUNK", 1)
    rows = epilogue(acc, exponents, 2, **WIDTHS, **options)
    assert (rows.out == whole.out).all() and (rows.top, rows.saturations) == (whole.top, whole.saturations)


def test_mask_of_a_bound_by_hand():
    acc = np.array([[10, 20, 30, 40]])
    masked = epilogue(acc, 0, 0, **WIDTHS, c=np.array([[0, 1, 11, 12]]), exp_c=-1, c_mode=CMode.MASK, bound=SIX)
    assert (masked.out.tolist(), masked.top) == ([[0, 20, 30, 0]], 5)
    cut = np.array([[-1, 1, 32766, 32767]])
    open_ended = epilogue(acc, 0, 0, **WIDTHS, c=cut, exp_c=-20, c_mode=CMode.MASK, bound=SIX)
    assert open_ended.out.tolist() == [[0, 20, 30, 40]], "a saturated result below the bound is not masked"


def test_slope_by_hand():
    quarter = 1 << 14
    acc = np.array([[-8, -6, -2, -1, 0, 9, -40000]])
    leaky = epilogue(acc, 0, 0, **WIDTHS, relu=True, slope=quarter)
    assert (leaky.out.tolist(), leaky.top, leaky.saturations) == ([[-2, -2, 0, 0, 0, 9, -8192]], 16, 1)
    c = np.array([[1, -1, 0, 1, -5, -32767, 0]])
    masked = epilogue(acc, 0, 0, **WIDTHS, c=c, c_mode=CMode.MASK, slope=quarter)
    assert (masked.out.tolist(), masked.top) == ([[-8, -2, 0, -1, 0, 2, -8192]], 16)


@pytest.mark.parametrize("exp_out", [-14, -11, -9])
@pytest.mark.parametrize(("bound", "slope"), [(6.0, 0), (0.3, 0), (0.0, 6554), (0.0, 655), (0.0, 65535)])
def test_is_that_of_pytorch(bound, slope, exp_out):
    rng = np.random.default_rng(-exp_out)
    acc, gradient = rng.integers(-(1 << 27), 1 << 27, (40, 50)), rng.integers(-30000, 30000, (40, 50))
    mantissa, exponent = int(np.frexp(bound)[0] * 2**16), int(np.frexp(bound)[1]) - 16
    limit = Bound(mantissa, exponent) if bound else None
    y = epilogue(acc, -24, exp_out, **WIDTHS, relu=True, bound=limit, slope=slope)
    g = epilogue(gradient, -5, -5, **WIDTHS, c=y.out, exp_c=exp_out, c_mode=CMode.MASK, bound=limit, slope=slope)

    x = torch.tensor(acc * 2.0**-24, dtype=torch.float64, requires_grad=True)
    expected = F.hardtanh(x, 0.0, bound) if bound else F.leaky_relu(x, slope / 2**16)
    expected.backward(torch.tensor(gradient * 2.0**-5, dtype=torch.float64))
    lsb, most = 2.0**exp_out, 32767 * 2.0**exp_out
    true, true_gradient = expected.detach().numpy(), x.grad.numpy()
    fits = np.abs(x.detach().numpy()) <= most
    error = np.abs(y.out * lsb - true)[fits]
    assert fits.sum() > 400
    assert error.max() <= lsb * (1 if bound else 0.5 + slope / 2**17)
    assert bound == 0 or y.out.max() * lsb <= bound + lsb / 2
    clear = np.minimum(np.abs(true), np.abs(true - bound) if bound else np.inf) > lsb  # not rounded to an edge
    clear |= (true == 0) & (acc < -(1 << 16)) if bound else False
    assert np.abs(g.out * 2.0**-5 - true_gradient)[clear & fits].max() <= 2.0**-6
    assert clear.sum() > 800


def test_the_exponent_is_the_bounds_after_a_dry_run():
    acc = np.array([[1 << 30, 12345]])
    dry = epilogue(acc, -26, -26, **WIDTHS, relu=True, bound=SIX)
    assert dry.top == 3, "not 5, which is the top of 16.0"
    exponent = rule(0, dry.top, 16)
    assert exponent == -11
    again = epilogue(acc, -26, exponent, **WIDTHS, relu=True, bound=SIX)
    assert (again.out.max(), again.top, again.saturations) == (6 << 11, 3, 0)
