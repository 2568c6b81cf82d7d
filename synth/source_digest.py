"""The sources of this package that decide about figures, by which results of another flow are told."""

from pathlib import Path

from ..gen.cache import code

__all__ = ["CELLS", "CODE", "OWN", "SOURCES"]

SOURCES = ("breakdown", "design", "flow", "floorplan", "harness", "netlist", "nextpnr", "pins", "target", "yosys")
"""Modules that decide about every target's figures, besides its own."""

OWN = {"ecp5": ("ecp5", "output_registers"), "ice40": ("ice40",), "xilinx": ("xilinx",)}
"""Those of one target, by its name."""

CELLS = (
    "asic/activity", "asic/cells", "asic/liberty", "asic/power", "asic/sram", "asic/sta", "asic/truth_tables",
    "breakdown", "design", "netlist", "target", "yosys",
)  # fmt: skip
"""Those that decide about figures of standard cells."""

CODE = {
    name: code(Path(__file__).parent / f"{name}.py", imports=False)
    for name in {*SOURCES, *CELLS, *(name for own in OWN.values() for name in own)}
}
"""By module, as the process began: files may change while it runs, but what it has imported doesn't."""
