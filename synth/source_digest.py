"""Digests of the sources here that affect figures; they detect results of another version of the flow."""

from pathlib import Path

from ..gen.cache import code

__all__ = ["CELLS", "CODE", "OWN", "SOURCES"]

SOURCES = ("breakdown", "design", "flow", "floorplan", "harness", "netlist", "nextpnr", "pins", "target", "yosys")
"""Modules that affect the figures of every target."""

OWN = {"ecp5": ("ecp5", "output_registers"), "ice40": ("ice40",), "xilinx": ("xilinx",), "artix7": ("xilinx",)}
"""Further modules that affect one target's figures, by the target's name."""

CELLS = (
    "asic/activity", "asic/cells", "asic/gates", "asic/gating", "asic/liberty", "asic/power", "asic/sram",
    "asic/sta", "asic/truth_tables", "breakdown", "design", "netlist", "target", "yosys",
)  # fmt: skip
"""Modules that affect figures of standard cells."""

CODE = {
    name: code(Path(__file__).parent / f"{name}.py", imports=False)
    for name in {*SOURCES, *CELLS, *(name for own in OWN.values() for name in own)}
}
"""Code of each module as this process began. Files may change while it runs, but its imports don't."""
