"""Resources of a design block by block, and differences between two designs."""

from collections.abc import Mapping

from .netlist import HARNESS, Cells
from .target import Target

__all__ = ["Tree", "difference", "tree", "worth_showing"]

Tree = dict[str, dict[str, int]]
"""Resources by block's path, those of the blocks inside included; "" is all of the design."""


def tree(cells: Cells, target: Target, depth: int | None = None) -> Tree:
    """Resources of all blocks down to ``depth`` (None: of all there are), a block before those inside it."""
    found: Tree = {"": dict.fromkeys(target.counted, 0)}
    for block, types in cells.counts.items():
        if block == HARNESS:
            continue
        resources = target.resources(types)
        parts = block.split(".") if block else []
        for level in range(len(parts) + 1):
            if depth is not None and level > depth:
                break
            sums = found.setdefault(".".join(parts[:level]), dict.fromkeys(target.counted, 0))
            for resource, number in resources.items():
                sums[resource] += number
    return {block: found[block] for block in sorted(found, key=lambda block: block.split(".") if block else [])}


def difference(one: Tree, other: Tree) -> Tree:
    """Resources of each block of ``one`` minus those of ``other``; blocks without a difference are left out."""
    found = {}
    for block in sorted({*one, *other}, key=lambda block: block.split(".") if block else []):
        resources = one.get(block) or other[block]
        more = {
            resource: one.get(block, {}).get(resource, 0) - other.get(block, {}).get(resource, 0)
            for resource in resources
        }  # fmt: skip
        if any(more.values()):
            found[block] = more
    return found


def worth_showing(found: Tree, whole: Mapping[str, int], share: float, resources: tuple[str, ...]) -> Tree:
    """Blocks with at least ``share`` of the ``whole`` in one of ``resources``, either way."""
    return {
        block: row for block, row in found.items()
        if not block or any(abs(row[resource]) >= max(1, share * whole[resource]) for resource in resources)
    }  # fmt: skip
