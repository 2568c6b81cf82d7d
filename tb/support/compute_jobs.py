"""Realistic COMPUTE descriptors for benches, and what they mean, in numpy."""

import numpy as np
from adagp.spec.microcode.descriptors import COMPUTE, VectorMode
from adagp.spec.microcode.machine import descriptors, task
from adagp.spec.microcode.program import tile_program
from layers import random_layer
from window_model import sums_of_windows

__all__ = ["Expectation", "computes", "extent", "gemm", "layer", "operand_a", "random_jobs"]


def computes(config, task):
    """The COMPUTE descriptors of a task."""
    return [fields for engine, fields in descriptors(tile_program, config, [task]) if engine == "compute"]


def layer(config, opcode, **fields):
    """The COMPUTE descriptors of a layer command."""
    return computes(config, task({"opcode": opcode, **fields}))


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
    """The addresses of the vectors of operand a or b: outer position x reduction."""
    if name == "b" and job["mode"] == VectorMode.GEMM:
        return np.arange(job["n_b"])[:, None] * job["b_stride"] + np.arange(job["n_k"])
    outer = _walk([job[f"n{i}"] for i in range(6)], [job[f"jump{i}"] for i in range(6)])
    if name == "b" and job["mode"] == VectorMode.DOT:
        outer = _walk([job["n_b"], job["n_a"]], [job["kjump0"], job["b_stride"]])
    offsets = _walk([job[f"k{i}"] for i in range(3)], [job[f"kjump{i}"] for i in range(3)])
    assert len(offsets) == job["n_k"]
    return outer[:, None] + offsets


def extent(job, name):
    """Operands of its tile of a or b that a descriptor may read."""
    return int(_addresses(job, name).max()) + 1


def operand_a(job, tile):
    """Matrix A, n_a x n_k (vector modes: all positions x rows), out of its tile."""
    matrix = tile[_addresses(job, "a")].astype(object)
    n_ones = job["ones"] * ((job["n_values"] or job["n_a"]) if job["mode"] == VectorMode.DOT else 1)
    return np.vstack([matrix, np.ones((n_ones, job["n_k"]), dtype=object)])


def _operand_b(job, tile):
    """Matrix B, n_b x n_k (SELECT: what lies where A does), out of its tile."""
    return tile[_addresses(job, "b")].astype(object)


def _product(config, job, a, b):
    """A GEMM's psums in the accumulator by word, only the valid ones."""
    stream, stationary = (b, a) if job["swap"] else (a, b)
    sums = stationary @ stream.T
    words = []
    for first in range(0, len(stationary), config.cols):
        words += sums[first : first + config.cols].T.tolist()
    return words


def _pooled(job, a, select):
    """Vectors a pool descriptor sends to the drain engine."""
    windows = a.reshape(-1, job["n_a"], a.shape[1])
    if job["mode"] == VectorMode.MAX:
        return [row for w in windows for row in (w.max(axis=0).tolist(), (1 + w.argmax(axis=0)).tolist())]
    if job["mode"] == VectorMode.SELECT:
        taps = np.arange(job["n_a"], 0, -1)[:, None]
        windows = np.where(select.reshape(windows.shape) == taps, windows, 0)
    return (windows.sum(axis=1) * job["mantissa"]).tolist()


def _dots(config, job, a, b):
    """A DOT's sums, group by group, a vector a window."""
    sums = sums_of_windows(job, a, b)
    sums = np.pad(sums, ((0, 0), (0, -job["n_k"] % config.rows)))
    return [row for group in np.split(sums, sums.shape[1] // config.rows, axis=1) for row in group.tolist()]


class Expectation:
    """Tiles to fill and results to see, for a list of descriptors, with random tile contents."""

    def __init__(self, config, jobs, rng):
        self.tiles = {"a": [], "b": []}
        self.words, self.vectors, self.macs = [], [], 0
        largest = (1 << (config.operand_width - 1)) - 1
        total = kept = None
        for job in jobs:
            small = job["mode"] in (VectorMode.SELECT, VectorMode.MAX)
            low, high = (0, job["n_a"]) if small else (-largest, largest)
            for name in ("a", "b"):
                if job[f"new_{name}"]:
                    elements = config.banks * -(-extent(job, name) // config.banks)
                    self.tiles[name].append(rng.integers(low, high, elements, endpoint=True))
            a = operand_a(job, self.tiles["a"][-1])
            if job["mode"] == VectorMode.GEMM:
                b = _operand_b(job, self.tiles["b"][-1])
                self.macs += a.size * len(b)
                words = _product(config, job, a, b)
                if not job["first"]:
                    words = [[x + y for x, y in zip(*rows, strict=True)] for rows in zip(total, words, strict=True)]
                total = words
                if job["last"]:
                    self.words.append(words)
            elif job["mode"] == VectorMode.DOT:
                vectors = _dots(config, job, a, _operand_b(job, self.tiles["b"][-1]))
                if not job["first"]:
                    vectors = (np.array(kept) + np.array(vectors)).tolist()
                kept = vectors
                self.vectors += kept if job["last"] else []
            else:
                select = _operand_b(job, self.tiles["b"][-1]) if job["mode"] == VectorMode.SELECT else None
                self.vectors += _pooled(job, a, select)


def random_jobs(config, rng, count):
    """``count`` times all descriptors of a random layer, then a product in random pieces of its own operands."""
    jobs = []
    for _ in range(count):
        jobs += computes(config, random_layer(config, rng, limit=200).task)
        n_a, n_b, n_k = rng.randint(2, 12), rng.randint(1, 12), rng.randint(1, 5 * config.rows)
        swap, ones, pieces = rng.randrange(2), rng.randrange(2), rng.randint(1, 3)
        for piece in range(pieces):
            new = {f"new_{name}": int(piece == 0 or rng.random() < 0.5) for name in "ab"}
            jobs.append(
                gemm(n_a, n_b, n_k, swap=swap, ones=ones, first=int(not piece), last=int(piece == pieces - 1), **new)
            )
    return jobs
