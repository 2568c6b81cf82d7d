"""OpenSTA: timing and power of a netlist of standard cells."""

import json
import re
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from . import child
from .design import Design
from .errors import ToolError
from .netlist import Scopes
from .yosys import TOP

if TYPE_CHECKING:
    from .asic import Activity, Library

__all__ = ["Timing", "analyse"]

_STEP = re.compile(r"^\s*(-?[\d.]+)\s+(-?[\d.]+)\s+[v^]\s+(\w+)/(\w+) \((\w+)\)", re.MULTILINE)
_SLACK = re.compile(r"^\s*(-?[\d.]+)\s+slack \(", re.MULTILINE)
_POWER = re.compile(r"^power (\S+) (\S+) (\S+) of (\d+) cells, (\d+) unknown$", re.MULTILINE)
_ERROR = re.compile(r"^Error: .*$", re.MULTILINE)
UNKNOWN = 1e-3
"""Share of the cells whose power may be unknown."""

PROCEDURES = """
# Debian's OpenSTA has the command for pins, but can't execute it.
proc activity {pin rate} {
    if {[catch {set_power_activity -pins [get_pins $pin] -activity $rate -duty 0.5}]} {
        ::sta::set_power_pin_activity [get_pins $pin] $rate 0.5
    }
}
# As report_power, which that version ends where a cell's power is NaN: its inputs never have the values of any arc.
proc sum_of_power {} {
    set sums {0.0 0.0 0.0}
    set unknown 0
    set cells [get_cells *]
    foreach cell $cells {
        set power [lrange [::sta::instance_power $cell [::sta::cmd_corner]] 0 2]
        if {[string match -nocase *nan* $power]} {
            incr unknown
        } else {
            set sums [lmap sum $sums part $power {expr {$sum + $part}}]
        }
    }
    puts "power $sums of [llength $cells] cells, $unknown unknown"
}
"""
_ANY = re.compile(r"^(\S.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Timing:
    """The highest frequency in MHz, the critical path as (block, ns), and watts: internal, switching, leakage."""

    fmax_mhz: float
    critical_path: list[dict]
    power_w: dict[str, float]


class _Netlist:
    """A netlist in JSON as Verilog with short names: cells ``c0``, ``c1``, ..., nets ``n2``, ``n3``, ...

    Cells that the library doesn't have, which are memories, are left out: what they drive becomes inputs.
    """

    def __init__(self, folder: Path, known: Collection[str]):
        module = json.loads((folder / "netlist.json").read_text())["modules"][TOP]
        self.ports, self.nets = module["ports"], module["netnames"]
        cells = ((name, cell) for name, cell in module["cells"].items() if cell["type"] in known)
        self.cells = {f"c{number}": pair for number, pair in enumerate(cells)}

    def verilog(self) -> str:
        """Of module ``adagp``, with ``clk`` as its clock."""
        driven: set = set()
        used: set = set()
        lines = []
        for short, (_, cell) in self.cells.items():
            pins = []
            for pin, (bit,) in cell["connections"].items():
                (driven if cell["port_directions"].get(pin) == "output" else used).add(bit)
                pins.append(f".{pin}({self._net(bit)})")
            lines.append(f"{cell['type']} {short} ({', '.join(pins)});")
        clock = self.ports["clk"]["bits"][0]
        inputs = sorted(bit for bit in used - driven if isinstance(bit, int) and bit != clock)
        names = [self._net(bit) for bit in inputs]
        wires = [self._net(bit) for bit in sorted(bit for bit in driven if isinstance(bit, int))]
        head = [f"module {TOP} ({', '.join(['clk', *names])});", "input clk;", *(f"input {name};" for name in names)]
        return "\n".join([*head, *(f"wire {name};" for name in wires), *lines, "endmodule\n"])

    def _net(self, bit):
        if isinstance(bit, int):
            return "clk" if bit == self.ports["clk"]["bits"][0] else f"n{bit}"
        return "1'b1" if bit == "1" else "1'b0"

    def names(self, root: str) -> dict[int, tuple[str, int]]:
        """Path of a net and bit of it, by number, of those in the design that have names."""
        found: dict[int, tuple[str, int]] = {}
        for name, net in self.nets.items():
            if not net["hide_name"] and name.startswith(f"{root}."):
                path = name.removeprefix(f"{root}.")
                found.update({bit: (path, index) for index, bit in enumerate(net["bits"]) if isinstance(bit, int)})
        return found

    def activities(self, flip_flops: Collection[str], root: str, activity: "Activity") -> Iterator[str]:
        """Commands that set what is known of flip-flops' outputs."""
        names = self.names(root)
        for short, (_, cell) in self.cells.items():
            if cell["type"] not in flip_flops:
                continue
            for pin, (bit,) in cell["connections"].items():
                if cell["port_directions"].get(pin) == "output":
                    path, index = names.get(bit, ("", 0))
                    bits = activity.toggles.get(path, [])
                    rate = bits[index] if index < len(bits) else activity.default
                    yield f"activity {short}/{pin} {rate:.6g}"


def analyse(
    folder: Path, library: "Library", design: Design, activity: "Activity | None",
    say: child.Say = lambda _: None,
) -> Timing:  # fmt: skip
    """Timing of the netlist in ``folder`` at the configuration's clock, and its power with ``activity``.

    Raises ToolError.
    """
    tool = shutil.which("sta")
    if tool is None:
        raise ToolError("timing and power of cells need OpenSTA, and sta was not found (Debian: apt install opensta)")
    period = 1e9 / design.config.clock_hz
    root = design.scope(False)
    netlist = _Netlist(folder, library.areas)
    script = [
        PROCEDURES, f"read_liberty {library.path.resolve()}", "read_verilog netlist.v", f"link_design {TOP}",
        f"create_clock -name clk -period {period:.6g} [get_ports clk]", "report_checks -path_delay max -digits 4",
    ]  # fmt: skip
    if activity is not None:
        script += [f"set_power_activity -input -activity {activity.default:.6g} -duty 0.5"]
        script += [*netlist.activities(library.flip_flops, root, activity), "sum_of_power"]
    with TemporaryDirectory() as scratch:
        here = Path(scratch)
        (here / "netlist.v").write_text(netlist.verilog())
        (here / "run.tcl").write_text("\n".join([*script, "exit"]) + "\n")
        say("OpenSTA")
        child.run([tool, "-no_splash", "-exit", "run.tcl"], here, here / "log.txt", _ANY, lambda _: None)
        log = (here / "log.txt").read_text()
    if wrong := _ERROR.search(log):
        raise ToolError(f"OpenSTA, on {design.name}: {wrong[0]}")
    slack = _SLACK.search(log)
    if slack is None:
        raise ToolError(f"OpenSTA found no path in {design.name}: {' '.join(log.split())[-300:]}")
    watts = _POWER.search(log)
    if activity is not None and watts is None:
        raise ToolError(f"OpenSTA reported no power of {design.name}: {' '.join(log.split())[-300:]}")
    found = {}
    if watts:
        *parts, cells, unknown = watts.groups()
        if int(unknown) > UNKNOWN * int(cells):
            raise ToolError(f"OpenSTA knows no power of {unknown} of {cells} cells of {design.name}")
        found = dict(zip(("internal", "switching", "leakage"), map(float, parts), strict=True))
    return Timing(round(1e3 / (period - float(slack[1])), 2), _path(log, netlist, Scopes.read(folder, root)), found)


def _path(log, netlist, scopes):
    """The critical path as the blocks it goes through."""
    steps: list[dict] = []
    for delay, _, cell, _, _ in _STEP.findall(log):
        block = scopes.block(netlist.cells[cell][0])
        if not steps or steps[-1]["block"] != block:
            steps.append({"block": block, "cells": 0, "logic_ns": 0.0, "routing_ns": 0.0})
        steps[-1]["logic_ns"] = round(steps[-1]["logic_ns"] + float(delay), 3)
        steps[-1]["cells"] += 1
    return steps
