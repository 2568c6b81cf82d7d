"""The work of a command, and the memory that it touches."""

from collections import Counter
from itertools import product

import numpy as np
from adagp.golden.footprint import Runs
from adagp.golden.occupancy import Tile, classes_of
from adagp.golden.validate import validate
from adagp.spec.commands import Command
from adagp.spec.config import Config
from adagp.spec.errors import ErrorCode
from adagp.spec.norm import TABLES
from adagp.spec.opcodes import COMPUTE, UPDATES

__all__ = ["HUGE", "Interval", "a_base", "core", "is_work", "mask", "overlap", "spans", "work"]

Interval = tuple[int, int]
"""First address and the one after the last."""

HUGE = 7_000
"""Cycles of work from which on the golden model doesn't execute a command."""


def is_work(command: Command | None, config: Config) -> bool:
    """True for a compute, UPDATE or ADAM command that isn't refused for its fields alone."""
    if command is None or (command.opcode not in COMPUTE and command.opcode not in UPDATES):
        return False
    return validate(command, config) == ErrorCode.NONE


def core(command: Command, config: Config) -> Config:
    """The core that executes a compute command."""
    return config.predictor_core if command.predictor and config.n_cores > 1 else config


def work(command: Command | None, config: Config) -> int:
    """About the cycles of a command, upwards."""
    if command is None or not is_work(command, config):
        return 0
    if command.opcode in UPDATES:
        return 400 + 8 * command.count
    classes = [Counter(lines) for lines in classes_of(command)]
    parts = product(*(lines.items() for lines in classes))
    tables = 1000 * command.c if command.opcode in TABLES else 0
    return 1500 + tables + sum(many * more * _tiles(Tile(command, (row, column)), command, config)
                      for (row, many), (column, more) in parts)  # fmt: skip


def _tiles(t: Tile, command: Command, config: Config) -> int:
    """About the cycles of all tiles of a residue class."""
    tiles = int(np.prod(t.counts[:-1], dtype=object))
    rows = t.taps * t.i if t.weight else t.pixels
    depth = t.pixels if t.weight else t.taps * t.i
    fills = t.images * t.wide * t.tall * t.i + depth * t.o
    held, streamed = (rows, t.o) if command.swap else (t.o, rows)
    config = core(command, config)
    load = config.rows + config.cols + 4
    passes = -(-depth // config.rows) * -(-held // config.cols)
    array = depth * t.pixels if t.pool else passes * max(streamed, load)
    return tiles * (600 + fills + array + 3 * rows * t.o)


def a_base(command: Command, ring_base: int) -> int:
    """The address of operand A when the ring has one entry."""
    ring = ring_base if command.ring and command.opcode in COMPUTE else 0
    return (command.a_addr + ring) & 0xFFFF_FFFF


def spans(places: dict[str, Runs]) -> list[Interval]:
    """First address and the one after the last, run by run."""
    return [interval for runs in places.values() for interval in runs.intervals()]


def mask(intervals: list[Interval], n_bytes: int) -> np.ndarray:
    """Which of ``n_bytes`` lie in the intervals."""
    found = np.zeros(n_bytes, bool)
    for start, end in intervals:
        found[start:end] = True
    return found


def overlap(some: list[Interval], others: list[Interval]) -> bool:
    """True if they share a byte."""
    return any(a < d and c < b for a, b in some for c, d in others)
