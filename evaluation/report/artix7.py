"""Designs placed and routed on an Artix-7 by open tools, as a section of ``docs/implementation.md``."""

from collections.abc import Mapping

from .clock_tables import NOT_RECORDED
from .comparison import Results, number
from .reference import table

__all__ = ["ARTIX7", "artix7_section"]

ARTIX7 = ("artix7", "artix7_xc7a100t")
"""Results of preset ``tiny``, and of the one with 8 x 8 PEs, which is shown where it is measured."""
_RESOURCES = {"lut": "LUT", "ff": "FF", "ramb36": "RAMB36", "ramb18": "RAMB18", "dsp48": "DSP48E1"}
TEXT = """`nextpnr-himbaechel-xilinx` places and routes these designs. Their clocks are an open estimate: the tool knows
no speed grade, and it times no path through a DSP48E1. Its router finds no end for LUTs that are memories or shift
registers, so the netlists have none, and take more LUTs and flip-flops than those above. LUTs of any size count one."""


def _row(config: str, variant: str, design: Mapping) -> tuple[str, ...]:
    resources = (number(design["resources"][name]) for name in _RESOURCES)
    clocks = "; ".join(f"{seed}: {mhz:,.1f}" for seed, mhz in design.get("fmax_mhz", {}).items())
    clocks += "".join(f"; {seed}: no route" for seed in design.get("unrouted", ()))
    return f"`{config}`", variant, design.get("part", NOT_RECORDED), *resources, clocks.removeprefix("; ") or "none"


def artix7_section(results: Results) -> str:
    """Resources and clocks of the designs that are measured."""
    smaller, larger = ARTIX7
    shown = (smaller, larger) if results.read(larger) else (smaller,)
    rows = []
    for name in shown:
        if found := results.read(name):
            config = found["provenance"]["config"]
            rows += [_row(config, variant, design) for variant, design in results.designs(name).items()]
    head = ("preset", "design", "part", *_RESOURCES.values(), "clock by seed, MHz")
    return "\n\n".join(("## Artix-7 by open tools", results.origins(*shown), TEXT, *[table(head, rows)] * bool(rows)))
