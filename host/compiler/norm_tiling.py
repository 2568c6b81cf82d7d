"""Tiles of batch norm's commands: the largest ones that fit, as their cost is that of the memory port."""

import math

from ...spec.commands import CMode, Command, Opcode
from ...spec.config import Config
from ...spec.norm import APPLY_PLANES, BACKWARD_ROW, SUMS_ROW, TABLES, planes
from .cost_model import RUN_CYCLES, SETUP_CYCLES, TILE_CYCLES
from .occupancy import align

__all__ = ["norm_cycles", "norm_tile"]

CHANNEL_CYCLES = {Opcode.NORM_CONSTANTS: 300, Opcode.NORM_RUNNING: 300, Opcode.NORM_BACKWARD: 208}
"""Cycles, about, in which a unit makes a channel's constants: measured on whole commands of 96 channels on one unit."""


def norm_tile(command: Command, config: Config) -> tuple[int, int, int] | None:
    """Images, rows and channels of the tiles with the fewest cycles; None if not even the smallest ones fit."""
    images = [(n, command.h) for n in _halves(command.n)] + [(1, y) for y in _halves(command.h)]
    tiles = [(n, y, c) for n, y in images for c in _halves(command.c, config.rows) if _fits(command, config, n, y, c)]
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
    constants = planes(BACKWARD_ROW) if back else APPLY_PLANES
    fits = (1 + back) * a_used <= config.a_elements and constants * c <= config.b_elements
    return fits and pixels * c <= config.c_elements


def norm_cycles(command: Command, config: Config, n: int, y: int, c: int) -> float:
    """Expected cycles: of the memory port, or of the pool unit, or of the unit that makes constants."""
    g, opcode = command, command.opcode
    parts, spots = -(-g.c // c), -(-g.n // n) * -(-g.h // y)

    def port(per_row: int) -> float:
        """Cycles for ``per_row`` operands of each pixel's row."""
        return -(-per_row * config.operand_bytes // config.beat_bytes) + RUN_CYCLES

    if opcode in TABLES:
        moved = sum(TABLES[opcode]) * parts * port(c)
        return SETUP_CYCLES + parts * TILE_CYCLES + max(moved, -(-g.c // config.norm_units) * CHANNEL_CYCLES[opcode])
    pixels = g.n * g.h * g.w
    values = spots * port(n * y * g.w * g.c) if parts == 1 else pixels * parts * port(c)
    back = opcode == Opcode.NORM_APPLY_BACKWARD
    if opcode == Opcode.NORM_SUMS:
        moved, busy = 2 * values, len(SUMS_ROW) * pixels
    else:
        added = {CMode.NONE: 0, CMode.ADD_MASK: 2}.get(CMode(g.c_mode), 1)
        moved, busy = (2 + back + added) * values, (1 + back) * pixels
    groups = parts * -(-c // config.rows)
    return SETUP_CYCLES + spots * parts * TILE_CYCLES + max(moved, busy * groups) + math.log2(spots * parts + 1)
