"""The intact and the broken module side by side, and whether they differ."""

import re
from dataclasses import dataclass
from pathlib import Path

from pyosys import libyosys as ys

from . import fanout, yosys
from .miter_side import GATE_PORT, Side, identifier, plain

__all__ = ["JOINT", "How", "product", "run"]

JOINT = "joint"
"""The module that holds both."""
SIDES = ("gold", "gate")
SHARED = "shared:"
GIVEN = "given:"


@dataclass(frozen=True)
class How:
    """Options of a comparison.

    ``within``: submodules to keep (None: all); the others are cut out. ``wide``: the broken side's gates may be open
    more often. ``invariants``: conditions of the intact side. ``words``: memories of up to so many words are made of
    registers; larger ones are cut out.
    """

    within: tuple[str, ...] | None = None
    wide: bool = False
    invariants: tuple[str, ...] = ()
    words: int = 8


def run(design, *commands):
    for command in commands:
        ys.run_pass(f"tee -q {command}", design)


def _wire(design: ys.Design, module: ys.Module, name: str) -> ys.SigSpec:
    """A wire of a module, or of a submodule (submodule.wire), which gets a port for it."""
    instance, _, name = name.rpartition(".")
    if not instance:
        return ys.SigSpec(module.wire(identifier(name)))
    cell = module.cell(identifier(instance))
    inside = design.module(cell.type)
    wire = inside.wire(identifier(name))
    if not cell.hasPort(wire.name):
        wire.port_output = True
        inside.fixup_ports()
        cell.setPort(wire.name, ys.SigSpec(module.addWire(identifier(f"{instance}:{name}"), wire.width)))
    return cell.getPort(wire.name)


def _state(design: ys.Design, folder: str, invariants: tuple[str, ...]) -> None:
    """Compute each invariant (module: condition) in its module, as a wire that is kept."""
    for number, invariant in enumerate(invariants):
        name, _, condition = invariant.partition(": ")
        module = design.module(identifier(name))
        wires = [_wire(design, module, wire) for wire in re.findall(r"\{(.*?)\}", condition)]
        ports = ", ".join(f"input [{wire.size() - 1}:0] p{n}" for n, wire in enumerate(wires))
        for n in range(len(wires)):
            condition = re.sub(r"\{.*?\}", f"p{n}", condition, count=1)
        path = Path(folder) / "invariant.v"
        path.write_text(f"module invariant{number} ({ports}, output holds); assign holds = {condition}; endmodule")
        run(design, f"read_verilog {path}")
        cell = module.addCell(identifier(f"invariant{number}"), identifier(f"invariant{number}"))
        for n, wire in enumerate(wires):
            cell.setPort(identifier(f"p{n}"), wire)
        holds = module.addWire(identifier(f"{GIVEN}{number}"), 1)
        cell.setPort(identifier("holds"), ys.SigSpec(holds))
        run(design, f"setattr -set keep 1 {name}/w:{GIVEN}{number}")


def _share(modules: tuple[ys.Module, ys.Module], reached: set[str]) -> None:
    """Registers that aren't ``reached`` are kept in the intact module only, and shown to the broken one."""
    for module, port in zip(modules, ("port_output", "port_input"), strict=True):
        for cell in list(module.cells_.values()):
            if cell.is_builtin_ff() and cell.name.str() not in reached:
                held = cell.getPort(identifier("Q"))
                wire = module.addWire(identifier(f"{SHARED}{plain(cell.name.str())}"), held.size())
                setattr(wire, port, True)
                if port == "port_output":
                    module.connect(ys.SigSpec(wire), held)
                else:
                    module.connect(held, ys.SigSpec(wire))
                    module.remove(cell)


def _broken(joint: ys.Module, invariants: ys.SigSpec) -> ys.SigSpec:
    """1 if an invariant doesn't hold, or once didn't."""
    if not invariants.size():
        return ys.SigSpec(0, 1)
    before = ys.SigSpec(joint.addWire(identifier("broken_before"), 1))
    now = joint.Not(identifier("breaks"), joint.ReduceAnd(identifier("hold"), invariants))
    broken = joint.Or(identifier("breaks_or_broke"), now, before)
    joint.addFf(identifier("remember"), broken, before)
    return broken


def _follow(modules: tuple[ys.Module, ys.Module]) -> None:
    """Once an invariant is broken, make the broken module's registers follow the intact module's.

    Differences no longer count then. Registers that are equal while the invariants hold become equal for ever, and
    signal correspondence finds only such equalities.
    """
    gold, gate = modules
    broken = gate.addWire(identifier(f"{SHARED}broken"), 1)
    broken.port_input = True
    for module in modules:
        for cell in list(module.cells_.values()):
            if cell.is_builtin_ff():
                given = cell.getPort(identifier("D"))
                name = plain(cell.name.str())
                wire = module.addWire(identifier(f"{SHARED}next_{name}"), given.size())
                wire.port_output, wire.port_input = module is gold, module is gate
                if module is gold:
                    module.connect(ys.SigSpec(wire), given)
                else:
                    mux = module.Mux(identifier(f"follow_{name}"), given, ys.SigSpec(wire), ys.SigSpec(broken))
                    cell.setPort(identifier("D"), mux)
    for module in modules:
        module.fixup_ports()


def _write_sides(path: str, scope: str, command: str, folder: str, how: How) -> None:
    """Write module ``scope``, without the hierarchy in it, into a file for each side: as it is, and broken."""
    (Path(folder) / "gate.v").write_text(yosys.GATE)
    design = ys.Design()
    # What is undefined may be anything, but the same on both sides.
    run(
        design, f"read_verilog {folder}/gate.v", f"read_rtlil {path}", "setundef -undriven -anyseq",
        f"write_rtlil {folder}/both.il", "design -reset",
    )  # fmt: skip
    for name, mutate in zip(SIDES, (None, f"mutate {command}"), strict=True):
        run(design, f"read_rtlil {folder}/both.il")
        if mutate:
            run(design, mutate)
        else:
            _state(design, folder, how.invariants)
        if how.within is not None:
            run(design, "setattr -mod -set keep_hierarchy 1 *")
            run(design, *(f"setattr -mod -unset keep_hierarchy {module}" for module in (*how.within, "invariant*")))
        run(design, f"hierarchy -top {scope}", "flatten", "setattr -mod -unset keep_hierarchy *")
        run(design, f"rename {scope} {name}")
        run(design, f"memory_map {name}/t:$mem_v2 {name}/r:SIZE<={how.words} %i")
        run(design, *(f"{command} {name}" for command in ("dffunmap", "opt_expr", "opt_clean")))
        run(design, "select -clear", f"write_rtlil {folder}/{name}.il", "design -reset")


def _join(joint: ys.Module, modules: tuple[ys.Module, ys.Module], wide: bool) -> None:
    """Both sides on the same inputs, and their outputs compared for as long as the invariants hold."""
    broken = joint.addWire(identifier("broken"), 1)
    inputs: dict[str, list[ys.Wire]] = {f"{SHARED}broken": [broken]}
    outputs: dict[str, list[ys.Wire]] = {}
    held = ys.SigSpec()
    for name, module in zip(SIDES, modules, strict=True):
        cell = joint.addCell(identifier(name), identifier(name))
        for wire in list(module.wires_.values()):
            label = wire.name.str()[1:]
            if wire.port_output:
                there = joint.addWire(identifier(f"{name}:{label}"), wire.width)
                if GIVEN in label:
                    held.append(ys.SigSpec(there))
                else:
                    (inputs if label.startswith(SHARED) else outputs).setdefault(label, []).append(there)
            elif wire.port_input:
                if label not in inputs:
                    inputs[label] = [joint.addWire(identifier(f"in:{label}"), wire.width)]
                    inputs[label][0].port_input = True
                there = inputs[label][0]
            else:
                continue
            cell.setPort(wire.name, ys.SigSpec(there))
    differ = ys.SigSpec()
    for label, (one, other) in outputs.items():
        compare = joint.Gt if wide and label.endswith(GATE_PORT) else joint.Ne
        differ.append(compare(identifier(f"apart:{label}"), ys.SigSpec(one), ys.SigSpec(other)))
    apart = joint.addWire(identifier("apart"), 1)
    apart.port_output = True
    joint.connect(ys.SigSpec(broken), _broken(joint, held))
    unbroken = joint.Not(identifier("unbroken"), ys.SigSpec(broken))
    joint.connect(ys.SigSpec(apart), joint.And(identifier("seen"), joint.ReduceOr(identifier("any"), differ), unbroken))
    joint.fixup_ports()


def product(path: str, scope: str, command: str, folder: str, how: How) -> ys.Design:
    """Both sides in module ``JOINT``, whose output ``apart`` is 1 when they differ."""
    _write_sides(path, scope, command, folder, how)
    design = ys.Design()
    run(design, *(f"read_rtlil -nooverwrite {folder}/{name}.il" for name in SIDES))
    gold, gate = (design.module(identifier(name)) for name in SIDES)
    for wire in list(gold.wires_.values()):
        wire.port_output |= wire.name.str().rpartition(".")[2].lstrip("\\").startswith(GIVEN)
    _share((gold, gate), fanout.affected(*((Path(folder) / f"{name}.il").read_text() for name in SIDES)))
    for module in (gold, gate):
        Side(module, gated=not how.wide)
    if how.invariants:
        _follow((gold, gate))
    _join(design.addModule(identifier(JOINT)), (gold, gate), how.wide)
    return design
