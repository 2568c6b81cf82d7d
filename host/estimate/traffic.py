"""DRAM traffic of a FILL or STORE descriptor, counted as the DMA engines make it, and sums of it by operand."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ...spec.commands import Command
from ...spec.config import Config
from ...spec.operands import operands

__all__ = ["Places", "Table", "Traffic", "traffic"]

Table = Counter[tuple[str, str, str]]
"""Bytes by command ("fetch" or an opcode in lower case), operand, and direction: read, write or chip.

"chip" are those read from and written to the predictor memory.
"""


@dataclass(frozen=True)
class Traffic:
    """A descriptor's traffic: contiguous segments, the port's bursts and beats, granules of the DRAM part, bytes.

    A burst stays within its aligned block of ``Config.max_burst_beats``; a beat or granule that it touches counts
    whole, once a segment.
    """

    segments: int = 0
    bursts: int = 0
    beats: int = 0
    granules: int = 0
    n_bytes: int = 0


NOTHING = Traffic()


def traffic(config: Config, fields: Mapping[str, int]) -> Traffic:
    """The traffic of a descriptor, given as its fields that aren't 0."""
    counts = (fields.get("n0", 0), fields.get("n1", 0), fields.get("n2", 0))
    length = fields.get("length", 0) * config.operand_bytes
    if not all(counts) or not length:
        return NOTHING
    beat, granule = config.beat_bytes, config.dram.burst_bytes
    burst = beat * config.max_burst_beats
    steps = (fields.get("d0", 0), fields.get("d1", 0), fields.get("d2", 0))
    return _counted((beat, burst, granule), fields.get("dram", 0) % max(burst, granule), counts, steps, length)


@lru_cache(1 << 17)
def _counted(
    sizes: tuple[int, int, int], place: int, counts: tuple[int, int, int], steps: tuple[int, int, int], length: int
) -> Traffic:
    """The traffic of segments whose first one begins ``place`` bytes into a block.

    ``sizes``: bytes of a beat, of a burst's block, of a granule. They stand for the design, which is slow to look up.
    """
    beat, burst, granule = sizes
    i, j, k = np.ix_(*(np.arange(n) * step for n, step in zip(counts, steps, strict=True)))
    first = (place + i + j + k).ravel()
    last = first + length - 1

    def touched(size: int) -> int:
        return int((last // size - first // size + 1).sum())

    return Traffic(first.size, touched(burst), touched(beat), touched(max(beat, granule)), first.size * length)


class Places:
    """The places of a command's operands and of the predictor memory, which tell whose bytes a descriptor moves."""

    def __init__(self, command: Command, config: Config, a_base: int, chip: range):
        self.chip = chip
        found = operands(command, config, a_base)
        self._operands = sorted((operand.address, name) for name, operand in found.items())
        self.ends = {name: operand.address + operand.n_bytes for name, operand in found.items()}

    def owner(self, address: int) -> str:
        """Name of the operand that an address lies in."""
        owner = "out"
        for start, name in self._operands:
            if start <= address < self.ends[name]:
                owner = name
        return owner
