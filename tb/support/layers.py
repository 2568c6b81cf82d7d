"""Random layer commands with operands in memory, and what they must compute, by torch in float64."""

from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from adagp.spec.commands import CMode, Opcode
from adagp.spec.microcode.machine import TileError, descriptors, task
from adagp.spec.microcode.program import tile_program
from adagp.spec.numerics import operand_max
from adagp.spec.opcodes import AVERAGES, BACKWARD, BACKWARD_WEIGHTS, DEPTHWISE, GEMMS, MAXIMA, POOLS, WITH_FILTERS
from adagp.spec.operands import filter_channels
from clamped_elements import ElementEnd, random_clamp

__all__ = ["LAYERS", "UNWRITTEN", "Layer", "accumulate", "random_layer"]

torch.set_num_threads(1)

LAYERS = (*GEMMS, Opcode.MAXPOOL, Opcode.MAXPOOL_BACKWARD, Opcode.AVGPOOL, Opcode.AVGPOOL_BACKWARD)
"""Opcodes of layers: of all commands of the sequencer but REORGANISE."""

UNWRITTEN = 0x2AAA
"""The content of result memory before a run; no operand has this value."""


@dataclass
class Layer:
    """A task and its tensors: ``operands`` and ``expected`` are {byte address: flat operands}."""

    task: object
    operands: dict = field(default_factory=dict)
    expected: dict = field(default_factory=dict)
    top: int | None = None
    saturations: int = 0


def random_layer(config, rng, opcode=None, base=0, limit=600, run=(), **fixed):
    """A layer whose tiles fit, at most about ``limit`` elements a tensor, tensors from byte ``base`` on.

    ``run``: values of the task that the command doesn't say, such as ``dry`` and ``exp_a``.
    """
    while True:
        f = _fields(rng, opcode or rng.choice(LAYERS), limit, config.operand_width)
        f.update(fixed)
        try:
            descriptors(tile_program, config, [task(f)])
        except TileError:
            continue
        return _tensors(config, rng, f, base, dict(run))


def _fields(rng, opcode, limit, width):
    while True:
        r, s = rng.choice([1, 1, 2, 3, 3, 5, 7]), rng.choice([1, 1, 2, 3, 3, 4])
        stride = rng.choice([1, 1, 2, 3, 4])
        h, w = rng.randint(1, 9), rng.randint(1, 9)
        f = {
            "opcode": opcode, "n": rng.randint(1, 5), "c": rng.randint(1, 19), "h": h, "w": w,
            "q": rng.randint(1, 19), "r": r, "s": s, "stride": stride,
            "pad_y": rng.randrange(r), "pad_x": rng.randrange(s),
        }  # fmt: skip
        # Padding below and right is what is left of the same size, or less.
        oh, ow = (h + 2 * f["pad_y"] - r) // stride + 1, (w + 2 * f["pad_x"] - s) // stride + 1
        if oh < 1 or ow < 1:
            continue
        f["oh"], f["ow"] = (n if rng.random() < 0.7 else rng.randint(1, n) for n in (oh, ow))
        if opcode in (*POOLS, *DEPTHWISE):
            f["q"] = f["c"]
        weights = f["q"] * (r * s * filter_channels(opcode, f["c"]) + 1)
        if max(f["n"] * f["c"] * h * w, f["n"] * f["q"] * f["oh"] * f["ow"], weights) > limit:
            continue
        for name, extent in (("nb", f["n"]), ("yb", max(h, oh)), ("cb", f["c"]), ("qb", f["q"])):
            f[name] = rng.randint(1, extent) if rng.random() < 0.7 else extent + rng.randrange(3)
        f |= {name: rng.randrange(2) for name in ("bias", "swap", "relu", "track", "out_outer")}
        f |= {"c_mode": rng.choice(list(CMode) if width == 16 else [0, 0, 1, 2, 4]), "out_id": rng.randrange(8)}
        channels = f["c"] if opcode in BACKWARD else f["q"]
        for name, least in (("x", f["c"]), ("y", f["q"]), ("c", channels), ("d", channels)):
            f[f"{name}_pitch"] = least + rng.randrange(4) if rng.random() < 0.3 else 0
        if opcode not in (Opcode.FORWARD, Opcode.DEPTHWISE, *BACKWARD_WEIGHTS):
            f["bias"] = 0
        f |= {"const_mantissa": rng.randrange(1 << 16), "const_exponent": rng.randint(-20, 2)}
        return f


def _random_operands(config, rng, count):
    values = np.random.default_rng(rng.getrandbits(32))
    limit = operand_max(config.operand_width)
    x = values.integers(-limit, limit + 1, count)
    if rng.random() < 0.3:
        x >>= 8
    x[values.random(count) < 0.1] = 0
    x[x == UNWRITTEN] += 1
    return x


def _tensors(config, rng, f, base, run):
    exps = {f"exp_{name}": rng.randint(-20, 5) for name in ("a", "b", "c", "scale")}
    exps.update((name, value) for name, value in run.items() if name in exps)
    f = dict(f)
    opcode = f["opcode"]
    x, y = f["n"] * f["h"] * f["w"] * f["c"], f["n"] * f["oh"] * f["ow"] * f["q"]
    weights = f["q"] * (f["r"] * f["s"] * filter_channels(opcode, f["c"]) + 1)
    a, b, out = {
        Opcode.FORWARD: (x, weights, y), Opcode.BACKWARD_DATA: (y, weights, x),
        Opcode.BACKWARD_WEIGHT: (x, y, weights), Opcode.MAXPOOL: (x, y, y),
        Opcode.MAXPOOL_BACKWARD: (y, y, x), Opcode.AVGPOOL: (x, 0, y), Opcode.AVGPOOL_BACKWARD: (y, 0, x),
        Opcode.DEPTHWISE: (x, weights, y), Opcode.DEPTHWISE_BACKWARD_DATA: (y, weights, x),
        Opcode.DEPTHWISE_BACKWARD_WEIGHT: (x, y, weights),
    }[opcode]  # fmt: skip
    layer = Layer(None)
    gaps = _gaps(f)
    masks = [("d", out)] * (f["c_mode"] == CMode.ADD_MASK)
    for name, count in (("a", a), ("b", b), ("c", out), *masks, ("out", out)):
        f[f"{name}_addr"] = base
        if name in gaps and count:
            count = _spread(np.zeros(count), *gaps[name]).size
        if name != "out" and not (name == "b" and opcode == Opcode.MAXPOOL):
            layer.operands[base] = _random_operands(config, rng, count)
        base += (count + rng.randrange(1, 40)) * config.operand_bytes
    if opcode == Opcode.MAXPOOL_BACKWARD:
        choice = np.random.default_rng(rng.getrandbits(32))
        index = choice.integers(1, f["r"] * f["s"] + 1, b)
        layer.operands[f["b_addr"]] = _spread(index, *gaps["b"]) if "b" in gaps else index
    exp_acc = exps["exp_a"] + (f["const_exponent"] if opcode in AVERAGES else 0 if opcode in MAXIMA else exps["exp_b"])
    shift = rng.randint(-1, 2) if opcode in MAXIMA else rng.randint(8, 20)
    if rng.random() < 0.1:
        shift = rng.randint(-20, 70)
    dry = run.get("dry", int(rng.random() < 0.1))
    exp_out = max(-128, min(127, exp_acc + shift))
    if config.clamps:
        f |= random_clamp(
            rng, f["c_mode"], exps["exp_c"] if f["c_mode"] == CMode.MASK else exp_out, config.operand_width
        )
    layer.task = task(f, **exps, exp_out=exp_out, dry=dry, index=rng.getrandbits(16))
    _expect(config, layer)
    return layer


def _gaps(f):
    """(channels, pitch) of the operands that have gaps between their pixels, by name."""
    opcode = f["opcode"]
    x, y = (f["c"], f.get("x_pitch", 0)), (f["q"], f.get("y_pitch", 0))
    shapes = {"a": y, "out": x} if opcode in BACKWARD else {"a": x, "out": y}
    if opcode in BACKWARD_WEIGHTS:
        shapes = {"a": x, "b": y}
    else:
        channels, pitch = shapes["out"]
        shapes |= {name: (channels, f.get(f"{name}_pitch") or pitch) for name in ("c", "d")}
    if opcode in MAXIMA:
        shapes["b"] = y
    return {name: shape for name, shape in shapes.items() if shape[1]}


def _spread(x, q, pitch):
    """Pixels of ``q`` elements each as they lie ``pitch`` apart in memory, with UNWRITTEN in between."""
    rows = np.full((x.size // q, pitch), UNWRITTEN)
    rows[:, :q] = x.reshape(-1, q)
    return rows.ravel()[: rows.size - (pitch - q)]


def _gathered(x, q, pitch):
    """Inverse of :func:`_spread`, whatever lies in between."""
    return np.append(x, np.zeros(pitch - q, x.dtype)).reshape(-1, pitch)[:, :q].ravel()


# --- what must come out ------------------------------------------------------------------------------


def _round_shift(x, shift):
    """Object array x / 2^shift, half to even."""
    if shift <= 0:
        return x * (1 << -shift)
    floor = x >> shift
    twice = (x - (floor << shift)) * 2
    up = (twice > (1 << shift)) | ((twice == (1 << shift)) & (floor & 1 == 1))
    return floor + up.astype(int)


def _clip(x, width):
    return np.minimum(np.maximum(x, -operand_max(width)), operand_max(width))


def _integers(tensor):
    """A float64 tensor of exact integers as Python integers."""
    assert tensor.abs().max() < 2**53
    return tensor.detach().numpy().astype(np.int64).astype(object)


def _expect(config, layer):
    t = layer.task
    names = "abcd" if t.c_mode == CMode.ADD_MASK else "abc"
    read = {name: layer.operands.get(getattr(t, f"{name}_addr")) for name in names}
    gaps = _gaps(vars(t))
    read |= {name: _gathered(read[name], *gaps[name]) for name in gaps if read.get(name) is not None}
    acc, exponent, idx = accumulate(t, read["a"], read["b"])
    exp_out = t.exp_out
    if t.dry:  # a bias is moved left by as much as the sums' exponent asks for, up to a limit
        w = config.operand_width
        room = dict.fromkeys((Opcode.FORWARD, Opcode.DEPTHWISE), min(31, config.acc_width - w))
        room |= dict.fromkeys(BACKWARD_WEIGHTS, min(16, w))
        exp_out = exponent.ravel()[0]
        if t.bias and t.opcode in room:
            exp_out = max(exp_out, t.exp_b - room[t.opcode])
    x = np.empty_like(acc)
    for e in set(exponent.ravel()):
        part = exponent == e
        x[part] = _clip(_round_shift(acc[part], max(-16, min(63, exp_out - e))), config.acc_width)
    if t.opcode in (Opcode.FORWARD, Opcode.DEPTHWISE) and t.bias:
        bias = read["b"].reshape(t.q, -1)[:, -1].astype(object)
        x = x + _clip(_round_shift(bias, max(-31, min(31, exp_out - t.exp_b))), config.acc_width)
    c = read["c"].astype(object).reshape(x.shape)
    if t.c_mode in (CMode.ADD, CMode.ADD_MASK):
        x = x + _clip(_round_shift(c, max(-31, min(31, exp_out - t.exp_c))), config.acc_width)
    if t.c_mode == CMode.SUB:
        x = x - _clip(_round_shift(c, max(-31, min(31, exp_out - (t.exp_c - t.exp_scale)))), config.acc_width)
    shift = max(-40, min(40, (t.exp_c if t.c_mode == CMode.MASK else exp_out) - t.bound_exponent))
    end = ElementEnd(config.operand_width, t.c_mode, t.relu, t.bound_mantissa, shift, t.slope)
    masks = {CMode.MASK: c, CMode.ADD_MASK: read.get("d")}.get(t.c_mode)
    masked = np.zeros(x.size, bool) if masks is None else masks.ravel() <= 0
    ends = [end.result(*each) for each in zip(x.ravel(), c.ravel(), masked, strict=True)]
    out, bits, saturated = (np.array(each, object).reshape(x.shape) for each in zip(*ends, strict=True))
    written = np.ones(x.shape, bool)
    if t.opcode in BACKWARD_WEIGHTS and not t.bias:
        written[:, -1] = False
    layer.top = max((each + exp_out for each in bits[written] if each is not None), default=None)
    layer.saturations = 0 if t.dry else int(saturated[written].sum())
    flat = np.where(written & (not t.dry), out, UNWRITTEN).ravel()
    layer.expected = {t.out_addr: _spread(flat, *gaps["out"]) if "out" in gaps else flat}
    if idx is not None:
        index = np.full(idx.size, UNWRITTEN) if t.dry else idx.ravel()
        layer.expected[t.b_addr] = _spread(index, *gaps["b"]) if "b" in gaps else index


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
        acc = y.permute(0, 2, 3, 1)
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
