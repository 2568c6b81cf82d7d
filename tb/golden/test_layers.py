"""Golden layers against torch.nn.functional and autograd in float64, on random shapes."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from adagp.golden import depthwise, layer, pool
from hypothesis import given, settings
from hypothesis import strategies as st

torch.set_num_threads(1)
EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True)


@st.composite
def shapes(draw):
    """Geometry: any kernel, stride and padding; sometimes fewer windows than would fit."""
    g = SimpleNamespace(
        **{name: draw(st.integers(1, top)) for name, top in zip("nchwqrs", (3, 5, 9, 9, 6, 4, 4), strict=True)}
    )
    g.stride = draw(st.integers(1, 3))
    g.pad_y, g.pad_x = draw(st.integers(0, g.r - 1)), draw(st.integers(0, g.s - 1))
    g.h, g.w = max(g.h, g.r - g.pad_y), max(g.w, g.s - g.pad_x)
    most_y, most_x = (g.h + 2 * g.pad_y - g.r) // g.stride + 1, (g.w + 2 * g.pad_x - g.s) // g.stride + 1
    g.oh, g.ow = draw(st.integers(max(1, most_y - 1), max(1, most_y))), max(1, most_x)
    g.seed = draw(st.integers(0, 2**32 - 1))
    return g


def mantissas(rng, *shape):
    return rng.integers(-32767, 32768, shape).astype(np.int16)


def nchw(x):
    """NHWC integers as a differentiable NCHW tensor."""
    return torch.tensor(x.transpose(0, 3, 1, 2), dtype=torch.float64, requires_grad=True)


def nhwc(x):
    """The integers of an NCHW tensor, NHWC."""
    return x.detach().permute(0, 2, 3, 1).to(torch.int64).numpy()


def padded(x, g, value=0.0):
    """``x`` with as much padding as the windows of ``g`` touch, and not more."""
    bottom, right = (g.oh - 1) * g.stride + g.r - g.h - g.pad_y, (g.ow - 1) * g.stride + g.s - g.w - g.pad_x
    return F.pad(x, (g.pad_x, right, g.pad_y, bottom), value=value)


@EXAMPLES
@given(shapes())
def test_convolution_and_its_gradients(g):
    rng = np.random.default_rng(g.seed)
    x, w = mantissas(rng, g.n, g.h, g.w, g.c), mantissas(rng, g.q, g.r * g.s * g.c + 1)
    dy = mantissas(rng, g.n, g.oh, g.ow, g.q)
    xt, bias = nchw(x), torch.tensor(w[:, -1], dtype=torch.float64, requires_grad=True)
    wt = nchw(w[:, :-1].reshape(g.q, g.r, g.s, g.c))
    y = F.conv2d(padded(xt, g), wt, bias, stride=g.stride)
    y.backward(nchw(dy).detach())
    assert np.array_equal(layer.forward(x, w, g) + w[:, -1], nhwc(y))
    assert np.array_equal(layer.backward_data(dy, w, g), nhwc(xt.grad))
    dw = layer.backward_weight(x, dy, g)
    assert np.array_equal(dw[:, :-1].reshape(g.q, g.r, g.s, g.c), nhwc(wt.grad))
    assert np.array_equal(dw[:, -1], bias.grad.numpy())


@EXAMPLES
@given(shapes())
def test_pools_and_their_gradients(g):
    rng = np.random.default_rng(g.seed)
    g.q = g.c
    x, dy = mantissas(rng, g.n, g.h, g.w, g.c), mantissas(rng, g.n, g.oh, g.ow, g.c)
    dyt = nchw(dy).detach()

    xt = nchw(x)
    y = F.max_pool2d(padded(xt, g, -32767.5), (g.r, g.s), g.stride)
    y.backward(dyt)
    value, index = pool.maxpool(x, g, 16)
    assert np.array_equal(value, nhwc(y))
    assert index.min() >= 1 and index.max() <= g.r * g.s
    assert np.array_equal(pool.maxpool_backward(dy, index, g), nhwc(xt.grad))

    xt = nchw(x)
    y = F.avg_pool2d(padded(xt, g), (g.r, g.s), g.stride, divisor_override=1) * 3
    y.backward(dyt)
    assert np.array_equal(pool.avgpool(x, g, 3), nhwc(y))
    assert np.array_equal(pool.avgpool_backward(dy, g, 3), nhwc(xt.grad))


def test_first_maximum_wins_and_padding_counts_as_least():
    g = SimpleNamespace(n=1, c=1, h=2, w=2, oh=2, ow=2, q=1, r=2, s=2, stride=1, pad_y=1, pad_x=1)
    x = np.array([[5, 5], [7, -32767]], np.int16).reshape(1, 2, 2, 1)
    value, index = pool.maxpool(x, g, 16)
    assert value.ravel().tolist() == [5, 5, 7, 7]
    assert index.ravel().tolist() == [4, 3, 4, 3]
    least = np.full((1, 2, 2, 1), -32767, np.int16)
    assert pool.maxpool(least, g, 16)[1].ravel().tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("images", [1, 7])
def test_a_batch_in_pieces_is_the_same(images, monkeypatch):
    g = SimpleNamespace(n=images, c=3, h=6, w=5, oh=6, ow=5, q=4, r=3, s=3, stride=1, pad_y=1, pad_x=1)
    rng = np.random.default_rng(3)
    x, w, dy = mantissas(rng, images, 6, 5, 3), mantissas(rng, 4, 28), mantissas(rng, images, 6, 5, 4)
    whole = layer.forward(x, w, g), layer.backward_data(dy, w, g), layer.backward_weight(x, dy, g)
    monkeypatch.setattr(layer, "_COLUMN_ELEMENTS", 2 * 6 * 5 * 27)
    pieces = layer.forward(x, w, g), layer.backward_data(dy, w, g), layer.backward_weight(x, dy, g)
    assert all(np.array_equal(a, b) for a, b in zip(whole, pieces, strict=True))


@EXAMPLES
@given(shapes())
def test_depthwise_convolution_and_its_gradients(g):
    rng = np.random.default_rng(g.seed)
    g.q = g.c
    x, w = mantissas(rng, g.n, g.h, g.w, g.c), mantissas(rng, g.c, g.r * g.s + 1)
    dy = mantissas(rng, g.n, g.oh, g.ow, g.c)
    xt, bias = nchw(x), torch.tensor(w[:, -1], dtype=torch.float64, requires_grad=True)
    wt = nchw(w[:, :-1].reshape(g.c, g.r, g.s, 1))
    y = F.conv2d(padded(xt, g), wt, bias, stride=g.stride, groups=g.c)
    y.backward(nchw(dy).detach())
    assert np.array_equal(depthwise.depthwise(x, w, g) + w[:, -1], nhwc(y))
    assert np.array_equal(depthwise.depthwise_backward_data(dy, w, g), nhwc(xt.grad))
    dw = depthwise.depthwise_backward_weight(x, dy, g)
    assert np.array_equal(dw[:, :-1].reshape(g.c, g.r, g.s, 1), nhwc(wt.grad))
    assert np.array_equal(dw[:, -1], bias.grad.numpy())
