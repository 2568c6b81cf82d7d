"""Random layer commands with operands in memory, and what they must compute, by torch in float64."""

from dataclasses import dataclass, field

import numpy as np
from adagp.spec.commands import CMode, Opcode
from adagp.spec.microcode.machine import TileError, descriptors, task
from adagp.spec.microcode.program import tile_program
from adagp.spec.numerics import operand_max
from adagp.spec.opcodes import AVERAGES, BACKWARD, BACKWARD_WEIGHTS, DEPTHWISE, GEMMS, MAXIMA, POOLS, WITH_FILTERS
from adagp.spec.operands import filter_channels
from clamped_elements import ElementEnd, random_clamp
from dropped_elements import random_drop
from layer_sums import accumulate

__all__ = ["LAYERS", "UNWRITTEN", "Layer", "random_layer"]

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
        f |= random_drop(config, rng, f["opcode"]) | fixed
        if config.matmul:
            _part_filters(rng, f)
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


def _part_filters(rng, f):
    """Filters of some GEMMs lie apart, without biases."""
    if f["opcode"] in GEMMS and f["c_mode"] != CMode.ADD_MASK:
        apart = rng.random() < 0.5
        f["d_pitch"] = f["r"] * f["s"] * f["c"] + rng.randrange(4) if apart else 0
        f["bias"] = 0 if apart else f["bias"]


def _apart(f, config):
    """True for a GEMM whose filters lie apart."""
    return config.matmul and f["opcode"] in GEMMS and f["c_mode"] != CMode.ADD_MASK and f["d_pitch"] > 0


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
    weights = f["q"] * (f["r"] * f["s"] * filter_channels(opcode, f["c"]) + (not _apart(f, config)))
    a, b, out = {
        Opcode.FORWARD: (x, weights, y), Opcode.BACKWARD_DATA: (y, weights, x),
        Opcode.BACKWARD_WEIGHT: (x, y, weights), Opcode.MAXPOOL: (x, y, y),
        Opcode.MAXPOOL_BACKWARD: (y, y, x), Opcode.AVGPOOL: (x, 0, y), Opcode.AVGPOOL_BACKWARD: (y, 0, x),
        Opcode.DEPTHWISE: (x, weights, y), Opcode.DEPTHWISE_BACKWARD_DATA: (y, weights, x),
        Opcode.DEPTHWISE_BACKWARD_WEIGHT: (x, y, weights),
    }[opcode]  # fmt: skip
    layer = Layer(None)
    gaps = _gaps(f, config)
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


def _gaps(f, config):
    """(channels, pitch) of the operands that have gaps between their pixels or filters, by name."""
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
    if _apart(f, config):
        filters = f["r"] * f["s"] * f["c"], f["d_pitch"]
        shapes |= dict.fromkeys(("out", "c") if opcode in BACKWARD_WEIGHTS else ("b",), filters)
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


def _expect(config, layer):
    t = layer.task
    names = "abcd" if t.c_mode == CMode.ADD_MASK else "abc"
    read = {name: layer.operands.get(getattr(t, f"{name}_addr")) for name in names}
    gaps = _gaps(vars(t), config)
    read |= {name: _gathered(read[name], *gaps[name]) for name in gaps if read.get(name) is not None}
    apart = _apart(vars(t), config)
    if apart and t.opcode in WITH_FILTERS:  # with biases, which nothing reads
        read["b"] = np.pad(read["b"].reshape(t.q, -1), ((0, 0), (0, 1)))
    acc, exponent, idx = accumulate(t, read["a"], read["b"])
    if apart and t.opcode in BACKWARD_WEIGHTS:
        acc, exponent = acc[:, :-1], exponent[:, :-1]
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
    if t.opcode in BACKWARD_WEIGHTS and not t.bias and not apart:
        written[:, -1] = False
    layer.top = max((each + exp_out for each in bits[written] if each is not None), default=None)
    layer.saturations = 0 if t.dry else int(saturated[written].sum())
    flat = np.where(written & (not t.dry), out, UNWRITTEN).ravel()
    layer.expected = {t.out_addr: _spread(flat, *gaps["out"]) if "out" in gaps else flat}
    if idx is not None:
        index = np.full(idx.size, UNWRITTEN) if t.dry else idx.ravel()
        layer.expected[t.b_addr] = _spread(index, *gaps["b"]) if "b" in gaps else index
