"""Standard cells: area by Yosys and ABC, timing by OpenSTA, power by the tables of a Liberty file of the user's choice.

The default, osu018, is Oklahoma State University's library for TSMC's 180 nm, as Debian has it in qflow-tech-osu018.
Blocks are mapped one by one, so each cell is of the block it was written in. Nets have no wires and the clock no tree:
delays and power are those of gates and their pins alone. Clock gates are there if the library has a cell for them.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .. import process
from ..breakdown import tree
from ..design import Design
from ..netlist import Cells, Scopes
from ..target import Target
from ..yosys import TOP, synthesise
from . import gating
from .activity import Activity
from .gates import Gates
from .liberty import LIBERTY, PROCESSES, Library
from .power import watts
from .sram import LEAST, Memory
from .sta import analyse

__all__ = ["LIBERTY", "PROCESSES", "Library", "Mapped", "figures", "map_to_cells", "power"]

MACRO = "adagp_memory"
_PASSES = f"""\
read_liberty -lib cells.lib
{{module}}
hierarchy -top {TOP}
synth -top {TOP} -run begin:fine
select -set deep t:$mem_v2 r:SIZE>={LEAST} %i r:WR_PORTS>0 %i
chtype -set {MACRO} @deep
select -clear
synth -run fine:check
setattr -unset init w:*
{{gates}}
dfflibmap -liberty cells.lib
abc -liberty cells.lib -constr cells.constr -D {{period_ps:.0f}}
opt_clean
flatten"""
LOAD_FF = 50.0
"""On each output, in femtofarads, ABC's unit: some inputs of gates."""
_CONSTRAINTS = f"set_driving_cell {{buffer}}\nset_load {LOAD_FF:g} [all_outputs]\n"


@dataclass(frozen=True)
class Mapped:
    """A design in standard cells: what :func:`map_to_cells` has found."""

    design: Design
    folder: Path
    cells: Cells
    memories: tuple[tuple[str, Memory], ...]
    """With their paths."""
    library: Library

    @property
    def target(self) -> Target:
        """Technology of these cells; areas are in square micrometres, the unit of Liberty files for gates."""
        macros = {memory.name: memory for _, memory in self.memories}
        gates = {self.library.gate.name: 1} if self.library.gate else {}
        return Target(
            name="asic", title="standard cells", family=None, passes=_PASSES,
            counted={
                "cell_area": self.library.areas,
                "memory_area": {name: memory.area_um2 for name, memory in macros.items()},
                "memory_bits": {name: memory.words * memory.width for name, memory in macros.items()},
                "ff": dict.fromkeys(self.library.flip_flops, 1), "clock_gates": gates,
                "cells": dict.fromkeys(self.library.areas, 1),
            },
        )  # fmt: skip


def map_to_cells(design: Design, library: Library, say: process.Say = lambda _: None) -> Mapped:
    """Synthesise; made now unless it is in the cache. Raises ToolError."""
    period_ps = 1e12 / design.config.clock_hz
    files = {
        "cells.lib": library.path.read_bytes(),
        "cells.constr": _CONSTRAINTS.format(buffer=library.buffer).encode(),
    }
    module = gates = ""
    if library.gate:
        files |= {gating.FILE: gating.module(library.gate).encode(), gating.ENABLES: gating.enables().encode()}
        module, gates = f"read_verilog {gating.FILE}", gating.adding(library.gate)
    passes = _PASSES.format(period_ps=period_ps, module=module, gates=gates)
    rtlil = design.rtlil(None, False, gated=library.gate is not None)
    folder = synthesise(f"asic-{design.name}", rtlil, passes, say, files)
    say("counting")
    root = design.scope(False)
    cells, memories = _count(folder, root, library)
    return Mapped(design, folder, cells, memories, library)


def _count(folder, root, library):
    """Cells by block, each shape of memory a type of its own; and memories, each with its path."""
    found = json.loads((folder / "netlist.json").read_text())["modules"][TOP]["cells"]
    scopes = Scopes.read(folder, root)
    counts: dict[str, Counter[str]] = {}
    memories = []
    for name, cell in found.items():
        kind, block = cell["type"], scopes.block(name)
        if kind == MACRO:
            memory = Memory.of(cell["parameters"], library.nm, library.volts)
            path = f"{block}.{cell['parameters']['MEMID']}".replace("\\", "").lstrip(".")
            memories.append((path, memory))
            kind = memory.name
        counts.setdefault(block, Counter())[kind] += 1
    return Cells(scopes, counts), tuple(memories)


def power(mapped: Mapped, activities: Mapping[str, Activity]) -> dict[str, dict[str, Any]]:
    """Watts by phase at the configuration's clock: of cells by kind, of memories by their accesses; and the sum.

    ``clock_open`` is the share of cycles in which a flip-flop's clock ticks, ``clock_if_open`` the watts of clocks if
    all gates were open. ``activity_known`` is the share of flip-flops whose activity is known, ``activity_estimated``
    that of memories' words among them. ``blocks`` has the watts of each block with all inside it. Raises ToolError.
    """
    gates = Gates(mapped.folder, mapped.library)
    hertz = mapped.design.config.clock_hz
    found: dict[str, dict[str, Any]] = {}
    for phase, activity in activities.items():
        parts, share, of_cells = watts(gates, mapped.design, activity)
        memories = {
            path: memory.access_pj * activity.accesses_of(path) * 1e-12 * hertz for path, memory in mapped.memories
        }
        parts["memories"] = sum(memories.values())
        owned: dict[str, float] = defaultdict(float)
        for kind, each in of_cells.items():
            for name, drawn in zip(gates.names[kind], each.tolist(), strict=True):
                owned[mapped.cells.scopes.block(name)] += drawn
        for path, drawn in memories.items():
            owned[path.rpartition(".")[0]] += drawn
        found[phase] = {**parts, "total": sum(parts.values()), **share, "blocks": _with_those_inside(owned)}
    return found


def _with_those_inside(owned):
    """Sums by block, each with those of the blocks inside it; "" is the whole design."""
    found: dict[str, float] = {"": 0.0}
    for block, value in owned.items():
        parts = block.split(".") if block else []
        for level in range(len(parts) + 1):
            path = ".".join(parts[:level])
            found[path] = found.get(path, 0.0) + value
    return found


def figures(
    design: Design, library: Library, activities: Mapping[str, Activity] = MappingProxyType({}),
    say: process.Say = lambda _: None,
) -> dict:  # fmt: skip
    """Area, timing, and power in each of the phases whose activity is given; as :func:`.flow.run` has them.

    Unless ``memories_counted``, areas and powers are those of cells alone, since the library's process isn't known: of
    memories there are the bits. Raises ToolError.
    """
    mapped = map_to_cells(design, library, say)
    target = mapped.target
    timing = analyse(mapped.folder, library, design, say)
    resources = target.resources(mapped.cells.total())
    found = {
        "design": design.name, "variant": design.config.variant, "block": design.block, "liberty": library.path.name,
        "resources": resources, "available": {}, "harness": {}, "blocks": tree(mapped.cells, target),
        "area": round(resources["cell_area"] + resources["memory_area"]),
        "fmax_mhz": {"0": timing.fmax_mhz}, "fmax_best_mhz": timing.fmax_mhz,
        "critical_paths": {"0": timing.critical_path}, "best_seed": 0, "folder": str(mapped.folder),
        "memories": [{"path": path, **asdict(memory)} for path, memory in mapped.memories],
        "memories_counted": library.nm is not None,
    }  # fmt: skip
    if activities:
        say("power")
        found |= {f"power_{phase}_w": parts for phase, parts in power(mapped, activities).items()}
    say("")
    return found
