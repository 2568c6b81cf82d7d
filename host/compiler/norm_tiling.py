"""Tiles of batch norm's commands: those with the fewest expected cycles."""

from functools import lru_cache
from math import lcm

from ...spec.commands import CMode, Command, Opcode
from ...spec.config import Config
from ...spec.norm import APPLY_PLANES, BACKWARD_ROW, SUMS_ROW, TABLES, planes
from .cost_model import GAP_CYCLES, RUN_CYCLES, SETUP_CYCLES, TILE_CYCLES
from .occupancy import align

__all__ = ["HELD_CYCLES", "norm_cycles", "norm_tile", "norm_tiles", "table_cycles"]

CHANNEL_CYCLES = {Opcode.NORM_CONSTANTS: 251, Opcode.NORM_RUNNING: 178, Opcode.NORM_BACKWARD: 176}
"""Cycles in which a unit makes a channel's constants, from reading its planes to writing others (table_unit.py,
forward_steps.py). Steps depend on the values a little; these are a batch's mean."""
GIVING_CYCLES = 7
"""States of a group of channels beside those of its planes and constants (tables.py)."""
GROUP_CYCLES = {Opcode.NORM_SUMS: 1, Opcode.NORM_APPLY: 0, Opcode.NORM_APPLY_BACKWARD: planes(BACKWARD_ROW)}
"""Cycles between two groups of channels of a tile: a gap, or constants (pool.py, scale.py)."""
HELD_CYCLES = 5
"""From a group's first value in NORM_APPLY until the next group's constants can follow those in use (scale.py)."""


def norm_tile(command: Command, config: Config) -> tuple[int, int, int] | None:
    """Images, rows and channels of the tiles with the fewest cycles; None if not even the smallest ones fit."""
    g = command
    return _fastest(g.opcode, (g.n, g.h, g.w, g.c, g.c_mode), _reads_twice(g), config)


def _reads_twice(command: Command) -> bool:
    """True if the operands A and B are two tensors."""
    return bool(command.ring) or command.a_addr != command.b_addr


@lru_cache(4096)
def _fastest(opcode: Opcode, sizes: tuple[int, ...], twice: bool, config: Config) -> tuple[int, int, int] | None:
    """Tiles of all commands of a shape."""
    shape = dict(zip(("n", "h", "w", "c", "c_mode"), sizes, strict=True))
    command = Command(opcode, {**shape, "b_addr": int(twice)})
    images = [(n, command.h) for n in _halves(command.n)] + [(1, y) for y in _halves(command.h)]
    whole = lcm(config.rows, config.beat_bytes // config.operand_bytes)  # groups of lanes in whole beats
    channels = {*_halves(command.c, config.rows), *_halves(command.c, whole)}
    tiles = [(n, y, c) for n, y in images for c in sorted(channels) if _fits(command, config, n, y, c)]
    return min(tiles, key=lambda tile: norm_cycles(command, config, *tile), default=None)


def _halves(size: int, unit: int = 1) -> list[int]:
    """A size cut into ever more parts, in whole units; and 1."""
    cuts = {min(size, -(-size // (parts * unit)) * unit) for parts in (2**bits for bits in range(size.bit_length()))}
    return sorted(cuts | {1})


def _fits(command: Command, config: Config, n: int, y: int, c: int) -> bool:
    opcode = command.opcode
    if opcode in TABLES:
        read, made = TABLES[opcode]
        return read * c <= config.a_elements and made * c <= config.c_elements
    a_used = n * y * align(command.w * c, c, config.banks)
    pixels = n * y * command.w
    if opcode == Opcode.NORM_SUMS:
        kept = len(SUMS_ROW) * -(-c // config.rows) <= config.kept_words
        results = planes(SUMS_ROW) * c
        return kept and a_used <= config.a_elements and pixels * c <= config.b_elements and results <= config.c_elements
    back = opcode == Opcode.NORM_APPLY_BACKWARD
    vectors = planes(BACKWARD_ROW) + pixels if back else APPLY_PLANES
    return a_used <= config.a_elements and vectors * c <= config.b_elements and pixels * c <= config.c_elements


def table_cycles(opcode: Opcode, config: Config) -> int:
    """Cycles of a group of channels in a command that makes tables."""
    read, made = TABLES[opcode]
    return read + config.rows // config.norm_units * CHANNEL_CYCLES[opcode] + made + GIVING_CYCLES


def norm_tiles(command: Command, n: int, y: int, c: int) -> int:
    """Number of tiles of so many images, rows and channels in a command."""
    return -(-command.c // c) * (1 if command.opcode in TABLES else _spots(command, n, y))


def _spots(command: Command, n: int, y: int) -> int:
    """Tiles of each run of channels."""
    return -(-command.n // n) * -(-command.h // y)


def norm_cycles(command: Command, config: Config, n: int, y: int, c: int) -> float:
    """Expected cycles: those of the slowest engine, and of the first fill and the last store, which nothing hides."""
    g, opcode = command, command.opcode
    parts, spots = -(-g.c // c), _spots(g, n, y)
    tiles = norm_tiles(command, n, y, c)

    def port(per_row: int) -> float:
        """Cycles for ``per_row`` operands of each pixel's row."""
        return -(-per_row * config.operand_bytes // config.beat_bytes) + RUN_CYCLES

    if opcode in TABLES:
        filled, stored = (planes * parts * port(c) for planes in TABLES[opcode])
        busy = parts * -(-c // config.rows) * table_cycles(opcode, config)
    else:
        pixels = g.n * g.h * g.w
        values = spots * port(n * y * g.w * g.c) if parts == 1 else pixels * parts * port(c)
        groups, back = parts * -(-c // config.rows), opcode == Opcode.NORM_APPLY_BACKWARD
        added = {CMode.NONE: 0, CMode.ADD_MASK: 2}.get(CMode(g.c_mode), 1)
        sums = opcode == Opcode.NORM_SUMS
        read = 1 + _reads_twice(g) if sums else 1 + back + added
        filled, stored = read * values, 0 if sums else values
        if back:  # constants come with each tile of X
            filled += tiles * planes(BACKWARD_ROW) * port(c)
        group = pixels / spots + GROUP_CYCLES[opcode]
        busy = groups * spots * (max(group, APPLY_PLANES + HELD_CYCLES) if opcode == Opcode.NORM_APPLY else group)
    busy += tiles * GAP_CYCLES
    return SETUP_CYCLES + max(filled, stored, busy, tiles * TILE_CYCLES) + (filled + stored) / tiles
