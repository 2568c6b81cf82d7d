"""The tables of ``adagp synth``: resources of designs side by side, and block by block."""

from rich.console import Console
from rich.table import Table

__all__ = ["show"]

OTHERS = {
    "area": "area, square micrometres", "luts_estimated": "LUTs when paired, estimated",
    "fmax_median_mhz": "Fmax, median of seeds, MHz",
    "fmax_best_mhz": "Fmax, best seed, MHz",
}  # fmt: skip
"""Figures of a design besides its resources."""
CELLS = {"area": OTHERS["area"], "fmax_best_mhz": "Fmax, MHz"}
"""Figures of a design in standard cells."""
LATE_SHOWN = 20
"""Blocks that are shown of those with data later than the clock."""
SHOWN = 0.01
"""Share of the whole that a block must have of some resource to be shown."""


def _resources(found: list[dict]) -> Table:
    """Resources that each design takes, and those of the part."""
    available = found[0]["available"]
    table = Table("resource", *(design["design"] for design in found), *(["available"] if available else []))
    for resource in found[0]["resources"]:
        if not any(design["resources"][resource] for design in found) and resource not in available:
            continue
        cells = []
        for design in found:
            used = design["resources"][resource]
            share = f" ({used / available[resource]:.1%})" if resource in available else ""
            cells.append(f"{used:,}{share}")
        there = [f"{available[resource]:,}" if resource in available else ""] if available else []
        table.add_row(resource, *cells, *there)
    for key, label in (CELLS if found[0].get("memories") is not None else OTHERS).items():
        if any(key in design for design in found):
            values = (f"{design[key]:,}" if key in design else "" for design in found)
            table.add_row(label, *values, *([""] if available else []))
    if any(design.get("unrouted") for design in found):
        seeds = (", ".join(design.get("unrouted", ())) or "none" for design in found)
        table.add_row("seeds without a route, 0 MHz", *seeds, *([""] if available else []))
    if any(design.get("failed") for design in found):
        seeds = (", ".join(design.get("failed", ())) or "none" for design in found)
        table.add_row("seeds whose tool failed, not counted", *seeds, *([""] if available else []))
    for phase in ("bp", "gp"):
        if any(f"power_{phase}_w" in design for design in found):
            watts = [design.get(f"power_{phase}_w") for design in found]
            table.add_row(f"power in {phase.upper()}, W", *(f"{w['total']:.4g}" if w else "" for w in watts))
    if not found[0].get("memories_counted", True):
        table.caption = (
            "Area and power are of cells alone: the library's process, by which memories count, isn't known."
        )
    if any(found[0]["harness"].values()):
        rows = ", ".join(f"{number:,} {name}" for name, number in found[0]["harness"].items() if number)
        table.caption = f"Not counted: the pin harness of {found[0]['design']}, {rows}."
    return table


def _blocks(rows: dict, whole: dict, depth: int, signed: bool = False) -> Table:
    """A tree of blocks with their resources."""
    from ...synth.breakdown import worth_showing  # here, because Amaranth takes a while to import

    resources = [name for name, number in whole.items() if number]
    rows = {block: row for block, row in rows.items() if not block or block.count(".") < depth}
    table = Table(box=None)
    table.add_column("block", no_wrap=True, min_width=max(len(block.rpartition(".")[2]) for block in rows) + 8)
    for name in resources:
        table.add_column(name, justify="right")
    for block, row in worth_showing(rows, whole, SHOWN, tuple(resources)).items():
        name = "  " * (block.count(".") + 1) + block.rpartition(".")[2] if block else "all"
        table.add_row(name, *(f"{row[r]:+,}" if signed else f"{row[r]:,}" for r in resources))
    return table


def _late(blocks: dict) -> Table:
    """Blocks with the most late data."""
    table = Table("block", box=None)
    for title in ("inputs", "late", "worst, ns"):
        table.add_column(title, justify="right")
    for block, row in list(blocks.items())[:LATE_SHOWN]:
        table.add_row(f"  {block or '(top)'}", f"{row['endpoints']:,}", f"{row['late']:,}", f"{row['worst_ns']:.2f}")
    return table


def _critical(console: Console, design: dict) -> None:
    """The critical path, with the best seed where there are any, and which paths are the pin harness' own."""
    from ...synth.netlist import HARNESS  # here, because Amaranth takes a while to import

    name, best, paths = design["design"], str(design["best_seed"]), design["critical_paths"]
    seeds = "fmax_median_mhz" in design  # standard cells have none
    if seeds:
        mhz = ", ".join(f"{seed}: {mhz:g}" for seed, mhz in design["fmax_mhz"].items())
        console.print(f"{name}: MHz by seed: {mhz}", highlight=False)
    console.print(f"{name}: critical path" + (f" of seed {best}" if seeds else ""))
    for step in paths[best]:
        logic, routing = f"logic {step['logic_ns']:.2f} ns", f"routing {step['routing_ns']:.2f} ns"
        console.print(f"  {step['block'] or '(top)'}: {logic}, {routing}", highlight=False)
    if outside := [seed for seed, path in paths.items() if any(step["block"] == HARNESS for step in path)]:
        console.print(
            f"  Critical paths of seeds {', '.join(outside)} are to or from the pin harness, which isn't part of the"
            " block: it may be faster than that.", soft_wrap=True,
        )  # fmt: skip


def show(found: list[dict], depth: int) -> None:
    """Print resources, frequencies and critical paths of designs, and what is in the first and others have more.

    Tables are never cut: where the terminal is narrower, their lines wrap.
    """
    from ...synth.breakdown import difference
    from .added_blocks import plain

    console = Console()

    def print_table(table):
        wide = console.measure(table, options=console.options.update(max_width=1000)).maximum
        Console(width=max(console.width, wide)).print(table)

    print_table(_resources(found))
    first = found[0]
    if "note" in first:
        console.print(first["note"], soft_wrap=True, highlight=False)
    for design in found:
        if "critical_paths" in design:
            _critical(console, design)
        if design.get("late"):
            console.print(f"{design['design']}: data later than the clock's period, with seed {design['best_seed']}")
            print_table(_late(design["late"]))
    if len(first["blocks"]) > 1:
        console.print(f"\n{first['design']}, by block")
        print_table(_blocks(first["blocks"], first["resources"], depth))
    for design in found[1:]:
        more = difference(plain(design["blocks"]), plain(first["blocks"]))
        title = f"{design['design']} - {first['design']}, by block"
        whole = {name: max(design["resources"][name], first["resources"][name]) for name in first["resources"]}
        console.print(f"\n{title}" if more else f"\n{title}: the same")
        if more:
            print_table(_blocks(more, whole, depth, signed=True))
