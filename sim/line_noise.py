"""Random noise on a line: bytes that are lost, changed, late or doubled."""

import random
from dataclasses import dataclass, field

__all__ = ["PAUSE", "LineNoise"]

PAUSE = 256
"""PAUSE + n in place of a byte: nothing comes for the time of n + 1 bytes (see ``uart.h``)."""

LONGEST = 300
"""Longest pause, in the time of a byte."""


@dataclass
class LineNoise:
    """Chances in 0..1 for each byte to be lost, changed, late (with all after it), or doubled.

    ``counts`` says how often each has happened, by name.
    """

    drop: float = 0.0
    corrupt: float = 0.0
    delay: float = 0.0
    duplicate: float = 0.0
    seed: int = 1
    counts: dict[str, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self.counts = dict.fromkeys(("drop", "corrupt", "delay", "duplicate"), 0)
        for name in self.counts:
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} = {getattr(self, name)!r} must satisfy 0 <= {name} <= 1")

    def _happens(self, name):
        chance = getattr(self, name)
        happens = bool(chance) and self._random.random() < chance
        self.counts[name] += happens
        return happens

    def apply(self, data: bytes) -> list[int]:
        """The bytes and pauses that arrive when ``data`` is sent."""
        result: list[int] = []
        for byte in data:
            if self._happens("delay"):
                result.append(PAUSE + self._random.randrange(LONGEST))
            if self._happens("drop"):
                continue
            if self._happens("corrupt"):
                byte ^= self._random.randrange(1, 256)
            result += [byte] * (1 + self._happens("duplicate"))
        return result
