"""Stages of the top's bench: sizes and exponents at the limits of their ranges."""

import random

from adagp.spec.commands import Opcode
from adagp.spec.microcode.machine import TileError, descriptors, task
from adagp.spec.microcode.program import tile_program
from adagp.spec.numerics import EXP_MAX, EXP_MIN
from adagp.spec.opcodes import GEMMS, POOLS

from .observations import CONFIG, MEMORIES, SEED, Observations, Open
from .programs import GEOMETRY, Maker, run

__all__ = ["LONG", "extremes", "fits", "long", "updates"]

LONG = {
    "n": 1800, "h": 1400, "w": 1880, "c": 3000, "q": 3000, "r": 230, "s": 230, "stride": 230, "pad_y": 230,
    "pad_x": 230,
}  # fmt: skip
"""Sizes that fill a tile's share of the scratchpads, or need many tiles."""
PARTS = (1, 2, 4, 8, 16)
TILES = (4000, 2000, 1500, 1000, 700, 500, 250, 120, 60, 1)


def _long(opcode: Opcode, name: str, draw: random.Random) -> dict:
    """Fields of a layer with one size at its largest, in the longest tiles allowed."""
    more, swap = draw.randrange(20), draw.randrange(2)
    candidates = (_layer(opcode, name, LONG[name] // part + more, tile, swap) for part in PARTS for tile in TILES)
    return next(fields for fields in candidates if fits(opcode, fields)) | {"const_mantissa": draw.randrange(1 << 16)}


def _layer(opcode, name, size, tile, swap):
    f = dict.fromkeys(GEOMETRY, 1) | {"pad_y": 0, "pad_x": 0, name: size, "swap": swap}
    if opcode in POOLS:
        f["c"] = f["q"] = max(f["c"], f["q"])
    if name == "stride":
        f["h"] = 2 * size + 1
        f["w"] = 1 if opcode == Opcode.BACKWARD_DATA else f["h"]  # which runs stride * stride residue classes
    for extent, out, kernel, pad in (("h", "oh", "r", "pad_y"), ("w", "ow", "s", "pad_x")):
        f[kernel] = max(f[kernel], f[pad] + 1)
        f[extent] = max(f[extent], f[kernel] - f[pad])
        f[out] = (f[extent] + 2 * f[pad] - f[kernel]) // f["stride"] + 1
    extents = {"nb": f["n"], "yb": max(f["h"], f["oh"]), "cb": f["c"], "qb": f["q"]}
    return f | {size: min(extent, tile) for size, extent in extents.items()}


def fits(opcode: Opcode, fields: dict) -> bool:
    """True if the tiles of a layer have room."""
    try:
        descriptors(tile_program, CONFIG, [task({**fields, "opcode": opcode})])
    except TileError:
        return False
    return True


def long(name: str, open_device: Open) -> Observations:
    """Layers of all kinds that are long in one direction, in the longest tiles that there is room for."""
    for opcode in (op for op in (*GEMMS, *POOLS) if op != Opcode.REORGANISE):
        draw = random.Random(SEED)
        maker = Maker(draw)
        fields = _long(Opcode(opcode), name, draw)
        numbers = {f"{operand}_id": maker.number(draw.randint(-9, 0)) for operand in ("a", "b", "c", "out")}
        maker.add(Opcode(opcode), fields | numbers | {"track": 1}, {})
        yield from run(maker, draw, open_device, MEMORIES["ddr3"])


UPDATES = (4095, 70_000)
"""Weights of long updates."""


def updates(open_device: Open) -> Observations:
    """Long updates."""
    for count in UPDATES:
        draw = random.Random(count)
        maker = Maker(draw)
        maker.update(count)
        yield from run(maker, draw, open_device, MEMORIES["ideal"])


def extremes(open_device: Open) -> Observations:
    """Exponents of all sizes: the largest shifts to both sides, and numbers that overflow at every step."""
    for seed in range(4):
        draw = random.Random(seed)
        maker = Maker(draw)
        for _ in range(8):
            maker.layer()
            maker.update(draw.randint(1, 40))
        for number, pair in maker.exponents.items():
            maker.exponents[number] = tuple(old if old is None else _exponent(draw) for old in pair)
        yield from run(maker, draw, open_device, MEMORIES["ideal"], batches=2)


def _exponent(draw):
    return draw.choice((EXP_MIN, EXP_MAX, draw.randint(EXP_MIN, EXP_MAX), draw.randint(-40, 40), draw.randint(-40, 40)))
