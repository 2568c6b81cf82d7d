"""The area that each switch of the generator adds, from ``results/switches.json``, as a section of a page."""

import json
from pathlib import Path

from ...spec.config import SWITCHES
from ...spec.presets import preset
from .reference import table

__all__ = ["switch_areas"]

FAMILIES = {
    "ecp5": ("ECP5", ("lut", "ff", "ebr", "multiplier")),
    "xilinx": ("7 series", ("lut", "ff", "ramb36", "dsp48")),
}
TITLES = {"lut": "LUTs", "ff": "flip-flops", "ebr": "EBRs", "multiplier": "multipliers", "ramb36": "RAMB36",
          "dsp48": "DSP48"}  # fmt: skip
HEAD = """## Area of the switches

What each adds to a machine without any, by synthesis of preset `{name}`, {rows} x {cols} PEs (`nox -s bench_switches`).
Lanes and memories grow with the array."""


def switch_areas(folder: Path) -> str:
    """A table for each family of devices, by design and switch; "" if nothing was measured."""
    path = folder / "switches.json"
    if not path.exists():
        return ""
    written = json.loads(path.read_text())
    found, variants = written["figures"], sorted({one["variant"] for one in written["details"]["designs"]})
    sections = []
    for family, (title, resources) in FAMILIES.items():
        rows = []
        for variant in variants:
            bare = {name: found[f"{name}_{family}_{variant}_none"] for name in resources}
            rows.append((variant, "none", *(f"{bare[name]:,}" for name in resources)))
            for switch in (*SWITCHES, "all"):
                added = (found[f"{name}_{family}_{variant}_{switch}"] - bare[name] for name in resources)
                rows.append((variant, f"`{switch}`", *(f"{number:+,}" for number in added)))
        heads = ("design", "switches", *(TITLES[name] for name in resources))
        sections.append(f"{title}:\n\n{table(heads, rows)}")
    machine = preset(written["provenance"]["config"])
    head = HEAD.format(name=machine.name, rows=machine.rows, cols=machine.cols)
    return "\n\n".join((head, *sections))
