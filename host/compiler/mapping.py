"""Mapping of a command to tiles: of all legal cuts near the fastest by the cost model, the one of the fewest bytes."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ...spec.commands import Command, Opcode
from ...spec.config import Config
from ...spec.numerics import TENSOR_BYTES
from ...spec.opcodes import AVERAGES, MAXIMA, NORMS
from .cost_model import Tiling
from .dataflow import swaps
from .norm_tiling import norm_cycles, norm_tile
from .occupancy import LIMITS, Shape, limits, occupancy

__all__ = ["Mapping", "MappingError", "choose_mapping", "tile_bound"]


SLACK = 0.01
"""Part of a command's cycles that fewer bytes may cost."""


class MappingError(ValueError):
    """A layer that no tiling fits; the message names layer, direction and limit."""


@dataclass(frozen=True)
class Mapping:
    """The tile fields of a command, and the cycles that the cost model expects."""

    swap: int
    out_outer: int
    nb: int
    yb: int
    cb: int
    qb: int
    cycles: float

    def fields(self) -> dict[str, int]:
        """The tile fields of a command, by name."""
        return {name: getattr(self, name) for name in ("swap", "out_outer", "nb", "yb", "cb", "qb")}


def choose_mapping(command: Command, config: Config, name: str = "", dataflow: str = "free") -> Mapping:
    """Choose the legal mapping of a compute command to the core that executes it.

    It is the one that moves the fewest bytes of those that take at most ``SLACK`` more cycles than the fastest; for
    batch norm's commands, the fastest. The ``dataflow`` says which operand a GEMM keeps (see
    :mod:`adagp.host.compiler.dataflow`). The command's own tile fields are ignored. Raises :class:`MappingError`, which
    calls the layer ``name``.
    """
    if command.opcode in NORMS:
        tile = norm_tile(command, config)
        if tile is None:
            raise MappingError(f"{name or f'layer {command.layer}'} {command.opcode.name.lower()}: no tile fits")
        n, y, c = tile
        return Mapping(0, 0, n, y, c, c, norm_cycles(command, config, n, y, c))
    own = config.predictor_core if command.predictor and config.n_cores > 1 else _baseline(config)
    shape, allowed = Shape.of(command), swaps(dataflow)
    result = _search(shape, own, allowed)
    if isinstance(result, str):
        fits = allowed != swaps("free") and isinstance(_search(shape, own, swaps("free")), Mapping)
        cause = f", with dataflow = {dataflow!r}; with 'free' a tile fits" if fits else ""
        raise MappingError(f"{name or f'layer {command.layer}'} {command.opcode.name.lower()}: {result}{cause}")
    return result


def tile_bound(command: Command, config: Config) -> int:
    """Least array (or pool unit) cycles of a command as tiled: one stream vector a cycle, no pause between passes."""
    shape = Shape.of(command)
    i, o = (command.qb, command.cb) if command.opcode == Opcode.BACKWARD_DATA else (command.cb, command.qb)
    tiling = Tiling(shape, config, command.nb, command.yb, i, o, command.swap, command.out_outer)
    return int(tiling.array_cycles())


@lru_cache(maxsize=64)
def _baseline(config: Config) -> Config:
    """The design without what predicts, so that all variants search once: the same tiles fit their main cores."""
    return replace(config, variant="baseline")


@lru_cache(maxsize=4096)
def _search(shape: Shape, config: Config, allowed: tuple[int, ...]) -> Mapping | str:
    """The best mapping on a core with one of the ``allowed`` values of swap, or the reason why there is none."""
    if refusal := _too_large(shape, config):
        return refusal
    allowed = (0,) if shape.pool else allowed
    orders = (0,) if shape.pool and not shape.depthwise else (0, 1)
    found: list[tuple[float, float, Mapping]] = []  # with the beats of the memory port
    for swap in allowed:
        n, y, i, o = _candidates(shape, config, swap)
        if not n.size:
            continue
        for out_outer in orders:
            tiling = Tiling(shape, config, n, y, i, o, swap, out_outer)
            cycles, beats = tiling.cycles(), tiling.beats()
            for at in np.flatnonzero(cycles <= (1 + SLACK) * cycles.min()):
                channels = (o[at], i[at]) if shape.opcode == Opcode.BACKWARD_DATA else (i[at], o[at])
                tile = (int(n[at]), int(y[at]), int(channels[0]), int(channels[1]))
                found.append((float(beats[at]), float(cycles[at]), Mapping(swap, out_outer, *tile, float(cycles[at]))))
    if not found:
        return _why_none(shape, config, allowed)
    fastest = min(cycles for _, cycles, _ in found)
    *_, best = min((each for each in found if each[1] <= (1 + SLACK) * fastest), key=lambda each: each[:2])
    return best


def _too_large(shape, config):
    """The limit that the layer exceeds however it is cut, as a message; None if it exceeds none."""
    filters = shape.depthwise or not shape.pool
    if filters and shape.reduction > config.max_reduction:
        return f"sums of {shape.reduction} products exceed the accumulator's {config.max_reduction}"
    if shape.opcode in AVERAGES and shape.taps > config.max_average_taps:
        return f"averages of {shape.taps} elements exceed the accumulator's {config.max_average_taps}"
    if shape.opcode in MAXIMA and shape.taps > config.max_index:
        return f"an operand can number {config.max_index} elements of a window, not {shape.taps}"
    read, written = shape.in_h * shape.in_w * shape.ic, shape.out_h * shape.out_w * shape.oc
    c, q = (shape.oc, shape.ic) if shape.opcode == Opcode.BACKWARD_DATA else (shape.ic, shape.oc)
    weights = filters * q * (shape.taps * (1 if shape.depthwise else c) + 1)
    size = config.operand_bytes * max(shape.n * read, shape.n * written, weights)
    return f"a tensor of {size} bytes exceeds the {TENSOR_BYTES - 1} it may have" if size >= TENSOR_BYTES else None


def _candidates(shape, config, swap):
    """Extents (n, y, i, o) of all legal mappings worth a look, as four arrays."""
    out_h = max((part.out_h for part, _ in shape.parts), default=shape.out_h)
    pairs = {(1, y) for y in _sizes(out_h)} | {(n, out_h) for n in _sizes(shape.n)}
    granule = config.cols if shape.weight else config.vector_lanes
    taps = {part.taps for part, _ in shape.parts if part.taps} or {shape.taps}
    inner = _sizes(shape.ic, *sorted({granule // math.gcd(granule, each) for each in taps}), config.beat_elements)
    if shape.pool:
        inner = _sizes(shape.ic, config.rows, config.beat_elements)
    outer = [1] if shape.pool else _sizes(shape.oc, config.cols, config.beat_elements)
    choices = np.meshgrid(np.arange(len(pairs)), inner, outer, indexing="ij")
    p, i, o = (choice.ravel() for choice in choices)
    n, y = np.array(sorted(pairs))[p].T
    if shape.pool:
        o = i
    legal = np.ones(n.shape, bool)
    for used, available in zip(occupancy(shape, config, n, y, i, o, swap), limits(shape, config), strict=True):
        legal &= used <= available
    return n[legal], y[legal], i[legal], o[legal]


def _sizes(size: int, *granules: int) -> list[int]:
    """Tile extents to try: even cuts into ever more tiles, and those rounded up to whole granules."""
    cuts, pieces = set(), 1
    while pieces < size:
        cuts.add(-(-size // pieces))
        pieces += max(1, pieces // 3)
    cuts.add(1)
    rounded = {min(size, -(-cut // granule) * granule) for cut in cuts for granule in granules}
    return sorted(cuts | rounded)


def _why_none(shape, config, allowed):
    """The limit that the smallest tile exceeds, as a message."""
    smallest = [occupancy(shape, config, 1, 1, 1, 1, swap) for swap in allowed]
    for name, available, *used in zip(LIMITS, limits(shape, config), *smallest, strict=True):
        if min(used) > available:
            return f"one row of one channel takes {min(used)} of the {name}, which holds {available}"
    return f"no tile fits {', '.join(LIMITS[:-1])} at once"
