"""Standard cells: area by Yosys and ABC, timing and power by OpenSTA, with a Liberty file of the user's choice.

The default, osu018, is Oklahoma State University's library for TSMC's 180 nm, as Debian has it in qflow-tech-osu018.
Blocks are mapped one by one, so each cell is of the block it was written in. Nets have no wires yet: delays and power
are those of gates and their pins alone. Clock gates are left open, which counts clock pins in full.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType

from . import child
from .breakdown import tree
from .design import Design
from .errors import TargetError
from .memories import DEEP, Memory
from .netlist import Cells, Scopes
from .sta import analyse
from .target import Target
from .yosys import TOP, synthesise

__all__ = ["LIBERTY", "Activity", "Library", "Mapped", "figures", "map_to_cells", "power"]

LIBERTY = Path("/usr/share/qflow/tech/osu018/osu018_stdcells.lib")

MACRO = "adagp_memory"
_PASSES = f"""\
read_liberty -lib cells.lib
hierarchy -top {TOP}
synth -top {TOP} -run begin:fine
select -set deep t:$mem_v2 r:SIZE>{DEEP} %i
chtype -set {MACRO} @deep
select -clear
synth -run fine:check
setattr -unset init w:*
dfflibmap -liberty cells.lib
abc -liberty cells.lib -constr cells.constr -D {{period_ps:.0f}}
opt_clean
flatten"""
_CONSTRAINTS = "set_driving_cell {buffer}\nset_load 0.05 [all_outputs]\n"
_CELL = re.compile(r'^\s*cell\s*\(\s*"?(\w+)"?\s*\)\s*\{', re.MULTILINE)
_AREA = re.compile(r'^\s*area\s*:\s*"?([\d.eE+-]+)"?\s*;', re.MULTILINE)
_FLIP_FLOP = re.compile(r"^\s*ff\s*\(", re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True)
class Library:
    """A Liberty file's cells: areas by name, and which are flip-flops.

    Raises TargetError for one without flip-flops or buffers.
    """

    path: Path
    areas: Mapping[str, float] = field(init=False)
    flip_flops: frozenset[str] = field(init=False)

    def __post_init__(self):
        pieces = _CELL.split(_COMMENT.sub("", self.path.read_text(errors="replace")))[1:]
        cells = dict(zip(pieces[::2], pieces[1::2], strict=True))
        found = {name: _AREA.search(text) for name, text in cells.items()}
        object.__setattr__(self, "areas", {name: float(area[1]) for name, area in found.items() if area})
        flip_flops = frozenset(name for name, text in cells.items() if _FLIP_FLOP.search(text))
        object.__setattr__(self, "flip_flops", flip_flops)
        if not cells:
            raise TargetError(f"{self.path} is no Liberty file: it has no cells")
        if not flip_flops:
            raise TargetError(f"{self.path} has no flip-flops: none of its {len(cells)} cells has an ff group")

    @property
    def buffer(self) -> str:
        """The cell that is taken to drive inputs: a buffer by its name, or else any."""
        return next((name for name in sorted(self.areas) if re.match(r"(CLK)?BUF", name, re.I)), next(iter(self.areas)))


@dataclass(frozen=True)
class Activity:
    """What a phase's batch did: toggles a clock cycle by net (bit by bit) and accesses a cycle by memory.

    Names are paths as in the hierarchy, without what is around the design. ``default`` is for nets that aren't known.
    """

    toggles: Mapping[str, list[float]]
    accesses: Mapping[str, float]
    default: float


@dataclass(frozen=True)
class Mapped:
    """A design in standard cells: what :func:`map_to_cells` has found."""

    design: Design
    folder: Path
    cells: Cells
    memories: tuple[tuple[str, Memory], ...]
    library: Library

    @property
    def target(self) -> Target:
        """How its cells count: areas in square micrometres (the unit of Liberty files for gates)."""
        macros = {memory.name: memory for _, memory in self.memories}
        return Target(
            name="asic", title="standard cells", family=None, passes=_PASSES,
            counted={
                "cell_area": self.library.areas,
                "memory_area": {name: memory.area_um2 for name, memory in macros.items()},
                "memory_bits": {name: memory.words * memory.width for name, memory in macros.items()},
                "ff": dict.fromkeys(self.library.flip_flops, 1), "cells": dict.fromkeys(self.library.areas, 1),
            },
        )  # fmt: skip


def map_to_cells(design: Design, library: Library, say: child.Say = lambda _: None) -> Mapped:
    """Synthesise; made now unless it is in the cache. Raises ToolError."""
    period_ps = 1e12 / design.config.clock_hz
    files = {
        "cells.lib": library.path.read_bytes(),
        "cells.constr": _CONSTRAINTS.format(buffer=library.buffer).encode(),
    }
    passes = _PASSES.format(period_ps=period_ps)
    folder = synthesise(f"asic-{design.name}", design.rtlil(None, False), passes, say, files)
    say("counting")
    root = design.scope(False)
    cells, memories = _count(folder, root)
    return Mapped(design, folder, cells, memories, library)


def _count(folder, root):
    """Cells by block, each shape of memory a type of its own; and memories, each with its block."""
    found = json.loads((folder / "netlist.json").read_text())["modules"][TOP]["cells"]
    scopes = Scopes.read(folder, root)
    counts: dict[str, Counter[str]] = {}
    memories = []
    for name, cell in found.items():
        kind, block = cell["type"], scopes.block(name)
        if kind == MACRO:
            memory = Memory.of(cell["parameters"])
            memories.append((block, memory))
            kind = memory.name
        counts.setdefault(block, Counter())[kind] += 1
    return Cells(scopes, counts), tuple(memories)


def power(mapped: Mapped, activity: Activity, say: child.Say = lambda _: None) -> dict[str, float]:
    """Watts at the configuration's clock: of cells by OpenSTA, of memories by their accesses; and the sum."""
    found = analyse(mapped.folder, mapped.library, mapped.design, activity, say).power_w
    a_cycle_pj = sum(memory.access_pj * activity.accesses.get(block, 0.0) for block, memory in mapped.memories)
    memories = a_cycle_pj * 1e-12 * mapped.design.config.clock_hz
    return {**found, "memories": memories, "total": sum(found.values()) + memories}


def figures(
    design: Design, library: Library, activities: Mapping[str, Activity] = MappingProxyType({}),
    say: child.Say = lambda _: None,
) -> dict:  # fmt: skip
    """Area, timing, and power in each of the phases whose activity is given; as :func:`.flow.run` has them.

    Raises ToolError.
    """
    mapped = map_to_cells(design, library, say)
    target = mapped.target
    timing = analyse(mapped.folder, library, design, None, say)
    resources = target.resources(mapped.cells.total())
    found = {
        "design": design.name, "variant": design.config.variant, "block": design.block, "liberty": library.path.name,
        "resources": resources, "available": {}, "harness": {}, "blocks": tree(mapped.cells, target),
        "area": round(resources["cell_area"] + resources["memory_area"]),
        "fmax_mhz": {"0": timing.fmax_mhz}, "fmax_best_mhz": timing.fmax_mhz,
        "critical_paths": {"0": timing.critical_path}, "best_seed": 0, "folder": str(mapped.folder),
        "memories": [{"block": block, **asdict(memory)} for block, memory in mapped.memories],
    }  # fmt: skip
    for phase, activity in activities.items():
        found[f"power_{phase}_w"] = power(mapped, activity, say)
    say("")
    return found
