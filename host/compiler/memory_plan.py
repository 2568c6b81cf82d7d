"""Memory plan: tensors and programs as aligned blocks of DRAM, in groups that are contiguous regions."""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["ALIGNMENT", "Block", "MemoryPlan", "PlanError"]

ALIGNMENT = 64
"""Bytes of which a block's address is a multiple: a beat of the widest port, a burst of the widest part."""

_MIB = 1 << 20


class PlanError(ValueError):
    """A network that doesn't fit the memory; the message names sizes, part and the largest blocks."""


@dataclass(frozen=True)
class Block:
    """``n_bytes`` of DRAM from ``address`` on."""

    name: str
    address: int
    n_bytes: int

    @property
    def end(self) -> int:
        return self.address + self.n_bytes


class MemoryPlan:
    """Collects blocks by group (:meth:`add`), then gives them addresses (:meth:`place`).

    ``groups`` fixes which groups there are and their order in memory, from address 0 up. The last one, and those
    ``by_batch``, are as large as the batch. Once placed, ``lifetimes`` are those that :meth:`place` was given, and
    ``shares`` says if blocks share memory by them.
    """

    def __init__(self, *groups: str, by_batch: tuple[str, ...] = ()):
        self._by_batch = {*by_batch, groups[-1]}
        self._wanted: dict[str, dict] = {group: {} for group in groups}
        self._placed: dict = {}
        self._regions: dict = {}
        self.n_bytes = 0
        self.lifetimes: dict[str, tuple[int, int]] = {}
        self.shares = False

    def add(self, group: str, name: str, n_bytes: int, alignment: int = ALIGNMENT) -> None:
        """Ask for ``n_bytes`` at a multiple of ``alignment`` (a power of two, at least ALIGNMENT)."""
        if any(name in blocks for blocks in self._wanted.values()):
            raise ValueError(f"there is already a block {name!r}")
        if n_bytes <= 0 or alignment % ALIGNMENT:
            raise ValueError(f"block {name!r}: {n_bytes} bytes aligned to {alignment} is not allowed")
        self._wanted[group][name] = (n_bytes, alignment)

    def place(
        self, capacity_bytes: int, part: str, batch: int, lifetimes: Mapping[str, tuple[int, int]] | None = None
    ) -> None:
        """Lay the groups out one after the other; raises :class:`PlanError` beyond ``capacity_bytes``.

        ``lifetimes`` are the first and the last use of blocks in the last group. If memory is too small, those whose
        lives don't meet share it. They don't otherwise, because a command that overwrites must wait for readers.
        """
        self.lifetimes = dict(lifetimes or {})
        self._lay_out({})
        if self.n_bytes > capacity_bytes and lifetimes:
            self._lay_out(lifetimes)
            self.shares = True
        if self.n_bytes > capacity_bytes:
            largest = sorted(self._placed.values(), key=lambda block: -block.n_bytes)[:3]
            names = ", ".join(f"{block.name} {block.n_bytes / _MIB:.1f} MiB" for block in largest)
            fixed = sum(end - start for group, (start, end) in self._regions.items() if group not in self._by_batch)
            fits = max(0, capacity_bytes - fixed) * batch // max(1, self.n_bytes - fixed)
            hint = f"a batch of about {fits} would fit" if fits else "no batch would fit"
            raise PlanError(
                f"network needs {self.n_bytes / _MIB:.1f} MiB at batch {batch}, {part} has "
                f"{capacity_bytes / _MIB:.1f} MiB ({hint}); largest: {names}"
            )

    def _lay_out(self, lifetimes: Mapping[str, tuple[int, int]]) -> None:
        address = 0
        for group, blocks in self._wanted.items():
            start = address
            for name, (n_bytes, alignment) in blocks.items():
                if name not in lifetimes:
                    address = -(-address // alignment) * alignment
                    self._placed[name] = Block(name, address, n_bytes)
                    address += -(-n_bytes // ALIGNMENT) * ALIGNMENT
            self._regions[group] = (start, address)
        wanted = {name: n_bytes for name, (n_bytes, _) in blocks.items() if name in lifetimes}
        self.n_bytes = max(address, self._share(address, wanted, lifetimes))
        self._regions[group] = (start, self.n_bytes)

    def _share(self, first: int, wanted: Mapping[str, int], lifetimes: Mapping[str, tuple[int, int]]) -> int:
        """Place blocks from ``first`` on, the largest first, each at the lowest gap while it lives; returns the end."""
        placed: list[tuple[int, int, int, int]] = []
        for name, n_bytes in sorted(wanted.items(), key=lambda item: -item[1]):
            born, dead = lifetimes[name]
            address, size = first, -(-n_bytes // ALIGNMENT) * ALIGNMENT
            for start, end in sorted((s, e) for s, e, b, d in placed if b <= dead and born <= d):
                if address + size <= start:
                    break
                address = max(address, end)
            placed.append((address, address + size, born, dead))
            self._placed[name] = Block(name, address, n_bytes)
        return max((end for _, end, _, _ in placed), default=first)

    def __getitem__(self, name: str) -> Block:
        return self._placed[name]

    def __contains__(self, name: str) -> bool:
        return name in self._placed

    def __iter__(self):
        return iter(self._placed.values())

    def region(self, group: str) -> tuple[int, int]:
        """First byte address of a group and the one after its last."""
        return self._regions[group]
