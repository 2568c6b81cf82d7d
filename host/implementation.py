"""``docs/implementation.md``: the four designs synthesised, beside the paper's Tables 4 and 5.

``python -m adagp.host.implementation [PATH]`` writes the file from ``results/``, and names the results in it that other
hardware or another flow of tools has given; ``--check`` only says whether the committed copy is up to date and of both
as they are.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..gen import figures
from ..gen.sources import HARDWARE
from ..gen.tables import table
from ..golden import paper
from ..spec.presets import preset
from ..synth.flow import chosen
from .added_blocks import ELSEWHERE, REASONS, added
from .bench_asic import flow as asic_flow
from .clock_tables import clock
from .comparison import NOT_MEASURED, Results, change, compared, number
from .equal_area import COLUMN_BLOCKS, equal_area

__all__ = ["FLOWS", "PATH", "SOURCES", "flows_named", "implementation", "main"]

MODULE = "adagp.host.implementation"
PATH = Path(__file__).parents[1] / "docs" / "implementation.md"
"""The committed copy."""
_BASELINE = paper.FPGA_RESOURCES["baseline"]
SOURCES = ("xilinx", "ecp5", "asic", "variants_vgg13", "variants_digits", "pe_formats")
"""Results that it is made of; ``adagp.host.bench_NAME`` makes each."""
TARGETS = {"7 series": "xilinx", "ECP5": "ecp5"}
"""FPGAs, and the results of each."""
FLOWS = {**{name: chosen(name)["flow"] for name in TARGETS.values()}, "asic": asic_flow()}
"""What makes figures of FPGAs and cells, as it is at hand; of other results none is recorded."""
MULTIPLIERS = {"xilinx": "dsp48", "ecp5": "multiplier"}
"""What the resource is called."""
CYCLES = {"xilinx": "variants_vgg13", "ecp5": "variants_digits"}
"""Where the cycles of the same preset are measured."""
PLACES = {"TRELLIS_COMB": 1, "TRELLIS_RAMW": 2}
"""What nextpnr calls a place of a LUT; and a write port of distributed RAM, which has those of two."""

HEAD = f"""# Implementation

Written by `python -m {{module}}` from `results/` and from Tables 4 and 5 of the paper
(`golden/paper.py`); edit nothing here.

{figures.AS_OF}
Flows when this was written: {{flows}};
digests of the sources that make figures of Verilog, with part and options, or with the batches whose power is told.
Figures of these that another has made, or one not recorded, are *of an earlier flow*; the other results record none,
and *current* says of them only that the hardware is the same.

Absolute numbers say little side by side. The paper doesn't say what a PE computes; its baseline has
{_BASELINE["dsp48"]} DSP48E1 and {_BASELINE["lut"]:,} LUTs for {paper.N_PES} PEs, and on-chip memory for whole layers.
Ours compute in int16 block floating point, and layers are cut into tiles. So what counts is what each design adds to
its own baseline, in numbers and in percent. Percentages here are rounded; the paper's text cuts its own off."""


def _column(found, name):
    """A column of one of the paper's tables."""
    return {variant: row[name] for variant, row in found.items()}


def _xilinx(results):
    """Table 4."""
    names = {"lut": "LUT", "ff": "FF", "ramb36": "RAMB36", "ramb18": "RAMB18", "dsp48": "DSP48E1"}
    rows = [
        (label, results.of("xilinx", lambda design, name=name: design["resources"][name]),
         _column(paper.FPGA_RESOURCES, name))
        for name, label in names.items()
    ]  # fmt: skip
    if paired := results.of("xilinx", lambda design: design["luts_estimated"]):
        rows.insert(1, ("LUT, paired", paired, {}))
    rows.append(("power, W", {}, _column(paper.FPGA_POWER_W, "total")))
    return f"""## Xilinx 7 series: Table 4

{results.origins("xilinx")}

*LUT* counts LUTs of any size one each, as Yosys makes them, inverters too, and those that are distributed RAM or shift
registers; the paper's are Vivado's, which puts two small ones in one place. *LUT, paired* is Yosys' estimate of that
for logic; inverters, distributed RAM and shift registers are added to it, as many as in *LUT*. Power is all of it on
chip; no open tool tells it for this family.

{compared(rows)}"""


def _blocks(results):
    """LUTs by block that each design adds, and why."""
    columns = {}
    for title, name in TARGETS.items():
        designs = results.designs(name)
        for variant in (variant for variant in designs if variant != "baseline"):
            heading = f"{title}, {variant}"
            columns[heading] = added(designs[variant]["blocks"], designs["baseline"]["blocks"], heading)
    known = [block for block in sorted(REASONS) if any(column.get(block) for column in columns.values())]
    rows = [
        (f"`{block}`" if block else "elsewhere",
         *(number(column[block], "+") if block in column else "" for column in columns.values()), REASONS[block])
        for block in sorted(known, key=lambda block: block == ELSEWHERE)
    ]  # fmt: skip
    rows.append(("all", *(number(sum(column.values()), "+") for column in columns.values()), ""))
    text = f"""
LUTs that a design has more than the baseline. A block that the baseline lacks has a row of its own, with all inside it
that has none; what blocks of both have more is taken together, for which side of a border between blocks a LUT counts
with is by chance. So are some hundred LUTs of a whole design: the same core, synthesised in two designs, isn't mapped
alike, as `core` shows in LOW and Efficient, whose cores have the same sources.

{table(("block", *columns, "why"), rows)}"""
    return f"## Blocks that the designs add\n\n{results.origins(*TARGETS.values())}\n{text if columns else ''}".rstrip()


def _resources(designs):
    """Resources on ECP5, with shares of the part."""
    rows = []
    for name, label in {"lut": "LUT", "ff": "FF", "ebr": "EBR", "multiplier": "multiplier"}.items():
        values = {variant: design["resources"][name] for variant, design in designs.items()}
        for variant, design in designs.items():
            share = f"{100 * values[variant] / design['available'][name]:.1f}"
            rows.append((label, variant, number(values[variant]), share, *change(values, variant)))
    for variant, design in designs.items():
        if "utilisation" in design:
            used = sum(luts * design["utilisation"][kind][0] for kind, luts in PLACES.items())
            share = f"{100 * used / design['available']['lut']:.1f}"
            rows.append(("LUT places, routed", variant, number(used), share, "", ""))
    return table(("", "design", "taken", "of the part, %", "added", "added, %"), rows)


def _ecp5(results):
    designs = results.designs("ecp5")
    parts = ["## Lattice ECP5", results.origins("ecp5")]
    if designs:
        parts += [
            "*LUT*: positions of logic, adders and distributed RAM, as synthesised; *EBR*: block RAMs of 18 Kbit;"
            "\n*multiplier*: of 18x18 bits: all without the shift registers that stand for pins. *LUT places, routed*:"
            " what\nnextpnr takes of the device with the best seed, with LUTs that only lead a signal on and those of"
            " these registers.",
            _resources(designs),
        ]
    placed = {variant: design for variant, design in designs.items() if "fmax_mhz" in design}
    if placed:
        parts.append(clock(placed, results.read("ecp5")["provenance"]["clock_hz"] / 1e6))
    return "\n\n".join(parts)


def _asic(results):
    """Table 5."""
    watts = {variant: value * 1e-6 for variant, value in _column(paper.ASIC_POWER_UW, "total").items()}
    designs = results.designs("asic")
    drawn = {
        phase: {variant: d[f"power_{phase}_w"]["total"] for variant, d in designs.items() if f"power_{phase}_w" in d}
        for phase in ("bp", "gp")
    }
    in_gp = drawn["gp"] and {**drawn["gp"], "baseline": drawn["bp"]["baseline"]}
    theirs = {name: _column(paper.ASIC_AREA, name) for name in ("cells", "interconnect", "total")}
    rows = [
        ("cells", results.of("asic", lambda design: design["resources"]["cell_area"]), theirs["cells"]),
        ("interconnect", {}, theirs["interconnect"]),
        ("cells and interconnect", {}, theirs["total"]),
        ("cells and memories", results.of("asic", lambda design: design["area"]), {}),
        ("power in BP, W", drawn["bp"], watts), ("power in GP, W", in_gp, watts),
    ]  # fmt: skip
    measured = results.read("asic")
    ours = f", and ours {preset(measured['provenance']['config']).n_pes}" if measured else ""
    if memories := results.of("asic", lambda design: design["resources"]["memory_area"]):
        rows.insert(1, ("memories", memories, {}))
    return f"""## Standard cells: Table 5

{results.origins("asic")}

This is another machine than the paper's, which has {paper.N_PES} PEs{ours}: the smaller an array, the more weighs what
ADA-GP adds beside it. Areas: ours in square micrometres, the paper's without a unit. Our cells have no wires between
them, so there is no interconnect, and no clock tree. Compare cells with cells. Our memories aren't synthesised but
counted by the model of `synth/memories.py`, in area and in power; the paper doesn't say what it has of them. Power:
ours at the preset's clock, in a batch with backpropagation (BP) and in one with predicted gradients (GP); the baseline
has batches of the first kind alone, and what the others draw in GP is compared with that. The paper has one figure for
both.

{compared(rows)}"""


def _bargains(results):
    """Columns for the FPGAs on which baseline and MAX are measured."""
    columns = {}
    for title, name in TARGETS.items():
        designs = results.designs(name)
        if "max" not in designs:
            continue
        config = preset(results.read(name)["provenance"]["config"])
        cycles = results.read(CYCLES[name])
        gain = cycles["figures"]["speedup_max"] if cycles else None
        clocks = [designs[variant].get("fmax_median_mhz") for variant in ("max", "baseline")]
        timed = gain * clocks[0] / clocks[1] if gain and all(clocks) else None
        area = equal_area(designs, MULTIPLIERS[name], config.n_pes)
        columns[f"{title}, `{config.name}`"] = (
            number(area.n_pes), f"{area.luts_a_pe:,.1f}", f"{area.multipliers_a_pe:,.2f}", number(area.luts, "+"),
            number(area.multipliers, "+"), number(area.by_luts), number(area.by_both),
            *(f"{area.speedup(more):,.2f}" for more in (area.by_luts, area.by_both)),
            *(f"{ratio:,.2f}" if ratio else NOT_MEASURED for ratio in (gain, timed)),
        )  # fmt: skip
    return columns


def _equal_area(results):
    columns = _bargains(results)
    names = (
        "PEs of the baseline", "LUTs a PE", "multipliers a PE", "LUTs that MAX adds", "multipliers that MAX adds",
        "more PEs for these LUTs", "more PEs for these LUTs and multipliers", "speed-up at best, for these LUTs",
        "speed-up at best, for these LUTs and multipliers", "speed-up of MAX, in measured cycles",
        "speed-up of MAX, each at its median clock",
    )  # fmt: skip
    text = f"\n{table(('', *columns), zip(names, *columns.values(), strict=True))}\n" if columns else ""
    least, most = (100 * of(paper.EQUAL_AREA_SPEEDUP.values()) for of in (min, max))
    return f"""## The baseline with MAX's area

{results.origins(*(name for pair in CYCLES.items() for name in pair))}

What if the baseline had more PEs for what MAX adds? One more is taken to cost the baseline's LUTs of the array and of
what its columns end in ({", ".join(f"`{block}`" for block in COLUMN_BLOCKS)}),
over its PEs, and the array's multipliers over its PEs. What fetches operands and moves results is taken to serve a
larger array as it is, and memories to be large enough. The larger array is as much faster as it has more PEs, at best:
layers don't always fill it, and it may wait for memory. MAX's speed-up is measured, by the paper's schedule: VGG13's
with `paper`, the digits CNN's with `ecp5`. It is in cycles, so it is one in time only at equal clocks, which the paper
assumes; where clocks are measured, the last row has what is left of it at each design's own.
{text}
The paper gives its baseline {100 * paper.EQUAL_AREA_PES:.0f} % more PEs for MAX's area in standard cells, and a mean
speed-up of {least:.1f} to {most:.1f} %."""


def _formats(results):
    text = "What one PE takes in each of three number formats: [pe-formats.md](pe-formats.md)."
    return f"## PEs of other formats\n\n{results.origins('pe_formats')}\n\n{text}"


def implementation(
    hardware: str = HARDWARE, folder: Path = figures.RESULTS, flows: Mapping[str, str] = FLOWS
) -> str:  # fmt: skip
    """Text of the document, in Markdown, as of ``hardware`` and ``flows``; ValueError where a block lacks a reason."""
    results = Results(folder, hardware, flows)
    sections = (_xilinx, _blocks, _ecp5, _asic, _equal_area, _formats)
    listed = ", ".join(f"{name} `{flow}`" for name, flow in flows.items())
    head = HEAD.format(hardware=hardware, module=MODULE, flows=listed)
    return "\n\n".join([head, *(section(results) for section in sections)]) + "\n"


def flows_named(text: str) -> dict[str, str]:
    """The flows that a document takes for current."""
    lines = (line for line in text.splitlines() if line.startswith("Flows when this was written: "))
    return dict(re.findall(r"(\w+) `(\w+)`", next(lines, "")))


def main(argv: Sequence[str] | None = None) -> None:
    """Write the document, or check it; exits with 1 if the check fails."""
    others = [
        title for title, origin, _ in figures.parts()
        if title in SOURCES and figures.age(origin, HARDWARE, FLOWS.get(title)) != "Current"
    ]  # fmt: skip
    figures.command(MODULE, __doc__, PATH, implementation(), others, argv)


if __name__ == "__main__":
    main()
