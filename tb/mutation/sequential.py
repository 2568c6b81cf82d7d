"""Proofs by ABC that a mutant can't matter: signal correspondence, then reachability, from reset on.

The intact and the broken module run side by side on the same inputs: registers are kept, and those behind a clock gate
keep their value while it is closed. Memories are cut out: what they give becomes an input that both share, as long as
both ask and write the same where they are enabled. A mutant is equivalent if outputs, gates and what memories are
given are always the same. This knows what registers can hold, but not for large modules. A module can be tried alone,
its submodules cut out like memories.

Mutants of the gates' own logic need only open them whenever the intact logic does, and change nothing where clocks just
go on: nothing depends on a gate's being closed, see :mod:`adagp.rtl.clock_gate`.

Invariants of the intact side may be given: it is only looked for sides that differ while these have always held.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pyosys
from adagp.rtl.clock_gate import CELL
from pyosys import libyosys as ys

from . import reach, yosys

__all__ = ["prove"]

SECONDS = 10
"""For ABC, on one module."""
FEW_WORDS = 8
"""Memories of so many are not cut out but made of registers."""
MOST_LATCHES = 4000
"""That correspondence is looked for in."""

SIDES = ("gold", "gate")
GATE_PORT = ".open"
SHARED = "shared:"
GIVEN = "given:"
GIVEN_WORD = "given"
_ABC = Path(pyosys.__file__).parent / "yosys-abc"


def _id(name: str) -> ys.IdString:
    return ys.IdString(f"\\{name}")


def _plain(name: str) -> str:
    """A name that needs no escapes in selections."""
    return "".join(letter if letter.isalnum() else "_" for letter in name)


class _Side:
    """A module without memories, submodules and clock gates: these become ports."""

    def __init__(self, module: ys.Module, gated: bool):
        self.module = module
        self.names = 0
        cells = list(self.module.cells_.values())
        gates = [cell for cell in cells if cell.type.str() == f"\\{CELL}"]
        self._hold([cell for cell in cells if cell.is_builtin_ff() and gated], gates)
        for cell in cells:
            if cell.is_mem_cell():
                self._cut_memory(cell)
            elif cell not in gates and cell.type.str().startswith("\\"):
                self._cut_module(cell)
        self.module.fixup_ports()

    def _name(self):
        self.names += 1
        return _id(f"side_{self.names}")

    def _input(self, label, signal):
        if signal.size():
            wire = self.module.addWire(_id(label), signal.size())
            wire.port_input = True
            self.module.connect(signal, ys.SigSpec(wire))

    def _output(self, label, signal):
        if not signal.size():
            return
        wire = self.module.addWire(_id(label), signal.size())
        wire.port_output = True
        self.module.connect(ys.SigSpec(wire), signal)

    def _hold(self, registers, gates):
        """Registers behind a gate keep their value while it is closed; gates become outputs."""
        opens = {}
        for gate in gates:
            open_ = gate.getPort(_id("open"))
            opens[gate.getPort(_id("o")).as_string()] = open_
            self._output(f"{_plain(gate.name.str())}{GATE_PORT}", open_)
        for cell in registers:
            open_ = opens.get(cell.getPort(_id("CLK")).as_string()) if cell.hasPort(_id("CLK")) else None
            if open_ is not None:
                held, given = cell.getPort(_id("Q")), cell.getPort(_id("D"))
                cell.setPort(_id("D"), self.module.Mux(self._name(), held, given, open_))
        for gate in gates:
            self.module.remove(gate)

    def _cut_module(self, cell):
        label = _plain(cell.name.str())
        for port, signal in list(cell.connections_.items()):
            if cell.output(port):
                self._input(f"{label}.{port.str()[1:]}", signal)
            else:
                self._output(f"{label}.{port.str()[1:]}", signal)
        self.module.remove(cell)

    def _cut_memory(self, memory):
        """What a memory gives is an input; what it is asked and given, where enabled, an output."""
        ports = {port.str()[1:]: signal for port, signal in memory.connections_.items() if signal.size()}
        label = _plain(memory.name.str())
        n_bits = memory.parameters[_id("ABITS")].as_int()
        width = memory.parameters[_id("WIDTH")].as_int()
        for port, signal in ports.items():
            if port == "RD_DATA":
                self._input(f"{label}.{port}", signal)
            elif port == "WR_DATA":
                self._output(f"{label}.{port}", self.module.And(self._name(), signal, ports["WR_EN"]))
            elif port in ("RD_ADDR", "WR_ADDR"):
                size = 1 if port == "RD_ADDR" else width
                enables = ports[f"{port[:2]}_EN"]
                for number in range(signal.size() // n_bits):
                    enable = self.module.ReduceOr(self._name(), enables.extract(number * size, size))
                    address = signal.extract(number * n_bits, n_bits)
                    zero = ys.SigSpec(0, n_bits)
                    self._output(f"{label}.{port}{number}", self.module.Mux(self._name(), zero, address, enable))
            elif not port.endswith("CLK"):
                self._output(f"{label}.{port}", signal)
        self.module.remove(memory)


def _run(design, *commands):
    for command in commands:
        ys.run_pass(f"tee -q {command}", design)


def _state(design: ys.Design, folder: str, invariants: tuple[str, ...]) -> None:
    """Compute each invariant (module: condition) in its module, as a wire that is kept."""
    for number, invariant in enumerate(invariants):
        name, _, condition = invariant.partition(": ")
        module = design.module(_id(name))
        wires = [module.wire(_id(wire)) for wire in re.findall(r"\{(.*?)\}", condition)]
        ports = ", ".join(f"input [{wire.width - 1}:0] p{n}" for n, wire in enumerate(wires))
        for n in range(len(wires)):
            condition = re.sub(r"\{.*?\}", f"p{n}", condition, count=1)
        path = Path(folder) / "invariant.v"
        path.write_text(f"module invariant{number} ({ports}, output holds); assign holds = {condition}; endmodule")
        _run(design, f"read_verilog {path}")
        cell = module.addCell(_id(f"invariant{number}"), _id(f"invariant{number}"))
        for n, wire in enumerate(wires):
            cell.setPort(_id(f"p{n}"), ys.SigSpec(wire))
        holds = module.addWire(_id(f"{GIVEN}{number}"), 1)
        cell.setPort(_id("holds"), ys.SigSpec(holds))
        _run(design, f"setattr -set keep 1 {name}/w:{GIVEN}{number}")


def _share(modules: tuple[ys.Module, ys.Module], reached: set[str]) -> None:
    """Registers that aren't ``reached`` are kept in the intact module only, and shown to the broken one."""
    for module, port in zip(modules, ("port_output", "port_input"), strict=True):
        for cell in list(module.cells_.values()):
            if cell.is_builtin_ff() and cell.name.str() not in reached:
                held = cell.getPort(_id("Q"))
                wire = module.addWire(_id(f"{SHARED}{_plain(cell.name.str())}"), held.size())
                setattr(wire, port, True)
                if port == "port_output":
                    module.connect(ys.SigSpec(wire), held)
                else:
                    module.connect(held, ys.SigSpec(wire))
                    module.remove(cell)


def _broken(joint: ys.Module, invariants: ys.SigSpec) -> ys.SigSpec:
    """Whether an invariant doesn't hold, or didn't once."""
    if not invariants.size():
        return ys.SigSpec(0, 1)
    before = ys.SigSpec(joint.addWire(_id("broken_before"), 1))
    now = joint.Not(_id("breaks"), joint.ReduceAnd(_id("hold"), invariants))
    broken = joint.Or(_id("breaks_or_broke"), now, before)
    joint.addFf(_id("remember"), broken, before)
    return broken


def _follow(modules: tuple[ys.Module, ys.Module]) -> None:
    """From when an invariant is broken the broken module's registers take what the intact one's do.

    Nothing is looked for any more then; and registers that are the same as long as it holds are the same for ever,
    which is what correspondence finds.
    """
    gold, gate = modules
    broken = gate.addWire(_id(f"{SHARED}broken"), 1)
    broken.port_input = True
    for module in modules:
        for cell in list(module.cells_.values()):
            if cell.is_builtin_ff():
                given = cell.getPort(_id("D"))
                name = _plain(cell.name.str())
                wire = module.addWire(_id(f"{SHARED}next_{name}"), given.size())
                wire.port_output, wire.port_input = module is gold, module is gate
                if module is gold:
                    module.connect(ys.SigSpec(wire), given)
                else:
                    mux = module.Mux(_id(f"follow_{name}"), given, ys.SigSpec(wire), ys.SigSpec(broken))
                    cell.setPort(_id("D"), mux)
    for module in modules:
        module.fixup_ports()


def _product(
    path: str,
    scope: str,
    command: str,
    folder: str,
    within: tuple[str, ...] | None,
    wide: bool,
    invariants: tuple[str, ...],
) -> ys.Design:
    """Both sides in module ``joint``, whose output ``apart`` is 1 when they differ.

    ``within``: the submodules that aren't cut out; None for all. ``invariants``: what is known of the intact side.
    """
    design = ys.Design()
    (Path(folder) / "gate.v").write_text(yosys.GATE)
    for name, mutate in (("gold", None), ("gate", f"mutate {command}")):
        _run(design, f"read_verilog {folder}/gate.v", f"read_rtlil {path}")
        if mutate:
            _run(design, mutate)
        else:
            _state(design, folder, invariants)
        if within is not None:
            _run(design, "setattr -mod -set keep_hierarchy 1 *")
            _run(design, *(f"setattr -mod -unset keep_hierarchy {module}" for module in (*within, "invariant*")))
        _run(design, f"hierarchy -top {scope}", "flatten", "setattr -mod -unset keep_hierarchy *")
        _run(design, f"rename {scope} {name}")
        _run(design, f"memory_map {name}/t:$mem_v2 {name}/r:SIZE<={FEW_WORDS} %i")
        _run(design, *(f"{command} {name}" for command in ("dffunmap", "opt_expr", "opt_clean")))
        _run(design, "select -clear", f"write_rtlil {folder}/{name}.il", "design -reset")
    _run(design, *(f"read_rtlil -nooverwrite {folder}/{name}.il" for name in SIDES))
    modules = tuple(design.module(_id(name)) for name in SIDES)
    for wire in list(modules[0].wires_.values()):
        wire.port_output |= wire.name.str().rpartition(".")[2].lstrip("\\").startswith(GIVEN)
    _share(modules, reach.affected(*((Path(folder) / f"{name}.il").read_text() for name in SIDES)))
    for module in modules:
        _Side(module, gated=not wide)
    if invariants:
        _follow(modules)
    joint = design.addModule(_id("joint"))
    broken = joint.addWire(_id("broken"), 1)
    inputs: dict[str, list[ys.Wire]] = {f"{SHARED}broken": [broken]}
    outputs: dict[str, list[ys.Wire]] = {}
    held = ys.SigSpec()
    for name, module in zip(SIDES, modules, strict=True):
        cell = joint.addCell(_id(name), _id(name))
        for wire in list(module.wires_.values()):
            label = wire.name.str()[1:]
            if wire.port_output:
                there = joint.addWire(_id(f"{name}:{label}"), wire.width)
                if GIVEN in label:
                    held.append(ys.SigSpec(there))
                    cell.setPort(wire.name, ys.SigSpec(there))
                    continue
                (inputs if label.startswith(SHARED) else outputs).setdefault(label, []).append(there)
            elif wire.port_input:
                if label not in inputs:
                    inputs[label] = [joint.addWire(_id(f"in:{label}"), wire.width)]
                    inputs[label][0].port_input = True
                there = inputs[label][0]
            else:
                continue
            cell.setPort(wire.name, ys.SigSpec(there))
    differ = ys.SigSpec()
    for label, (one, other) in outputs.items():
        compare = joint.Gt if wide and label.endswith(GATE_PORT) else joint.Ne
        differ.append(compare(_id(f"apart:{label}"), ys.SigSpec(one), ys.SigSpec(other)))
    apart = joint.addWire(_id("apart"), 1)
    apart.port_output = True
    joint.connect(ys.SigSpec(broken), _broken(joint, held))
    unbroken = joint.Not(_id("unbroken"), ys.SigSpec(broken))
    joint.connect(ys.SigSpec(apart), joint.And(_id("seen"), joint.ReduceOr(_id("any"), differ), unbroken))
    joint.fixup_ports()
    return design


def prove(path: str, scope: str, command: str, *how: str) -> dict:
    """Whether ABC proves that a module with a mutant is never apart from the intact one.

    ``how``: "alone", without its submodules but those whose names follow; "wide", if gates may be open more often;
    "given", with the invariants that follow (see :mod:`.invariants`).
    """
    how, invariants = (
        (how[: how.index(GIVEN_WORD)], how[how.index(GIVEN_WORD) + 1 :]) if GIVEN_WORD in how else (how, ())
    )
    with tempfile.TemporaryDirectory() as folder:
        within = tuple(word for word in how if word not in ("alone", "wide")) if "alone" in how else None
        design = _product(path, scope, command, folder, within, "wide" in how, invariants)
        _run(
            design, "hierarchy -top joint", "flatten", "opt_expr", "opt_merge -share_all", "opt_expr",
            "opt_merge -share_all", "opt_clean", "dffunmap", "techmap", "simplemap", "setundef -undriven -zero",
            "opt_expr", "opt_merge -share_all", "aigmap", "opt_clean", f"write_aiger -zinit {folder}/joint.aig",
        )  # fmt: skip
        latches = int((Path(folder) / "joint.aig").read_bytes().split(b"\n", 1)[0].split()[3])
        reduce = "scorr; scleanup; " if latches <= MOST_LATCHES else ""
        script = f"read_aiger {folder}/joint.aig; strash; scleanup; {reduce}pdr -T {SECONDS}; sat"
        result = subprocess.run([_ABC, "-c", script], capture_output=True, text=True)
    # What is left of a network without a state is for ``sat``.
    proved = any(phrase in result.stdout for phrase in ("Property proved", "UNSATISFIABLE"))
    return {"proved": proved, "latches": latches}


if __name__ == "__main__":
    print(json.dumps(prove(*sys.argv[1:])))
