"""Activity of a simulated batch: toggles of nets and accesses of memories, by name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ..errors import ToolError
from .sram import PORTS

__all__ = ["Activity"]

_NUMBER, _COLON = re.compile(r"\$\d+"), re.compile(r":(\d+)(?=[.:\[]|$)")


_WORD = re.compile(r"\[\d+\]$")


def _alike(name):
    """A name without what differs between elaborations of one design: numbers of its own, brackets or colons."""
    return _COLON.sub(r"[\1]", _NUMBER.sub("", name))


def _means(found):
    """The mean, bit by bit, of the lists of those of equal width whose names are alike."""
    groups: dict = {}
    for name, bits in found.items():
        groups.setdefault((_alike(name), len(bits)), []).append(bits)
    return {key: [sum(bit) / len(bit) for bit in zip(*alike, strict=True)] for key, alike in groups.items()}


@dataclass(frozen=True)
class Activity:
    """Activity in a batch of one phase: toggles a clock cycle by net (bit by bit), accesses a cycle by memory.

    Names are paths in the hierarchy, from the design's top on. ``words``: toggles of the bits of a word, by memory;
    they hold for the words of a memory that is made of flip-flops. ``writes``: by register, or by memory for each word
    of it, the share of cycles in which each of its bits is written. ``default`` stands for nets without known activity.
    """

    toggles: Mapping[str, list[float]]
    accesses: Mapping[str, float]
    default: float
    words: Mapping[str, list[float]] = field(default_factory=dict)
    writes: Mapping[str, list[float]] = field(default_factory=dict)

    @cached_property
    def _by_name(self):
        return _means(self.toggles), _means(self.words), _means({name: [n] for name, n in self.accesses.items()})

    @cached_property
    def _writes_by_name(self):
        return _means(self.writes)

    def rate(self, name: str, index: int, width: int) -> float | None:
        """Toggles of a bit of the net of that name and width; None if they aren't known."""
        if len(exact := self.toggles.get(name, ())) == width:
            return exact[index]
        bits = self._by_name[0].get((_alike(name), width))
        return bits[index] if bits else None

    def word_rate(self, name: str, index: int, width: int) -> float | None:
        """As :meth:`rate`, of a bit of a memory's word: an estimate."""
        bits = self._by_name[1].get((_WORD.sub("", _alike(name)), width))
        return bits[index] if bits else None

    def write_rate(self, name: str, index: int, width: int) -> float | None:
        """Share of cycles in which a bit of a register, or of a memory's word, is written; None if it isn't known."""
        if len(exact := self.writes.get(name, ())) == width:
            return exact[index]
        alike = _alike(name)
        bits = self._writes_by_name.get((alike, width)) or self._writes_by_name.get((_WORD.sub("", alike), width))
        return bits[index] if bits else None

    def accesses_of(self, memory: str) -> float:
        """Raises ToolError for a memory that isn't known, or that is accessed more often than it has ports."""
        found = self._by_name[2].get((_alike(memory), 1))
        if found is None:
            raise ToolError(f"the simulation counts no accesses of the memory {memory}")
        if found[0] > PORTS * 1.001:
            raise ToolError(f"{found[0]:.2f} accesses a cycle are more than the memory {memory} has ports")
        return found[0]
