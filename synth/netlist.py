"""A netlist's cells, by the block they belong to."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile

from ..gen.cache import digest
from .yosys import MARK, TOP

__all__ = ["HARNESS", "Cells", "Scopes", "count"]

HARNESS = "(harness)"
"""The block of cells outside the design proper."""
NAMELESS = "(unnamed)"
"""The block of cells whose names don't come from any net."""


def _plain(name):
    """A name as if all that it is made of were public."""
    return name.replace("$flatten", "").replace("\\", "")


@dataclass(frozen=True)
class Scopes:
    """The paths of all blocks of a flattened netlist, below ``root``; "" is the root itself."""

    root: str
    paths: frozenset[str]

    @classmethod
    def read(cls, folder: Path, root: str) -> "Scopes":
        """Read the scopes of the netlist in ``folder``."""
        listed = (_plain(line.removeprefix(f"{TOP}/")) for line in (folder / "scopes.txt").read_text().split())
        return cls(root, frozenset(name.removeprefix(f"{root}.") for name in listed if name.startswith(f"{root}.")))

    def block(self, cell: str) -> str:
        """The block that a cell (or net) belongs to by its name: that of the longest path which the name begins with.

        LUTs and carries are named by Yosys' autoname after a net nearby that has a name, so logic across a border of
        blocks counts with one of the two.
        """
        cell = _plain(cell)
        outside, _, inside = self.root.rpartition(".")
        if outside and not cell.startswith(f"{outside}."):
            return HARNESS
        path = cell.removeprefix(f"{outside}.")
        if path.startswith("$"):
            return NAMELESS
        path = path.removeprefix(f"{inside}.")
        while "." in path:
            path = path.rpartition(".")[0]
            if path in self.paths:
                return path
        return ""


def _written(cell):
    """A name in the block that a cell was written in, where that is known; of several merged into one, the first's."""
    sources = cell.get("attributes", {}).get("src", "").split("|")
    marked = [source for source in sources if source.startswith(MARK)]
    return marked[0].removeprefix(f"{MARK}{TOP}").lstrip(".") + "." if marked else None


@dataclass(frozen=True)
class Cells:
    """The blocks of a netlist, and the number of cells in each by type, without those of blocks inside it."""

    scopes: Scopes
    counts: dict[str, Counter[str]] = field(default_factory=dict)

    def total(self, blocks: Iterable[str] | None = None) -> Counter[str]:
        """Cells of the given blocks together, by default of all but the harness."""
        chosen = [block for block in self.counts if block != HARNESS] if blocks is None else blocks
        return sum((self.counts.get(block, Counter()) for block in chosen), Counter())

    @property
    def nameless(self) -> float:
        """Share of cells that no block could be found for."""
        return sum(self.counts.get(NAMELESS, Counter()).values()) / max(1, sum(self.total().values()))


def count(folder: Path, root: str) -> Cells:
    """Cells of the netlist in ``folder``, whose design proper is at ``root``; kept beside it, since it is large."""
    kept = folder / f"cells-{digest(root, Path(__file__).read_bytes())}.json"
    if not kept.exists():
        module = json.loads((folder / "netlist.json").read_text())["modules"][TOP]
        scopes = Scopes.read(folder, root)
        counts: dict[str, Counter[str]] = {}
        for name, cell in module["cells"].items():
            block = scopes.block(_written(cell) or name)
            counts.setdefault(block, Counter())[cell["type"]] += 1
        text = json.dumps({"scopes": sorted(scopes.paths), "counts": counts})
        with NamedTemporaryFile("w", dir=folder, suffix=".partial", delete=False) as partial:  # its own of each process
            partial.write(text)
        Path(partial.name).replace(kept)
    found = json.loads(kept.read_text())
    counted = {block: Counter(types) for block, types in found["counts"].items()}
    return Cells(Scopes(root, frozenset(found["scopes"])), counted)
