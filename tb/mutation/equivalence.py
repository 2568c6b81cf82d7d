"""Proofs that a mutant can't matter: Yosys' SAT solver on the intact and the broken module side by side.

Registers, memories and clock gates are cut out: what they hold becomes inputs, shared by both modules, what they are
given, clocks included, becomes outputs. Registers' bits that may then be given different values are no longer shared,
and so on, until all that are shared agree again; a mutant is equivalent if outputs, memories and clocks still agree
then. This is induction over time: after reset all registers are equal, and in each cycle the shared ones stay so and
outputs agree. A gate may be open more often than in the intact module: nothing depends on a gate's being closed, which
is what :mod:`adagp.rtl.clock_gate` promises and other tests hold it to; such proofs name the gates. A module is tried
with everything inside it; if it isn't enough, because what surrounds a module decides what its inputs can be, the one
around it, up to the accelerator.
"""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from adagp.rtl.clock_gate import CELL

from . import yosys
from .choice import Mutant

__all__ = ["prove", "scopes"]

SECONDS = 120
"""For one module."""
SAT_SECONDS = 10
"""For one question to the solver."""

SIDES = ("gold", "gate")
GATE_PORT = ".open"
MANY_BITS = 40
"""Of a register: so many that may differ are all taken to."""
MOST_BITS = 2000
"""Of all registers; then it is hopeless."""

ROOTS = {"Array": "Compute"}
"""Blocks within blocks, by their modules."""
TOP = "adagp"


def scopes(module: str) -> Iterator[str]:
    """The modules around ``module``, itself first, the accelerator last."""
    while module:
        yield module
        module = module.rpartition(".")[0] or ROOTS.get(module, "" if module == TOP else TOP)


def prove(netlist: str, mutant: Mutant, seconds: float = SECONDS) -> dict | None:
    """How a mutant is proved to be equivalent, and within which module; None if it is not."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "netlist.il"
        path.write_text(netlist)
        for scope, prover, *how in _attempts(mutant):
            command = [sys.executable, "-m", f"{__package__}.{prover}", str(path), scope, mutant.command, *how]
            try:
                result = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
            except subprocess.TimeoutExpired:
                continue
            answer = json.loads(result.stdout.splitlines()[-1]) if result.returncode == 0 else {"proved": False}
            if answer.pop("proved"):
                return {"module": scope, "method": " ".join((METHODS[prover], *how)), **answer}
    return None


METHODS = {
    "sequential": "abc: signal correspondence, reachability",
    Path(__file__).stem: "sat: induction by one cycle over registers",
}
"""Modules that prove, and how."""


def _attempts(mutant: Mutant) -> Iterator[tuple[str, ...]]:
    """What is tried, the fastest first: the module, the prover, and how."""
    if mutant.block == "clock_gate":
        yield mutant.module, "sequential", "alone", "wide"
    for scope in scopes(mutant.module):
        yield scope, "sequential"
    for scope in scopes(mutant.module):
        yield scope, Path(__file__).stem


# --- in a process of its own -------------------------------------------------------------------------


def _plain(name: str) -> str:
    """A name that needs no escapes in selections."""
    return "".join(letter if letter.isalnum() else "_" for letter in name)


Question = tuple[str, int | None]
"""An output, or a bit of it."""


def _name(label: str, bit: int | None) -> str:
    """The wire that says whether an output, or a bit of it, is the same."""
    return f"same:{label}" if bit is None else f"same:{label}:{bit}"


def _held(label: str) -> str:
    """The input for what a register holds, by the output for what it is given."""
    return f"{label.removesuffix('D')}Q"


class _Pair:
    """The intact and the broken module in one design, registers and memories cut out, joined as far as they agree."""

    def __init__(self, path: str, scope: str, command: str):
        from pyosys import libyosys

        self.ys, self.design = libyosys, libyosys.Design()
        self.own: set[tuple[str, int]] = set()  # bits of inputs that the broken module has for itself
        self.split: set[str] = set()  # registers some of whose bits may be such
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "gate.v").write_text(yosys.GATE)
            for name, mutate in (("gold", None), ("gate", f"mutate {command}")):
                self._run(f"read_verilog {folder}/gate.v", f"read_rtlil {path}")
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
        """Make ports of what registers, memories and clock gates take, clocks included, and of what they hold."""
        module = self._module(name)
        for cell in list(module.cells_.values()):
            if not (cell.is_builtin_ff() or cell.is_mem_cell() or cell.type.str() == f"\\{CELL}"):
                continue
            for port, signal in list(cell.connections_.items()):
                if not signal.size():
                    continue
                wire = module.addWire(self.ys.IdString(f"\\{_plain(cell.name.str())}.{port.str()[1:]}"), signal.size())
                if cell.output(port):
                    wire.port_input = True
                    module.connect(signal, self.ys.SigSpec(wire))
                else:
                    wire.port_output = True
                    module.connect(self.ys.SigSpec(wire), signal)
            module.remove(cell)
        module.fixup_ports()

    def _join(self) -> list[Question]:
        """A module with both; returns the outputs and bits that aren't plainly the same."""
        ys = self.ys
        self._run("design -load pair")
        modules = {name: self._module(name) for name in SIDES}
        joint = self.design.addModule(ys.IdString("\\joint"))
        inputs, outputs = {}, {}
        for name, module in modules.items():
            cell = joint.addCell(ys.IdString(f"\\{name}"), ys.IdString(f"\\{name}"))
            for wire in list(module.wires_.values()):
                label = wire.name.str()[1:].replace("$", "_")
                if wire.port_output:
                    there = joint.addWire(ys.IdString(f"\\{name}:{label}"), wire.width)
                    there.port_output = True
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
        questions = [question for label, (one, _) in outputs.items() for question in self._bits(label, one.width)]
        for label, bit in questions:
            same = joint.addWire(ys.IdString(f"\\{_name(label, bit)}"), 1)
            same.port_output = True
            signals = [ys.SigSpec(wire) if bit is None else ys.SigSpec(wire).extract(bit, 1) for wire in outputs[label]]
            add = joint.addLe if label.endswith(GATE_PORT) else joint.addEq
            add(ys.IdString(f"\\eq:{label}:{bit}"), *signals, ys.SigSpec(same))
        joint.fixup_ports()
        # Identical cells become one; where nothing differs upstream, comparisons fold to 1.
        self._run("hierarchy -top joint", "flatten", "opt_expr", "opt_merge -share_all", "opt_expr")
        self._run("opt_merge -share_all", "opt_expr", "opt_clean")
        same = {signal.as_wire().name.str()[1:] for signal, value in self._module("joint").connections_
                if signal.is_wire() and value.is_fully_const() and value.as_bool()}  # fmt: skip
        return [question for question in questions if _name(*question) not in same]

    def _bits(self, label: str, width: int) -> list[Question]:
        """What must be asked of an output: whether it is the same, or each bit of what a split register is given."""
        if label not in self.split:
            return [(label, None)]
        return [(label, bit) for bit in range(width) if (_held(label), bit) not in self.own]

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

    def _differ(self, label: str, bit: int | None) -> bool:
        """Whether the solver finds inputs for which an output (a bit of it) differs, or fails."""
        name = _name(label, bit)
        with tempfile.NamedTemporaryFile("r") as log:
            question = f"sat -timeout {SAT_SECONDS} -prove {name} 1 joint/w:{name} %ci*"
            self.ys.run_pass(f"tee -q -o {log.name} {question}", self.design)
            return "no model found: SUCCESS" not in log.read()

    def prove(self) -> dict:
        """Separate the bits that differ until none does any more."""
        while len(self.own) <= MOST_BITS:
            questions = self._join()
            for label, bit in questions:
                if not label.endswith(".D") and self._differ(label, bit):  # no register's
                    return {"proved": False, "at": label}
            words = {label for label, bit in questions if bit is None and label.endswith(".D")}
            split = {label for label in words if self._differ(label, None)}
            bits = [(label, bit) for label, bit in questions if bit is not None]
            many = {label for label, count in Counter(label for label, _ in bits).items() if count > MANY_BITS}
            own = {(_held(label), bit) for label, bit in bits if label in many or self._differ(label, bit)}
            if not split and not own:
                gates = sorted({label for label, _ in questions if label.endswith(GATE_PORT)})
                return {"proved": True, "differing_bits": len(self.own), "wider_gates": gates}
            self.split |= split
            self.own |= own
        return {"proved": False, "at": "too many bits"}


if __name__ == "__main__":
    print(json.dumps(_Pair(*sys.argv[1:]).prove()))
