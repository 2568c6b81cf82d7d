"""A batch project for Vivado, which places and routes all of Xilinx' 7 series; open tools do a few parts."""

from pathlib import Path

from ..gen.verilog import Vendor, generate
from .design import BLOCKS, WHOLE, Design
from .xilinx import XILINX

__all__ = ["project"]

_CONSTRAINTS = """\
# {mhz:g} MHz, the clock of preset {preset}.
create_clock -name clk -period {period:.3f} [get_ports clk]
# Out of context nothing says where the clock comes from; as from a buffer in the middle of the device.
set_property HD.CLK_SRC BUFGCTRL_X0Y0 [get_ports clk]
"""

_SCRIPT = """\
# vivado -mode batch -source run.tcl
set folder [file dirname [file normalize [info script]]]
set reports $folder/reports
file mkdir $reports
set_part {part}
read_verilog $folder/top.v
read_xdc $folder/adagp.xdc
# Out of context: the design has more ports than the package has pins, and they are to go to other logic anyway.
synth_design -top adagp -part {part} -mode out_of_context -flatten_hierarchy rebuilt
write_checkpoint -force $reports/synthesised.dcp
report_utilization -hierarchical -file $reports/synthesised_by_block.txt
opt_design
place_design
phys_opt_design
route_design
write_checkpoint -force $reports/routed.dcp
report_utilization -file $reports/utilisation.txt
report_utilization -hierarchical -file $reports/by_block.txt
report_timing_summary -max_paths 10 -file $reports/timing.txt
report_power -file $reports/power.txt
set slack [get_property SLACK [get_timing_paths -max_paths 1 -setup]]
puts [format "Fmax %.1f MHz (slack %.3f ns at {period:.3f} ns)" [expr {{1000.0 / ({period:.3f} - $slack)}}] $slack]
"""

_README = """\
# {name} for Vivado

`vivado -mode batch -source run.tcl` synthesises, places and routes it for {part}, out of context, and writes
utilisation (in all and by block), timing and power to `reports/`; the last line it prints is the highest frequency.

* `top.v`: the design, Verilog-2005, module `adagp`
* `top.json`, `adagp.h`: its configuration, registers and commands
* `adagp.xdc`: the clock, {mhz:g} MHz
* `run.tcl`: the run; another part is a matter of its two lines with `{part}`

Power is by Vivado's own default activity. For activity of a real batch give it a SAIF file of a simulation
(`read_saif` before `report_power`).

Made by `adagp synth --target xilinx --vivado`; the configuration's hash is {config_hash:08x}.
"""


def project(design: Design, folder: Path, part: str | None = None) -> Path:
    """Write sources, constraints, script and README to ``folder``; returns the script's path.

    Raises TargetError for a part that there isn't.
    """
    device = XILINX.part(part)
    package, speed = XILINX.choose(device, None, None)
    config = design.config
    component = None if design.block == WHOLE else BLOCKS[design.block](config)
    generate(config, folder, component, Vendor(XILINX.family))
    facts = {
        "name": design.name, "preset": config.name, "part": f"{device.name.lower()}{package}{speed}",
        "mhz": config.clock_hz / 1e6, "period": 1e9 / config.clock_hz, "config_hash": config.config_hash,
    }  # fmt: skip
    for name, text in (("adagp.xdc", _CONSTRAINTS), ("run.tcl", _SCRIPT), ("README.md", _README)):
        (folder / name).write_text(text.format(**facts))
    return folder / "run.tcl"
