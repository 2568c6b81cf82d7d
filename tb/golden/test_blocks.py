"""Golden blocks against hand-worked cases and against Python's own big integers."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from adagp.golden.array import matmul
from adagp.golden.epilogue import epilogue
from adagp.golden.exponents import Exponents, rule
from adagp.golden.requantise import requantise, requantise_each
from adagp.golden.update import Hyper, UpdateExponents, update
from adagp.spec.commands import CMode
from adagp.spec.presets import PRESETS
from hypothesis import given, settings
from hypothesis import strategies as st


def exact(v, shift, width):
    """Requantise by the definition, one Python integer at a time."""
    limit = 2 ** (width - 1) - 1
    return max(-limit, min(limit, round(Fraction(v) / Fraction(2) ** shift)))


@pytest.mark.parametrize(
    ("v", "shift", "width", "expected"),
    [
        (6, 2, 16, 2), (10, 2, 16, 2), (14, 2, 16, 4), (-6, 2, 16, -2), (-10, 2, 16, -2), (-14, 2, 16, -4),
        (5, 2, 16, 1), (7, 2, 16, 2), (1, 1, 16, 0), (3, 1, 16, 2), (-1, 1, 16, 0), (-3, 1, 16, -2),
        (40000, 0, 16, 32767), (-40000, 0, 16, -32767), (-32768, 0, 16, -32767), (65535, 1, 16, 32767),
        (5, -3, 16, 40), (4096, -3, 16, 32767), (-4096, -3, 16, -32767), (4095, -3, 16, 32760),
        ((1 << 47) - 1, -16, 48, (1 << 47) - 1), ((1 << 47) - 1, 63, 48, 0), (1 << 46, 47, 48, 0), (3 << 45, 47, 48, 1),
        (1, -40, 56, 1 << 40), (1, -60, 56, (1 << 55) - 1), (127, 0, 8, 127), (-128, 0, 8, -127),
    ],
)  # fmt: skip
def test_requantise_by_hand(v, shift, width, expected):
    assert requantise(np.array([v]), shift, width)[0] == expected == exact(v, shift, width)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(-(1 << 60), 1 << 60) | st.integers(-300, 300), min_size=1, max_size=8),
    st.integers(-63, 70),
    st.sampled_from([8, 16, 32, 48, 56]),
)
def test_requantise_is_exact(values, shift, width):
    assert requantise(np.array(values), shift, width).tolist() == [exact(v, shift, width) for v in values]


@pytest.mark.parametrize("width", [48, 54, 55, 56, 62])
def test_requantise_each_saturates_to_limits_that_no_double_holds(width):
    values, shifts = [2**52, -(2**52), 2**52 - 1, 3, -5, 0], [-16, -16, 7, 1, 1, -16]
    found = requantise_each(np.array(values), np.array(shifts), width).tolist()
    assert found == [exact(v, shift, width) for v, shift in zip(values, shifts, strict=True)]


def test_matmul_is_exact_beyond_float64():
    rng = np.random.default_rng(1)
    for bits in (15, 26, 29):
        a, b = (rng.integers(-(1 << bits), 1 << bits, shape) for shape in ((3, 7), (7, 5)))
        assert matmul(a, b).tolist() == (a.astype(object) @ b.astype(object)).tolist()
    odd = np.array([[(1 << 53) + 1]])
    assert matmul(odd, np.array([[1]])) == odd
    with pytest.raises(OverflowError, match="sum of 2 products"):
        matmul(np.full((1, 2), 1 << 32), np.full((2, 1), 1 << 31))


def test_rule_by_hand():
    assert rule(3, 10, 16) == -4  # one bit of headroom: 14 bits remain for values up to 2^10
    assert rule(3, None, 16) == -5
    assert rule(-125, None, 16) == rule(0, -200, 16) == -128
    assert rule(0, 300, 16) == 127
    assert rule(0, 10, 8) == 4


def test_commit_and_calibration_by_hand():
    table = Exponents(PRESETS["tiny"])
    table.cur[:4], table.next[:4], table.has_next[:4] = [1, 2, 3, 4], [5, 6, 7, 8], [False, True, True, False]
    table.track(0, None)
    table.track(0, 20)
    table.track(0, 18)
    table.track(1, 20)
    table.track(2, None)
    table.commit()
    assert table.cur[:4].tolist() == [6, 6, 7, 4]
    assert table.next[:4].tolist() == [5, 6, -1, 8]
    table.commit()
    assert table.cur[:4].tolist() == [6, 6, 7, 4], "a commit clears what it has seen"
    table.track(0, 22)
    table.track(1, 24)
    table.track(3, 30)
    table.calibrate([0, 1])
    assert table.cur[:4].tolist() == [8, 6, 7, 4]
    assert table.next[1] == 10
    table.commit()
    assert table.cur[:4].tolist() == [8, 6, 7, 16], "calibrated tensors were cleared, the other one wasn't"


def test_epilogue_by_hand():
    acc = np.array([[96, -96, 1 << 30, 40]])
    widths = {"acc_width": 48, "operand_width": 16}
    plain = epilogue(acc, 0, 4, **widths)
    assert plain.out.tolist() == [[6, -6, 32767, 2]]
    assert (plain.top, plain.saturations) == (27 + 4, 1)
    full = epilogue(
        acc, 0, 4, **widths, bias=np.array([5, 5, 0, -9]), exp_bias=3, c=np.array([[1, 1, 1, 1]]), exp_c=5,
        c_mode=CMode.ADD, relu=True,
    )  # fmt: skip
    assert full.out.tolist() == [[6 + 2 + 2, 0, 32767, 2 - 4 + 2]]
    mask = epilogue(acc, 0, 4, **widths, c=np.array([[1, 0, -1, 5]]), exp_c=90, c_mode=CMode.MASK)
    assert mask.out.tolist() == [[6, 0, 0, 2]]
    assert (mask.top, mask.saturations) == (3 + 4, 0)
    c, d = np.array([[3, 3, -32768, -2]]), np.array([[1, -5, 7, 0]])
    both = epilogue(acc, 0, 4, **widths, c=c, exp_c=5, d=d, c_mode=CMode.ADD_MASK)
    assert both.out.tolist() == [[6 + 6, 0, 0, 0]]
    assert (both.top, both.saturations) == (4 + 4, 0)
    last = epilogue(acc, 0, 4, **widths, last_exp=2)
    assert last.out.tolist() == [[6, -6, 32767, 10]]
    assert epilogue(acc * 0, 0, 4, **widths).top is None


def test_update_by_hand():
    # lr 1/2, momentum 1/2, no decay; everything at the same scale: exponent 0, an LSB is 2^-16 of an operand's.
    hyper = Hyper(1, -1), Hyper(1, -1), Hyper(0, 0)
    zero = UpdateExponents(0, 0, 0, 0, 0)
    args = [np.array(x) for x in ([3, -3, 0], [10, 10, 0], [0, -32768, 1], [1 << 17, 0, 3])]
    result = update(*args, zero, hyper, 16)
    # v' = v/2 + g = 1+3, -3, 1.5 (LSBs, tie to 2); w' = w - v'/2
    assert result.v.tolist() == [4 << 16, -3 << 16, 2]
    assert (result.hi.tolist(), result.lo.tolist()) == ([8, 11, 0], [0, 0, 0])
    assert (result.top_v, result.top_w, result.saturations) == (3, 4, 0)
    # v' = 2^31 - 1, cut; w' = 2147450879 - 1073741823.5, a tie; then -2147450880 + 1073709056
    big = [np.array(x) for x in ([32767, -32767], [32767, -32767], [32767, -32768], [(1 << 31) - 1, 0])]
    result = update(*big, zero, (Hyper(1, -1), Hyper(1, 0), Hyper(0, 0)), 16)
    assert result.v.tolist() == [(1 << 31) - 1, -32767 << 16]
    assert result.saturations == 1
    assert (result.hi.tolist(), result.lo.tolist()) == ([16384, -16384], [-32768, 0])


def reference_update(g, hi, lo, v, e, hyper, width):
    """The formulas of the specification on Python integers."""
    (ml, xl), (mm, xm), (md, xd) = ((h.mantissa, h.exponent) for h in hyper)

    def align(x, s):
        s = max(-63, min(40, s))
        limit = 2**55 - 1
        return max(-limit, min(limit, round(x * Fraction(2) ** s)))

    w = hi * 65536 + lo
    t = align(mm * v, xm + e.v - e.v_next + 8) + align(g, e.g - e.v_next + 24) + align(md * w, xd + e.w - e.v_next + 8)
    v_free = round(Fraction(t, 256))
    v_new = max(-(2**31) + 1, min(2**31 - 1, v_free))
    u = align(w, e.w - e.w_next + 8) - align(ml * v_new, xl + e.v_next - e.w_next + 8)
    w_free = round(Fraction(u, 256))
    w_limit = (2 ** (width - 1) - 1) * 65536 + 0x7FFF
    w_new = max(-w_limit, min(w_limit, w_free))
    new_hi = (w_new + 0x8000) // 65536
    return new_hi, w_new - new_hi * 65536, v_new, v_free, w_free, (v_new != v_free) + (w_new != w_free)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.integers(0, 2**32), st.sampled_from([8, 16]), st.lists(st.integers(-20, 20), min_size=5, max_size=5),
    st.lists(st.tuples(st.integers(0, 65535), st.integers(-30, 4)), min_size=3, max_size=3),
)  # fmt: skip
def test_update_is_exact(seed, width, exps, pairs):
    rng = np.random.default_rng(seed)
    half = (1 << (width - 1)) - 1
    draw = [rng.integers(-half, half + 1, 40) for _ in "gh"]
    draw += [rng.integers(-32768, 32768, 40), rng.integers(-(1 << 31) + 1, 1 << 31, 40) >> int(rng.integers(0, 31))]
    exps, hyper = UpdateExponents(*exps), tuple(Hyper(*pair) for pair in pairs)
    result = update(*draw, exps, hyper, width)
    expected = [reference_update(*map(int, row), exps, hyper, width) for row in zip(*draw, strict=True)]
    hi, lo, v, v_free, w_free, cuts = (list(column) for column in zip(*expected, strict=True))
    assert (result.hi.tolist(), result.lo.tolist(), result.v.tolist()) == (hi, lo, v)
    assert result.saturations == sum(cuts)
    for free, top, exponent in ((v_free, result.top_v, exps.v_next), (w_free, result.top_w, exps.w_next)):
        largest = max(map(abs, free))
        assert top == (largest.bit_length() + exponent - 16 if largest else None)


def test_update_follows_torch_sgd():
    """Ten steps of SGD with momentum and weight decay stay within a few LSBs of float64."""
    rng = np.random.default_rng(2)
    n, lr, momentum, decay = 5000, 0.05, 0.9, 0.01
    print("seed 2")
    hyper = tuple(Hyper(round(x * 2.0**-e), e) for x, e in ((lr, -20), (momentum, -16), (decay, -22)))
    exps = UpdateExponents(-14, -14, -14, -12, -12)
    hi, lo = rng.integers(-20000, 20000, n), rng.integers(-32768, 32768, n)
    v = np.zeros(n, np.int64)
    weight = torch.nn.Parameter(torch.tensor((hi * 65536 + lo) * 2.0**-30))
    rates = [h.mantissa * 2.0**h.exponent for h in hyper]
    sgd = torch.optim.SGD([weight], lr=rates[0], momentum=rates[1], weight_decay=rates[2])
    for _ in range(10):
        g = rng.integers(-8000, 8000, n)
        result = update(g, hi, lo, v, exps, hyper, 16)
        hi, lo, v = result.hi, result.lo, result.v
        weight.grad = torch.tensor(g * 2.0**-14)
        sgd.step()
    assert result.saturations == 0
    error = np.abs((hi * 65536 + lo) - weight.detach().numpy() * 2.0**30)
    # Per step half an LSB of w, and of v half an LSB (4 of w's) and three guard roundings, times lr / (1 - momentum).
    assert 0 < error.max() < 10 * (0.51 + 0.52 * 4 * lr / (1 - momentum))
