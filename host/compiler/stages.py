"""Stages of the compiler as text: fusion, memory plan, tilings and dependencies of a compiled network."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ...spec.commands import Phase
from ...spec.opcodes import COMPUTE, GEMMS, NORMS, UPDATES
from ...spec.operands import WAITS, counted
from ..program import Line, phases_of
from .compiler import Compiled
from .costs import cycles_of, tiling_of
from .graph import Graph
from .ir import Step
from .islands import Island
from .joins import Join
from .lowering import Layer
from .norm_tiling import norm_tiles

__all__ = ["dependencies", "fusion", "memory", "tilings"]

KEPT = ("B", "A")
"""The operand that a GEMM keeps in the array, by ``swap``."""


def fusion(graph: Graph) -> str:
    """One line a node of the graph: the operators that its commands, or the host, compute along with its own."""
    lines = []
    for node in graph.nodes:
        if isinstance(node, Island):
            lines.append(f"host   {node.name}: {', '.join(node.operators)}")
        elif isinstance(node, Join):
            lines.append(f"device {node.name}: no command, its operands lie side by side")
        else:
            with_it = ", ".join(node.fused) if isinstance(node, Layer) else ""
            lines.append(f"device {node.name}: {f'with {with_it}' if with_it else 'alone'}")
    return "\n".join(lines)


def memory(compiled: Compiled) -> str:
    """The memory plan, one block a line, with the first and the last step that uses each value."""
    plan = compiled.plan
    rows = []
    for block in plan:
        ends = [_step(compiled, place) for place in plan.lifetimes.get(block.name, ())]
        rows.append((f"{block.address:#x}", f"{block.n_bytes:,}", block.name, " - ".join(ends)))
    shares = "values whose lives don't meet share them" if plan.shares else "no two values share any"
    end = f"{plan.n_bytes:,} bytes in all; {shares}"
    return "\n".join([_columns(("address", "bytes", "block", "first and last step"), rows, "rrll"), end])


def tilings(compiled: Compiled) -> str:
    """One line a command that computes: its tile, the number of tiles, the operand that stays, expected cycles.

    A tile has images, rows, channels of X and channels of Y. The array's cycles are the least that the tiling allows.
    """
    rows = []
    for index, line in enumerate(compiled.program):
        command, gemm = line.command, line.command.opcode in GEMMS
        if command.opcode not in COMPUTE:
            continue
        if command.opcode in NORMS:
            tiles, least = norm_tiles(command, command.nb, command.yb, command.cb), "-"
        else:
            tiling = tiling_of(command, compiled.config)
            tiles, least = int(np.max(tiling.tiles)), f"{int(np.max(tiling.array_cycles())):,}" if gemm else "-"
        tile = f"{command.nb} x {command.yb} x {command.cb}" + (f" x {command.qb}" if gemm else "")
        cycles = f"{cycles_of(command, compiled.config):,}"
        kept = f"{KEPT[command.swap]}" + ", filters outside" * command.out_outer if gemm else "-"
        rows.append((str(index), command.opcode.name.lower(), line.name, tile, f"{tiles:,}", kept, cycles, least))
    headings = ("command", "operator", "layer", "tile", "tiles", "stays", "cycles", "of the array")
    return _columns(headings, rows, "rlllrlrr")


def dependencies(compiled: Compiled) -> str:
    """One line a command, or several if its phases differ: the last command of each queue that it waits for.

    The queues are those of the main array, of the update unit and of the predictor.
    """
    rows = []
    queues: dict[tuple[Phase, str], list[int]] = {(phase, wait): [] for phase in Phase for wait in WAITS}
    for index, line in enumerate(compiled.program):
        command, found = line.command, dict[tuple[int, ...], int]()
        executed = command.opcode in (*COMPUTE, *UPDATES)
        for phase in Phase:
            if command.phase_mask & phase:
                counts = {wait: getattr(command, wait) for wait in WAITS}
                last = tuple(sorted(queues[phase, wait][count - 1] for wait, count in counts.items() if count))
                found[last] = found.get(last, 0) | phase
                if executed:
                    queues[phase, counted(command)].append(index)
        for last, mask in found.items():
            names = [f"{place} {_titled(compiled.program[place])}" for place in last] or ["nothing"]
            after = ", ".join(names if executed or not index else ["all before it"])
            rows.append((str(index), _titled(line), phases_of(mask), after))
    return _columns(("command", "", "phases", "waits for"), rows, "rlll")


def _titled(line: Line) -> str:
    return f"{line.command.opcode.name.lower()} {line.name}".strip()


def _step(compiled: Compiled, place: int) -> str:
    """A step of a batch by its place, in words."""
    if place == len(compiled.steps):
        return "end"
    step: Step = compiled.steps[place]
    name = step.name or (compiled.layers[step.layer].name if step.operands else "")
    return f"{place} {step.opcode.name.lower()} {name}".strip()


def _columns(headings: Sequence[str], rows: Iterable[Sequence[str]], sides: str) -> str:
    """Rows below their headings, each column at the side that ``sides`` has a letter of: l or r."""
    table = [headings, *rows]
    widths = [max(len(row[place]) for row in table) for place in range(len(headings))]

    def cells(row: Sequence[str]) -> Iterator[str]:
        for text, width, side in zip(row, widths, sides, strict=True):
            yield text.rjust(width) if side == "r" else text.ljust(width)

    return "\n".join("  ".join(cells(row)).rstrip() for row in table)
