"""Sums of a layer command's products, or its windows' maxima, by torch in float64."""

import numpy as np
import torch
import torch.nn.functional as F
from adagp.spec.commands import Opcode
from adagp.spec.opcodes import BACKWARD_WEIGHTS, DEPTHWISE, WITH_FILTERS
from adagp.spec.operands import filter_channels
from dropped_elements import dropped

__all__ = ["accumulate"]

torch.set_num_threads(1)


def _integers(tensor):
    """A float64 tensor of exact integers as Python integers."""
    assert tensor.abs().max() < 2**53
    return tensor.detach().numpy().astype(np.int64).astype(object)


def _images(x, n, h, w, c):
    """[n][y][x][c] operands as NCHW."""
    return torch.tensor(x.reshape(n, h, w, c), dtype=torch.float64).permute(0, 3, 1, 2)


def _padded(t, x, value=0.0):
    """x with the padding its windows see: the asked for rows and columns before, whatever is needed after."""
    below, right = (t.oh - 1) * t.stride + t.r - t.h - t.pad_y, (t.ow - 1) * t.stride + t.s - t.w - t.pad_x
    return F.pad(x, (t.pad_x, right, t.pad_y, below), value=value)  # negative padding crops


def _convolved(t, x, b):
    """x convolved with the filters in operand b, each with all channels or with one."""
    depth = filter_channels(t.opcode, t.c)
    w = _images(b.reshape(t.q, -1)[:, :-1], t.q, t.r, t.s, depth)
    return F.conv2d(_padded(t, x), w, stride=t.stride, groups=t.c // depth)


def accumulate(t, a, b):
    """(acc, its exponent per element, indices or None); shapes as the result tensor in memory."""
    exponent, idx = t.exp_a + t.exp_b, None
    if t.opcode in (Opcode.FORWARD, Opcode.DEPTHWISE, Opcode.MAXPOOL, Opcode.AVGPOOL):
        x = _images(a, t.n, t.h, t.w, t.c)
        if t.opcode in WITH_FILTERS:
            y = _convolved(t, x, b)
        else:
            windows = _padded(t, x, -1e9 if t.opcode == Opcode.MAXPOOL else 0.0)
            windows = windows.unfold(2, t.r, t.stride).unfold(3, t.s, t.stride).flatten(4)
            exponent = t.exp_a
            if t.opcode == Opcode.MAXPOOL:
                y = windows.amax(4)
                hit = (windows == y[..., None]) * torch.arange(windows.shape[4], 0, -1)
                idx = hit.argmax(4).permute(0, 2, 3, 1).numpy() + 1
            else:
                y = windows.sum(4) * t.const_mantissa
                exponent += t.const_exponent
        acc = dropped(t, y.permute(0, 2, 3, 1))
    elif t.opcode in BACKWARD_WEIGHTS:
        x, dy = _images(a, t.n, t.h, t.w, t.c), _images(b, t.n, t.oh, t.ow, t.q)
        windows = _padded(t, x).unfold(2, t.r, t.stride).unfold(3, t.s, t.stride)
        pairs = "nqyx,nqyxrs->qrs" if t.opcode in DEPTHWISE else "nqyx,ncyxrs->qrsc"
        dw = torch.einsum(pairs, dy, windows).reshape(t.q, -1)
        acc = torch.cat([dw, dy.sum((0, 2, 3))[:, None]], 1)
        exponent = np.full(acc.shape, exponent)
        exponent[:, -1] = t.exp_b
    else:
        acc, exponent = _backward(t, a, b, exponent)
    return _integers(acc), np.broadcast_to(exponent, acc.shape), idx


def _backward(t, a, b, exponent):
    dy = _images(a, t.n, t.oh, t.ow, t.q)
    x = torch.zeros(t.n, t.c, t.h, t.w, dtype=torch.float64, requires_grad=True)
    if t.opcode in WITH_FILTERS:
        _convolved(t, x, b).backward(dy)
    else:
        windows = _padded(t, x).unfold(2, t.r, t.stride).unfold(3, t.s, t.stride).flatten(4)
        exponent = t.exp_a
        if t.opcode == Opcode.AVGPOOL_BACKWARD:
            (windows.sum(4) * t.const_mantissa).backward(dy)
            exponent += t.const_exponent
        else:
            chosen = _images(b, t.n, t.oh, t.ow, t.q).long() - 1
            windows.gather(4, chosen[..., None])[..., 0].backward(dy)
    return x.grad.permute(0, 2, 3, 1), exponent
