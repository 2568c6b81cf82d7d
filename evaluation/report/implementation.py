"""``docs/implementation.md``: the four designs synthesised, beside the paper's Tables 4 and 5.

``python -m adagp.evaluation.report.implementation [PATH]`` writes the file from ``results/``. It names the results that
come from other hardware or from another flow of tools. ``--check`` only says whether the committed copy is up to date,
and of the present hardware and flows.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...algorithm import paper_numbers as paper
from ...gen.provenance import NOW
from ...spec.presets import preset
from ...synth.flow import chosen
from ..benches.asic import flow as asic_flow
from ..checkout import require_checkout
from . import figures
from .added_blocks import ELSEWHERE, REASONS, added
from .artix7 import ARTIX7, artix7_section
from .cells import LIBRARIES, cells_section
from .clock_tables import LEGEND, clock, targets
from .comparison import NOT_MEASURED, Results, change, compared, number, over_the_paper_s
from .equal_area import equal_area_section
from .reference import table
from .synthesis_plot import drawn

__all__ = ["FLOWS", "PATH", "SHOWN", "SOURCES", "flows_named", "implementation", "main"]

MODULE = "adagp.evaluation.report.implementation"
PATH = Path(__file__).parents[2] / "docs" / "implementation.md"
"""The committed copy."""
_BASELINE = paper.FPGA_RESOURCES["baseline"]
SOURCES = ("xilinx", "ecp5", "artix7", "asic", "variants_vgg13", "variants_digits", "pe_formats")
"""Results that the page is made of; ``nox -s bench_NAME`` makes each."""
TARGETS = {"7 series": "xilinx", "ECP5": "ecp5"}
"""FPGAs, and the results of each."""
LARGER = "ecp5_8x8"
"""Results of 64 PEs on the ECP5."""
SHOWN = (*SOURCES, LARGER, *(name for name in (*ARTIX7, *LIBRARIES) if name not in SOURCES))
"""Those, and others that the page shows where they are there."""
FLOWS = {
    **{name: chosen(name)["flow"] for name in TARGETS.values()}, LARGER: chosen("ecp5")["flow"],
    **dict.fromkeys(ARTIX7, chosen("artix7")["flow"]),
    **dict.fromkeys(LIBRARIES, asic_flow()),
}  # fmt: skip
"""Digests of the flows at hand, for FPGAs and cells; other results record no flow."""
UNROUTED = """With seed 1, no placement of the baseline promised 100 MHz, and none was routed
([eight-by-eight-clock.md](decisions/eight-by-eight-clock.md)).
"""
LUT_TARGETS = {"baseline": 28_000, "low": 36_000, "efficient": 37_000, "max": 44_000}
"""Most LUTs that a design with 64 PEs should take there."""
PLACES = {"TRELLIS_COMB": 1, "TRELLIS_RAMW": 2}
"""Places of LUTs by nextpnr's name: a LUT has one, a write port of distributed RAM two."""

HEAD = f"""# Implementation

Written by `python -m {{module}}` from `results/` and from Tables 4 and 5 of the paper
(`algorithm/paper_numbers.py`); edit nothing here.

{figures.AS_OF}
Flows when this was written: {{flows}}.
A flow's digest covers the sources that make figures of Verilog, with part and options, or with the batches whose power
is measured. Figures of another flow, or of one that isn't recorded, are *of an earlier flow*. Results without a flow
are *current* if the hardware is the same.

Absolute numbers side by side say little. The paper doesn't define the computation of a PE; its baseline has
{_BASELINE["dsp48"]} DSP48E1 and {_BASELINE["lut"]:,} LUTs for {paper.N_PES} PEs, and on-chip memory for whole layers.
Our PEs compute in int16 block floating point, and layers are cut into tiles. So compare the additions of each design to
its own baseline, in numbers and in percent. Percentages here are rounded; the paper truncates its own."""


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
    parts = sorted({design["part"] for design in results.designs("xilinx").values() if "part" in design})
    of_part = f"Our part is an {', '.join(parts)}; the paper names no part of its Virtex 7." if parts else ""
    return f"""## Xilinx 7 series: Table 4

{results.origins("xilinx")}

{of_part}

*LUT* counts each LUT of any size as one, as Yosys makes them. It includes inverters, and LUTs that are distributed RAM
or shift registers. The paper's LUTs are Vivado's, which puts two small ones in one place. *LUT, paired* is Yosys'
estimate of that for logic, plus the inverters, distributed RAM and shift registers that *LUT* counts. Power is that of
the whole chip; no open tool reports it for this family. No open tool places a Virtex 7, so these designs' clock is
unknown; `adagp synth --target artix7` estimates that of smaller ones on an Artix-7.

{compared(rows)}

The next table divides our designs' additions by the paper's: below 1, ours add less.

{over_the_paper_s(rows)}"""


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
The table counts the LUTs that a design has more than the baseline. A block that the baseline lacks has a row of its
own, which includes all blocks inside it without a row. Additions to blocks of both designs are taken together, because
chance decides on which side of a border between blocks a LUT counts. Chance also decides about some hundred LUTs of a
whole design: the same core isn't mapped alike in two designs. `core` shows it in LOW and Efficient, whose cores have
the same sources.

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
            "*LUT* counts positions of logic, adders and distributed RAM, as synthesised; *EBR* counts block RAMs of"
            "\n18 Kbit; *multiplier* counts multipliers of 18x18 bits. All leave out the shift registers that stand for"
            "\npins. *LUT places, routed* counts the places that nextpnr takes with the best seed, including LUTs that"
            "\nonly lead a signal on and those of these registers.",
            _resources(designs),
        ]
    placed = {variant: design for variant, design in designs.items() if "fmax_mhz" in design}
    if placed:
        origin = results.read("ecp5")["provenance"]
        target_mhz, n_pes = origin["clock_hz"] / 1e6, preset(origin["config"]).n_pes
        parts += [LEGEND, targets(placed, target_mhz, n_pes), clock(placed, target_mhz)]
    return "\n\n".join(parts) + _larger(results)


def _larger(results):
    """The area of 64 PEs on the ECP5, where it is measured."""
    if not (designs := results.designs(LARGER)):
        return ""
    config = preset(results.read(LARGER)["provenance"]["config"])
    rows = []
    for variant, most in LUT_TARGETS.items():
        luts = designs[variant]["resources"]["lut"] if variant in designs else None
        reached = ("no", "yes")[luts <= most] if luts else NOT_MEASURED
        rows.append((variant, number(luts) if luts else NOT_MEASURED, number(most), reached))
    clocks = "" if any("fmax_mhz" in design for design in designs.values()) else UNROUTED
    return f"""

### {config.rows} x {config.cols} PEs

{results.origins(LARGER)}

Preset `{config.name}` is `ecp5` with {config.rows} x {config.cols} PEs, {config.epilogue_lanes} lanes in the epilogue
and one weight in {config.update_cycles} cycles in the update. Areas are as synthesised. Routing takes more places,
which the rows above have for the smaller designs.
{clocks}
{_resources(designs)}

{table(("design", "LUT, as synthesised", "at most", "reached?"), rows)}"""


def _formats(results):
    text = "The cost of one PE in each of three number formats; [pe-formats.md](pe-formats.md) has the method."
    measured = results.read("pe_formats")
    rows: dict[str, dict[str, str]] = {}
    for name, value in measured["figures"].items() if measured else ():
        stem, _, form = name.rpartition("_")
        rows.setdefault(stem, {})[form] = number(value)
    cells = [(f"`{stem}`", *(row.get(form, "") for form in figures.FORMATS)) for stem, row in rows.items()]
    found = f"\n\n{table(('a PE', *figures.FORMATS), cells)}" if cells else ""
    return f"## PEs of other formats\n\n{results.origins('pe_formats')}\n\n{text}{found}"


def implementation(
    now: Mapping[str, str] = NOW, folder: Path = figures.RESULTS, flows: Mapping[str, str] = FLOWS
) -> str:  # fmt: skip
    """Text of the document, in Markdown, as of ``now`` and ``flows``; ValueError where a block lacks a reason."""
    results = Results(folder, now, flows)
    sections = (drawn, _xilinx, _blocks, _ecp5, artix7_section, cells_section, equal_area_section, _formats)
    listed = ", ".join(f"{name} `{flow}`" for name, flow in flows.items())
    head = HEAD.format(now=figures.listed(now), module=MODULE, flows=listed)
    return "\n\n".join([head, *(section(results) for section in sections)]) + "\n"


def flows_named(text: str) -> dict[str, str]:
    """The flows that a document takes for current."""
    lines = (line for line in text.splitlines() if line.startswith("Flows when this was written: "))
    return dict(re.findall(r"(\w+) `(\w+)`", next(lines, "")))


def main(argv: Sequence[str] | None = None) -> None:
    """Write the document, or check it; exits with 1 if the check fails."""
    others = [
        title for title, origin, _ in figures.parts()
        if title in SHOWN and figures.age(origin, NOW, FLOWS.get(title)) != figures.CURRENT
    ]  # fmt: skip
    figures.command(MODULE, __doc__, PATH, implementation(NOW), others, argv)


if __name__ == "__main__":
    require_checkout()
    main()
