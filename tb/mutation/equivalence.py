"""Proofs that a mutant can't matter: Yosys' SAT solver on the intact and the broken module side by side.

Registers and memories are cut out: what they hold becomes inputs, shared by both modules, what they are given becomes
outputs. Registers' bits that may then be given different values are no longer shared, and so on, until all that are
shared agree again; a mutant is equivalent if outputs and memories still agree then. This is induction over time: after
reset all registers are equal, and in each cycle the shared ones stay so and outputs agree. A module is tried with
everything inside it; if it isn't enough, because what surrounds a module decides what its inputs can be, the one around
it, up to the accelerator.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .choice import Mutant

__all__ = ["prove", "scopes"]

SECONDS = 120
"""For one module."""
SAT_SECONDS = 10
"""For one question to the solver."""

SIDES = ("gold", "gate")

ROOTS = {"Array": "Compute"}
"""Blocks within blocks, by their modules."""
TOP = "adagp"


def scopes(module: str) -> Iterator[str]:
    """The modules around ``module``, itself first, the accelerator last."""
    while module:
        yield module
        module = module.rpartition(".")[0] or ROOTS.get(module, "" if module == TOP else TOP)


def prove(netlist: str, mutant: Mutant, seconds: float = SECONDS) -> dict | None:
    """How a mutant is proved to be equivalent: the module, and how many bits of registers may differ; None if not."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "netlist.il"
        path.write_text(netlist)
        for scope in scopes(mutant.module):
            command = [sys.executable, "-m", __spec__.name, str(path), scope, mutant.command]
            try:
                result = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
            except subprocess.TimeoutExpired:
                continue
            answer = json.loads(result.stdout.splitlines()[-1]) if result.returncode == 0 else {"proved": False}
            if answer.pop("proved"):
                return {"module": scope, "method": "sat, induction by one cycle over registers", **answer}
    return None


# --- in a process of its own -------------------------------------------------------------------------


class _Pair:
    """The intact and the broken module in one design, registers and memories cut out, joined as far as they agree."""

    def __init__(self, path: str, scope: str, command: str):
        from pyosys import libyosys

        self.ys, self.design = libyosys, libyosys.Design()
        self.own: set[tuple[str, int]] = set()  # bits of inputs that the broken module has for itself
        with tempfile.TemporaryDirectory() as folder:
            for name, mutate in (("gold", None), ("gate", f"mutate {command}")):
                self._run(f"read_rtlil {path}")
                if mutate:
                    self._run(mutate)
                self._run(f"hierarchy -top {scope}", "flatten", "dffunmap", "opt_expr", "opt_clean")
                self._run(f"rename {scope} {name}")
                self._cut(name)
                self._run(f"write_rtlil {folder}/{name}.il", "design -reset")
            self._run(f"read_rtlil {folder}/gold.il", f"read_rtlil {folder}/gate.il", "design -save pair")

    def _run(self, *commands):
        for command in commands:
            self.ys.run_pass(f"tee -q {command}", self.design)

    def _module(self, name):
        return self.design.module(self.ys.IdString(f"\\{name}"))

    def _cut(self, name):
        """Make ports of what registers and memories take and hold; the clock goes."""
        module = self._module(name)
        for cell in list(module.cells_.values()):
            register, memory = cell.is_builtin_ff(), cell.is_mem_cell()
            if not (register or memory):
                continue
            for port, signal in list(cell.connections_.items()):
                if "CLK" in port.str() or not signal.size():
                    continue
                wire = module.addWire(self.ys.IdString(f"\\{cell.name.str()}.{port.str()[1:]}"), signal.size())
                if cell.output(port):
                    wire.port_input = True
                    module.connect(signal, self.ys.SigSpec(wire))
                else:
                    wire.port_output = True
                    module.connect(self.ys.SigSpec(wire), signal)
            module.remove(cell)
        module.fixup_ports()

    def _join(self) -> list[str]:
        """A module with both; returns the outputs that aren't plainly the same."""
        ys = self.ys
        self._run("design -load pair")
        modules = {name: self._module(name) for name in SIDES}
        joint = self.design.addModule(ys.IdString("\\joint"))
        inputs, outputs = {}, {}
        for name, module in modules.items():
            cell = joint.addCell(ys.IdString(f"\\{name}"), ys.IdString(f"\\{name}"))
            for wire in list(module.wires_.values()):
                label = wire.name.str()[1:]
                if wire.port_output:
                    there = joint.addWire(ys.IdString(f"\\{name}:{label}"), wire.width)
                    outputs.setdefault(label, []).append(there)
                elif wire.port_input:
                    if label not in inputs:
                        inputs[label] = joint.addWire(ys.IdString(f"\\in:{label}"), wire.width)
                        inputs[label].port_input = True
                    there = inputs[label]
                else:
                    continue
                mixed = name == "gate" and wire.port_input and any(place[0] == label for place in self.own)
                cell.setPort(wire.name, self._mixed(joint, label, there) if mixed else ys.SigSpec(there))
        for label, (one, two) in outputs.items():
            same = joint.addWire(ys.IdString(f"\\same:{label}"), 1)
            same.port_output = True
            joint.addEq(ys.IdString(f"\\eq:{label}"), ys.SigSpec(one), ys.SigSpec(two), ys.SigSpec(same))
        joint.fixup_ports()
        # Identical cells become one; where nothing differs upstream, comparisons fold to 1.
        self._run("hierarchy -top joint", "flatten", "opt_expr", "opt_merge -share_all", "opt_expr")
        self._run("opt_merge -share_all", "opt_expr", "opt_clean")
        same = {signal.as_wire().name.str() for signal, value in self._module("joint").connections_
                if signal.is_wire() and value.is_fully_const() and value.as_bool()}  # fmt: skip
        return [label for label in outputs if f"\\same:{label}" not in same]

    def _mixed(self, joint, label, shared):
        """An input of the broken module, with bits of its own."""
        signal = self.ys.SigSpec()
        for bit in range(shared.width):
            if (label, bit) in self.own:
                own = joint.addWire(self.ys.IdString(f"\\own:{label}:{bit}"), 1)
                own.port_input = True
                signal.append(self.ys.SigSpec(own))
            else:
                signal.append(self.ys.SigSpec(shared).extract(bit, 1))
        return signal

    def _differ(self, label: str, bit: int | None = None) -> bool:
        """Whether the solver finds inputs for which an output (a bit of it) differs, or fails."""
        ys, joint, name = self.ys, self._module("joint"), f"same:{label}"
        if bit is not None:
            name += f":{bit}"
            signals = [ys.SigSpec(joint.wire(ys.IdString(f"\\{side}:{label}"))).extract(bit, 1) for side in SIDES]
            same = joint.addWire(ys.IdString(f"\\{name}"), 1)
            joint.addEq(ys.IdString(f"\\eq:{label}:{bit}"), *signals, ys.SigSpec(same))
        with tempfile.NamedTemporaryFile("r") as log:
            question = f"sat -timeout {SAT_SECONDS} -prove {name} 1 joint/w:{name} %ci*"
            ys.run_pass(f"tee -q -o {log.name} {question}", self.design)
            return "no model found: SUCCESS" not in log.read()

    def prove(self) -> dict:
        """Separate the bits that differ until none does any more."""
        while True:
            differing = set()
            for label in self._join():
                if not label.endswith(".D"):  # neither a register's input
                    if self._differ(label):
                        return {"proved": False, "at": label}
                    continue
                width = self._module("joint").wire(self.ys.IdString(f"\\gold:{label}")).width
                held = [(f"{label[:-1]}Q", bit) for bit in range(width)]
                if self.own.isdisjoint(held) and not self._differ(label):
                    continue
                differing |= {place for place in held if place not in self.own and self._differ(label, place[1])}
            if not differing:
                return {"proved": True, "differing_bits": len(self.own)}
            self.own |= differing


if __name__ == "__main__":
    print(json.dumps(_Pair(*sys.argv[1:]).prove()))
