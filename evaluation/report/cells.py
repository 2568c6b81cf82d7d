"""The section of ``docs/implementation.md`` about standard cells, one library after the other, beside Table 5."""

from collections.abc import Mapping

from ...algorithm import paper_numbers as paper
from ...spec.presets import preset
from .comparison import NOT_MEASURED, Results, compared
from .reference import table

__all__ = ["LIBRARIES", "cells_section"]

LIBRARIES = {"asic": "osu018", "asic_sg13g2": "SG13G2", "asic_sky130": "SKY130HD"}
"""Libraries of cells, by the name of their results."""

PROCESSES = {
    "asic": "180 nm, 1.8 V, without a cell for a clock gate: clock pins of flip-flops switch in every cycle",
    "asic_sg13g2": "130 nm, 1.2 V, with clock gates",
    "asic_sky130": "130 nm, 1.8 V, with clock gates",
}

MOST_ADDED = {"low": 4.0, "efficient": 6.0, "max": 12.0}
"""Percent of the baseline's cells that a design should add at most, where there are enough PEs to compare it with."""
FEWEST_PES = 64
"""PEs from which on the targets hold."""


def _powers(designs: Mapping[str, Mapping], phase: str) -> dict[str, float]:
    return {variant: d[f"power_{phase}_w"]["total"] for variant, d in designs.items() if f"power_{phase}_w" in d}


def _of_table_5(results: Results, name: str) -> str:
    """A library's designs beside the paper's."""
    designs = results.designs(name)
    watts = {variant: row["total"] * 1e-6 for variant, row in paper.ASIC_POWER_UW.items()}
    theirs = {
        part: {variant: row[part] for variant, row in paper.ASIC_AREA.items()}
        for part in ("cells", "interconnect", "total")
    }
    in_bp, in_gp = (_powers(designs, phase) for phase in ("bp", "gp"))
    if in_gp and "baseline" in in_bp:
        in_gp = {**in_gp, "baseline": in_bp["baseline"]}
    rows: list[tuple[str, Mapping[str, float], Mapping[str, float]]] = [
        ("cells", results.of(name, lambda design: design["resources"]["cell_area"]), theirs["cells"]),
        ("interconnect", {}, theirs["interconnect"]),
        ("cells and interconnect", {}, theirs["total"]),
        ("cells and memories", results.of(name, lambda design: design["area"]), {}),
        ("clock, MHz, of gates alone", results.of(name, lambda design: design["fmax_best_mhz"]), {}),
        ("power in BP, W", in_bp, watts), ("power in GP, W", in_gp, watts),
    ]  # fmt: skip
    if memories := results.of(name, lambda design: design["resources"]["memory_area"]):
        rows.insert(1, ("memories", memories, {}))
    return compared(rows)


def _parts_of_power(designs: Mapping[str, Mapping]) -> str:
    """Parts of the power of each design and kind of batch."""
    parts = ("clock", "data", "leakage", "memories", "total")
    rows = [
        (variant, phase.upper(), *(f"{found[part]:.4g}" for part in parts), _percent(found.get("clock_open")))
        for variant, design in designs.items() for phase in ("bp", "gp")
        if (found := design.get(f"power_{phase}_w")) and all(part in found for part in parts)
    ]  # fmt: skip
    if not rows:
        return ""
    head = ("ours, W", "batch", "clock pins", "data", "leakage", "memories", "all", "clocks that tick, %")
    return f"\n\n{table(head, rows)}"


def _targets(designs: Mapping[str, Mapping]) -> str:
    """A table of added cells against their targets, and of power in GP against that in BP."""
    rows = []
    for variant, most in MOST_ADDED.items():
        if variant not in designs:
            continue
        base, cells = (designs[name]["resources"]["cell_area"] for name in ("baseline", variant))
        added = 100 * (cells - base) / base
        bp, gp = (_powers(designs, phase).get(variant) for phase in ("bp", "gp"))
        less = (f"{100 * (gp / bp - 1):+.1f}", ("no", "yes")[gp < bp]) if bp and gp else (NOT_MEASURED, "")
        rows.append((variant, f"{added:+.2f}", f"{most:g}", ("no", "yes")[added <= most], *less))
    head = "design", "more cells, %", "at most", "reached?", "power in GP against its own in BP, %", "less?"
    return f"\n\nOur targets for cells, and the powers of each design compared:\n\n{table(head, rows)}" if rows else ""


def _percent(share: float | None) -> str:
    return "not counted" if share is None else f"{100 * share:.1f}"


def _library(results: Results, name: str) -> str:
    """A library's part of the section."""
    measured = results.read(name)
    n_pes = preset(measured["provenance"]["config"]).n_pes if measured else 0
    said = f"{PROCESSES[name]}.{f' Our designs have {n_pes} PEs.' if n_pes else ''}"
    if measured and name in results.flows and measured["provenance"].get("flow") != results.flows[name]:
        said += " These results are of an earlier flow: memories may have been counted by another formula."
    designs = results.designs(name)
    reached = _targets(designs) if n_pes >= FEWEST_PES else ""
    shown = f"{_of_table_5(results, name)}{reached}{_parts_of_power(designs)}"
    return f"### {LIBRARIES[name]}\n\n{results.origins(name)}\n\n{said}\n\n{shown}"


def cells_section(results: Results) -> str:
    """The section: the library that is installed with a tool, and all others that are measured."""
    first, *others = LIBRARIES
    shown = [first, *(name for name in others if results.read(name))]
    their_head = ("the paper's, W", "internal", "switching", "leakage", "all")
    theirs = [
        (variant, *(f"{1e-6 * row[part]:.4g}" for part in ("internal", "switching", "leakage", "total")))
        for variant, row in paper.ASIC_POWER_UW.items()
    ]
    return f"""## Standard cells: Table 5

This is another machine than the paper's, which has {paper.N_PES} PEs. In a smaller array ADA-GP's additions weigh more.
Our areas are in square micrometres; the paper gives its own without a unit. Our cells have no wires between them, so
there is no interconnect, and no clock tree. Compare cells with cells. Our memories aren't synthesised: the model of
`synth/asic/sram.py` gives their area and power. The paper doesn't say which memories it has.

Our power is at the preset's clock, in a batch with backpropagation (BP) and in one with predicted gradients (GP). The
baseline has only batches of the first kind; the others' power in GP is compared with that. The paper has one figure
for both. Our power has these parts: clock pins of flip-flops; data, by the signals that toggle in the batch; leakage,
which is most of the power in the paper's; and accesses to memories. *Clocks that tick* is the mean share of cycles in
which a flip-flop's clock does: where the library has a clock gate, ours have them
([clock-gates-in-cells.md](decisions/clock-gates-in-cells.md)).

{table(their_head, theirs)}

{(chr(10) * 2).join(_library(results, name) for name in shown)}"""
