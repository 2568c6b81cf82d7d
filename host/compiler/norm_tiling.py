"""Tiles of batch norm's commands: those with the fewest expected cycles."""

from ...spec.commands import CMode, Command, Opcode
from ...spec.config import Config
from ...spec.norm import APPLY_PLANES, BACKWARD_ROW, SUMS_ROW, TABLES, planes
from .cost_model import RUN_CYCLES, SETUP_CYCLES, TILE_CYCLES
from .occupancy import align

__all__ = ["norm_cycles", "norm_tile"]

GROUP_CYCLES = 14
"""Cycles, about, between two groups of channels: loading constants, and the last results' way out."""
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
    """Expected cycles: those of the slowest engine, and of the first fill and the last store, which nothing hides."""
    g, opcode = command, command.opcode
    parts, spots = -(-g.c // c), -(-g.n // n) * -(-g.h // y)
    tiles = parts if opcode in TABLES else spots * parts

    def port(per_row: int) -> float:
        """Cycles for ``per_row`` operands of each pixel's row."""
        return -(-per_row * config.operand_bytes // config.beat_bytes) + RUN_CYCLES

    if opcode in TABLES:
        filled, stored = (planes * parts * port(c) for planes in TABLES[opcode])
        busy = -(-g.c // config.norm_units) * CHANNEL_CYCLES[opcode]
    else:
        pixels = g.n * g.h * g.w
        values = spots * port(n * y * g.w * g.c) if parts == 1 else pixels * parts * port(c)
        groups, back = parts * -(-c // config.rows), opcode == Opcode.NORM_APPLY_BACKWARD
        added = {CMode.NONE: 0, CMode.ADD_MASK: 2}.get(CMode(g.c_mode), 1)
        sums = opcode == Opcode.NORM_SUMS
        read = 2 - (g.a_addr == g.b_addr and not g.ring) if sums else 1 + back + added
        filled, stored = read * values, 0 if sums else values
        busy = groups * ((1 + back) * pixels + GROUP_CYCLES * spots)
    return SETUP_CYCLES + max(filled, stored, busy, tiles * TILE_CYCLES) + (filled + stored) / tiles
