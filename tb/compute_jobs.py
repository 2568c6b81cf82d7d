"""Realistic COMPUTE descriptors for benches, and what they mean, in numpy."""

from types import SimpleNamespace

import numpy as np
from adagp.spec import numerics
from adagp.spec.commands import FIELDS, Opcode
from adagp.spec.descriptors import COMPUTE, Target, VectorMode
from adagp.spec.errors import ErrorCode
from adagp.spec.tiles import tile_program

__all__ = ["extent", "gemm", "layer", "operand_a", "operand_b", "pooled", "product"]


class _Recorder:
    """A machine that keeps the COMPUTE descriptors."""

    def __init__(self):
        self.computes = []

    def compute(self, **fields):
        self.computes.append({bits.name: fields.get(bits.name, 0) for bits in COMPUTE})

    def fill(self, **_):
        pass

    drain = store = fill

    def fail(self, code):
        raise AssertionError(code)


def layer(config, opcode, **fields):
    """The COMPUTE descriptors of a layer command."""
    command = SimpleNamespace(opcode=opcode, a_base=0, exp_a=0, exp_b=0, exp_c=0, exp_out=0, dry=0)
    for field in FIELDS[1:]:
        setattr(command, field.name, fields.get(field.name, 0))
    names = "rows cols banks operand_bytes a_elements b_elements c_elements acc_depth bias_elements max_reduction"
    constants = {name: getattr(config, name) for name in names.split()}
    for enum in (Opcode, Target, VectorMode, ErrorCode):
        constants |= enum.__members__
    machine = _Recorder()
    tile_program(command, SimpleNamespace(**constants, **vars(numerics)), machine)
    return machine.computes


def gemm(n_a, n_b, n_k, **fields):
    """One COMPUTE descriptor of a plain matrix product, both matrices packed densely."""
    ones = fields.get("ones", 0)
    shape = {f"n{i}": 1 for i in range(5)} | {"k0": 1, "k1": 1}
    shape |= {"n5": n_a - ones, "jump5": n_k, "k2": n_k, "kjump2": 1, "n_k": n_k}
    shape |= {"n_a": n_a, "n_b": n_b, "b_stride": n_k, "new_a": 1, "new_b": 1, "first": 1, "last": 1}
    return {bits.name: 0 for bits in COMPUTE} | shape | fields


def _walk(counts, jumps):
    """Addresses of an odometer's positions."""
    addresses = [0]
    index = [0] * len(counts)
    while True:
        level = len(counts) - 1
        while level >= 0 and index[level] == counts[level] - 1:
            index[level] = 0
            level -= 1
        if level < 0:
            return np.array(addresses)
        index[level] += 1
        addresses.append(addresses[-1] + jumps[level])


def _addresses(job, name):
    """Where the vectors of operand a or b come from: outer position x reduction."""
    if name == "b" and job["mode"] == VectorMode.GEMM:
        return np.arange(job["n_b"])[:, None] * job["b_stride"] + np.arange(job["n_k"])
    outer = _walk([job[f"n{i}"] for i in range(6)], [job[f"jump{i}"] for i in range(6)])
    offsets = _walk([job[f"k{i}"] for i in range(3)], [job[f"kjump{i}"] for i in range(3)])
    assert len(offsets) == job["n_k"]
    return outer[:, None] + offsets


def extent(job, name):
    """Operands of its tile of a or b that a descriptor may read."""
    return int(_addresses(job, name).max()) + 1


def operand_a(job, tile):
    """Matrix A, n_a x n_k (vector modes: all positions x rows), out of its tile."""
    matrix = tile[_addresses(job, "a")].astype(object)
    return np.vstack([matrix, np.ones((job["ones"], job["n_k"]), dtype=object)])


def operand_b(job, tile):
    """Matrix B, n_b x n_k (SELECT: what lies where A does), out of its tile."""
    return tile[_addresses(job, "b")].astype(object)


def product(config, job, a, b):
    """What a GEMM leaves in the accumulator: word -> its psums, only the valid ones."""
    stream, stationary = (b, a) if job["swap"] else (a, b)
    sums = stationary @ stream.T
    words = []
    for first in range(0, len(stationary), config.cols):
        words += sums[first : first + config.cols].T.tolist()
    return words


def pooled(job, a, select):
    """Vectors a pool descriptor sends to the drain engine."""
    windows = a.reshape(-1, job["n_a"], a.shape[1])
    if job["mode"] == VectorMode.MAX:
        return [row for w in windows for row in (w.max(axis=0).tolist(), (1 + w.argmax(axis=0)).tolist())]
    if job["mode"] == VectorMode.SELECT:
        taps = np.arange(job["n_a"], 0, -1)[:, None]
        windows = np.where(select.reshape(windows.shape) == taps, windows, 0)
    return (windows.sum(axis=1) * job["mantissa"]).tolist()
