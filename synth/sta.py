"""OpenSTA: timing and power of a netlist of standard cells."""

import json
import re
import shutil
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
    from .asic import Activity
    from .liberty import Library

__all__ = ["Timing", "analyse", "watts"]

_STEP = re.compile(r"^\s*(-?[\d.]+)\s+(-?[\d.]+)\s+[v^]\s+(\w+)/(\w+) \((\w+)\)", re.MULTILINE)
_SLACK = re.compile(r"^\s*(-?[\d.]+)\s+slack \(", re.MULTILINE)
_POWER = re.compile(r"^power (\S+) (\S+) (\S+) of (\d+) cells, (\d+) unknown$", re.MULTILINE)
_ERROR = re.compile(r"^Error: .*$", re.MULTILINE)
UNKNOWN = 1e-3
"""Share of the cells whose power may be unknown."""
KNOWN = 0.95
"""Share of the flip-flops whose activity must be known."""

PROCEDURES = """
# As report_power, which Debian's version ends where a cell's power is NaN: its inputs never have the values of any arc.
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
set_power_activity -input -activity 0 -duty 0.5
sum_of_power
"""
_OUTPUT = """\
set_power_activity -input_ports [get_ports n{bit}] -activity {rate:.6g} -duty 0.5
set_load {load:.6g} [get_ports q{bit}]"""
_LATER = "::sta::set_power_pin_activity [get_pins {cell}/{pin}] {rate:.6g} 0.5"
_ANY = re.compile(r"^(\S.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Timing:
    """The highest frequency in MHz, and the critical path as (block, ns)."""

    fmax_mhz: float
    critical_path: list[dict]


class _Netlist:
    """A netlist in JSON as Verilog with short names: cells ``c0``, ``c1``, ..., nets ``n2``, ``n3``, ...

    Cells that the library doesn't have, which are memories, are left out: what they drive becomes inputs.
    """

    def __init__(self, folder: Path, library: "Library", design: Design):
        module = json.loads((folder / "netlist.json").read_text())["modules"][TOP]
        self.name, self.library, self.root = design.name, library, design.scope(False)
        self.ports, self.nets = module["ports"], module["netnames"]
        cells = ((name, cell) for name, cell in module["cells"].items() if cell["type"] in library.areas)
        self.cells = {f"c{number}": pair for number, pair in enumerate(cells)}
        self.clock = self.ports["clk"]["bits"][0]
        driven: set = set()
        self.farads: dict[int, float] = {}  # of the pins that a net drives
        self.stored: dict[int, tuple[str, str]] = {}  # nets of flip-flops, with cells and pins
        for short, (_, cell) in self.cells.items():
            for pin, (bit,) in cell["connections"].items():
                if cell["port_directions"].get(pin) == "output":
                    driven.add(bit)
                    if cell["type"] in library.flip_flops:
                        self.stored[bit] = short, pin
                elif isinstance(bit, int):
                    farads = library.farads.get((cell["type"], pin), 0.0)
                    self.farads[bit] = self.farads.get(bit, 0.0) + farads
        self.inputs = sorted(self.farads.keys() - driven - {self.clock})
        self.wires = sorted(bit for bit in driven if isinstance(bit, int))

    def verilog(self, apart: bool = False) -> str:
        """Of module ``adagp``, with ``clk`` as its clock; ``apart``: flip-flops drive outputs ``q2``, ``q3``, ...

        What they drove is then driven by inputs.
        """
        lines = []
        for short, (_, cell) in self.cells.items():
            pins = []
            for pin, (bit,) in cell["connections"].items():
                cut = apart and self.stored.get(bit) == (short, pin)
                pins.append(f".{pin}({f'q{bit}' if cut else self._net(bit)})")
            lines.append(f"{cell['type']} {short} ({', '.join(pins)});")
        outputs = [f"q{bit}" for bit in self.stored] if apart else []
        inputs = [self._net(bit) for bit in (*self.inputs, *(self.stored if apart else ()))]
        wires = [self._net(bit) for bit in self.wires if not (apart and bit in self.stored)]
        head = [f"module {TOP} ({', '.join(['clk', *inputs, *outputs])});", "input clk;"]
        head += [f"input {name};" for name in inputs] + [f"output {name};" for name in outputs]
        return "\n".join([*head, *(f"wire {name};" for name in wires), *lines, "endmodule\n"])

    def _net(self, bit):
        if isinstance(bit, int):
            return "clk" if bit == self.clock else f"n{bit}"
        return "1'b1" if bit == "1" else "1'b0"

    def rates(self, activity: "Activity") -> tuple[dict[int, float], set[int]]:
        """Toggles a cycle of nets that have names, and which of them are estimates: the first that is known of any."""
        found: dict[int, float] = {}
        estimated = set()
        wanted = {*self.stored, *self.inputs}
        aliases: dict[int, list] = {}
        for name, net in self.nets.items():
            if name.startswith(f"{self.root}."):
                for index, bit in enumerate(net["bits"]):
                    if bit in wanted:
                        alias = name.removeprefix(f"{self.root}."), index, len(net["bits"])
                        aliases.setdefault(bit, []).append(alias)
        for bit, names in aliases.items():
            # Numbers in names may be another elaboration's: those without come first.
            for alias in sorted(names, key=lambda alias: "$" in alias[0]):
                rate = activity.rate(*alias)
                if rate is not None:
                    found[bit] = rate
                    break
            else:
                words = [rate for alias in names if (rate := activity.word_rate(*alias)) is not None]
                if words:
                    found[bit] = words[0]
                    estimated.add(bit)
        return found, estimated


def _run(netlist, verilog, script, say):
    """What OpenSTA says."""
    tool = shutil.which("sta")
    if tool is None:
        raise ToolError("timing and power of cells need OpenSTA, and sta was not found (Debian: apt install opensta)")
    head = [f"read_liberty {netlist.library.path.resolve()}", "read_verilog netlist.v", f"link_design {TOP}"]
    with TemporaryDirectory() as scratch:
        here = Path(scratch)
        (here / "netlist.v").write_text(verilog)
        (here / "run.tcl").write_text("\n".join([*head, *script, "exit"]) + "\n")
        say("OpenSTA")
        child.run([tool, "-no_splash", "-exit", "run.tcl"], here, here / "log.txt", _ANY, lambda _: None)
        log = (here / "log.txt").read_text()
    if wrong := _ERROR.search(log):
        raise ToolError(f"OpenSTA, on {netlist.name}: {wrong[0]}")
    return log


def _clock(period):
    return f"create_clock -name clk -period {period:.6g} [get_ports clk]"


def analyse(folder: Path, library: "Library", design: Design, say: child.Say = lambda _: None) -> Timing:
    """Timing of the netlist in ``folder`` between flip-flops, at the configuration's clock. Raises ToolError."""
    period = 1e9 / design.config.clock_hz
    netlist = _Netlist(folder, library, design)
    script = [_clock(period), "report_checks -path_delay max -digits 4"]
    log = _run(netlist, netlist.verilog(), script, say)
    slack = _SLACK.search(log)
    if slack is None:
        raise ToolError(f"OpenSTA found no path in {design.name}: {' '.join(log.split())[-300:]}")
    path = _path(log, netlist, Scopes.read(folder, netlist.root))
    return Timing(round(1e3 / (period - float(slack[1])), 2), path)


def watts(
    folder: Path, library: "Library", design: Design, activity: "Activity", say: child.Say = lambda _: None
) -> tuple[dict[str, float], dict[str, float]]:
    """Power of the netlist in ``folder``: of the clock, of data, and leakage; and what is known of the flip-flops.

    Debian's OpenSTA doesn't heed activities that are set at flip-flops before it propagates those of inputs, nor does
    it propagate those that are set later. So it gets the nets they drive as inputs; and their own once that is done.
    The pins that ports drive, those of the clock first, are no instance's: they are added here.

    Raises ToolError.
    """
    netlist = _Netlist(folder, library, design)
    known, estimated = netlist.rates(activity)
    share = {
        "activity_known": len(netlist.stored.keys() & known) / len(netlist.stored),
        "activity_estimated": len(netlist.stored.keys() & estimated) / len(netlist.stored),
    }
    if share["activity_known"] < KNOWN:
        raise ToolError(f"the activity of only {share['activity_known']:.1%} of {design.name}'s flip-flops is known")
    rates = {bit: known.get(bit, activity.default) for bit in (*netlist.stored, *netlist.inputs)}
    script = [_clock(1e9 / design.config.clock_hz), PROCEDURES]
    for bit in netlist.inputs:
        script.append(f"set_power_activity -input_ports [get_ports n{bit}] -activity {rates[bit]:.6g} -duty 0.5")
    for bit in netlist.stored:
        load = netlist.farads.get(bit, 0.0) / library.load_unit
        script.append(_OUTPUT.format(bit=bit, rate=rates[bit], load=load) if bit in netlist.farads else "")
    script.append("sum_of_power")
    script += [_LATER.format(cell=cell, pin=pin, rate=rates[bit]) for bit, (cell, pin) in netlist.stored.items()]
    log = _run(netlist, netlist.verilog(apart=True), [*script, "sum_of_power"], say)
    found = _POWER.findall(log)
    if len(found) != 3:
        raise ToolError(f"OpenSTA reported no power of {design.name}: {' '.join(log.split())[-300:]}")
    (at_rest, *_), _, (internal, switching, leakage, cells, unknown) = found
    if int(unknown) > UNKNOWN * int(cells):
        raise ToolError(f"OpenSTA knows no power of {unknown} of {cells} cells of {design.name}")
    a_toggle = 0.5 * library.volts**2 * design.config.clock_hz
    clock = float(at_rest) + 2 * a_toggle * netlist.farads[netlist.clock]
    inputs = a_toggle * sum(rates[bit] * netlist.farads[bit] for bit in netlist.inputs)
    data = float(internal) - float(at_rest) + float(switching) + inputs
    return {"clock": clock, "data": data, "leakage": float(leakage)}, share


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
