"""From a checked design to an and-inverter graph: every check becomes an output of its own, assumptions a condition."""

import re
from collections.abc import Container
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from pyosys import libyosys as ys

__all__ = ["Netlist", "build", "gates_between"]

_MAP = """
    opt -full; memory_map; opt -full; dffunmap; techmap; simplemap; setundef -undriven -anyseq; opt_expr; opt_merge;
    aigmap; opt_clean
"""
_FREE = "setundef -undriven -anyseq"
"""Undriven signals may be anything; else optimisation takes them for whatever suits it."""


@dataclass(frozen=True)
class Netlist:
    """An AIGER file.

    ``outputs``: what an output shows, as (flavour, name) by its number; 1 is what is searched for. ``constant``: checks
    whose outputs are always 0, which logic optimisation saw.
    """

    path: Path
    outputs: dict[int, tuple[str, str]]
    constant: tuple[tuple[str, str], ...]
    registers: int


def _run(design, script):
    for command in script.split(";"):
        if command.strip():
            ys.run_pass(f"tee -q {command.strip()}", design)


def _checks(module):
    """Checks of a flattened module: (flavour, name, condition, enable)."""
    found = []
    for cell in list(module.cells_.values()):
        if cell.type.str() == "$check":
            flavour, name = (
                cell.parameters[ys.IdString(f"\\{key}")].decode_string().strip() for key in ("FLAVOR", "FORMAT")
            )
            name = name or "assertion"
            where = cell.name.str().replace("$flatten", "").replace("\\", "").rpartition(".")[0]
            enable, condition = (cell.getPort(ys.IdString(f"\\{port}")) for port in ("EN", "A"))
            found.append((flavour, f"{where}: {name}" if where else name, condition, enable))
            module.remove(cell)
    return sorted(found, key=lambda check: check[:2])


def _outputs(design, module, doubtful):
    """Replace checks by outputs: 1 where an assertion fails or a cover is reached, and nothing was violated before."""
    checks = _checks(module)
    numbers = count()

    def name():
        return ys.IdString(f"\\formal_{next(numbers)}")

    unspoiled = module.addWire(ys.IdString("\\unspoiled"), 1)
    possible = ys.SigSpec(unspoiled)
    for flavour, _, condition, enable in checks:
        if flavour == "assume":
            met = module.Or(name(), condition, module.Not(name(), enable))
            possible = module.And(name(), possible, met)
    still = possible
    outputs = {}
    for number, (flavour, check, condition, enable) in enumerate(c for c in checks if c[0] != "assume"):
        sought = condition if flavour == "cover" else module.Not(name(), condition)
        wire = module.addWire(ys.IdString(f"\\formal_output_{number}"), 1)
        wire.port_output = True
        found = module.And(name(), sought, enable)
        module.connect(ys.SigSpec(wire), module.And(name(), found, possible))
        if flavour == "assert" and check not in doubtful:
            still = module.And(name(), still, module.Not(name(), found))
        outputs[wire.name.str()[1:]] = (flavour, check)
    module.addDff(name(), ys.SigSpec(module.wire(ys.IdString("\\clk"))), still, ys.SigSpec(unspoiled))
    _run(design, "setattr -set init 1'1 w:unspoiled")
    module.fixup_ports()
    return outputs


def _read(rtlil, folder):
    """The design, flattened, and its top module."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "design.il").write_text(rtlil)
    design = ys.Design()
    _run(design, f"read_rtlil {folder / 'design.il'}; hierarchy -top top; flatten; proc; opt_clean")
    return design, design.top_module()


def gates_between(rtlil: str, folder: Path, pairs: dict) -> dict[str, bool]:
    """For each named pair of an output and an input signal of the design: whether gates lead from input to output.

    Raises KeyError for a signal that the design doesn't have.
    """
    if not pairs:
        return {}
    design, module = _read(rtlil, folder)
    _checks(module)
    _run(design, "memory_collect")
    for cell in list(module.cells_.values()):
        # No gates lead through a memory that is read by a clock.
        if cell.type.str() == "$mem_v2" and cell.parameters[ys.IdString("\\RD_CLK_ENABLE")].is_fully_ones():
            module.remove(cell)
    _run(design, _FREE)
    _run(design, _MAP)
    path, names = folder / "gates.aag", folder / "gates.map"
    _run(design, f"write_aiger -ascii -zinit -map {names} {path}")
    inputs, outputs, gates = _graph(path.read_text(), names.read_text())
    found = {}
    for name, (output, port) in pairs.items():
        for signal in (output, port):
            if not re.search(rf"^ *wire .*\\{re.escape(signal.name)}$", rtlil, re.MULTILINE):
                raise KeyError(f"{name}: the design has no signal {signal.name!r}")
        # A constant output, or an input that nothing depends on, has no gates.
        cone, wanted = set(), [outputs[output.name]] if output.name in outputs else []
        while wanted:
            node = wanted.pop()
            if node not in cone:
                cone.add(node)
                wanted += gates.get(node, ())
        found[name] = inputs.get(port.name) in cone
    return found


def _graph(text, names):
    """Variables of single-bit inputs and outputs by name, and of the gates' inputs, of an AIGER file and its map."""
    lines = text.splitlines()
    _, n_inputs, n_latches, n_outputs, n_gates = map(int, lines[0].split()[1:6])
    values = [
        [int(word) >> 1 for word in line.split()] for line in lines[1 : 1 + n_inputs + n_latches + n_outputs + n_gates]
    ]
    first_output = n_inputs + n_latches
    gates = {out: ins for out, *ins in values[first_output + n_outputs :]}
    inputs, outputs = {}, {}
    for kind, index, _, name in (words[:4] for words in map(str.split, names.splitlines()) if len(words) >= 4):
        if kind == "input":
            inputs[name] = values[int(index)][0]
        elif kind == "output":
            outputs[name] = values[first_output + int(index)][0]
    return inputs, outputs, gates


def build(rtlil: str, folder: Path, cut: tuple[str, ...] = (), doubtful: Container[str] = ()) -> Netlist:
    """Write ``folder/design.aig`` for a design given as RTLIL.

    ``cut``: Yosys selections (as ``t:$mul``) of cells of the block that are taken out; what they drove takes any value
    at any time, so that whatever is proved holds all the more with them. What they assert themselves isn't checked.

    No assertion shows its failure after a cycle in which one had failed: where none is shown, none is, and
    each is proved with the help of all others in the cycles before. Assertions in ``doubtful`` help none.
    """
    design, module = _read(rtlil, folder)
    for wire in list(module.wires_.values()):
        if wire.port_output:
            wire.port_output = False
    module.fixup_ports()
    for selection in cut:
        _run(design, f"delete {selection} t:$check %i c:*dut.* %i")  # what a block that is cut asserts
    outputs = _outputs(design, module, doubtful)
    _run(design, "memory_collect")
    for selection in cut:
        _run(design, f"delete {selection} c:*dut.* %i")  # nothing of the checks
    _run(design, _FREE)
    _run(design, _MAP)
    path, names = folder / "design.aig", folder / "design.map"
    _run(design, f"write_aiger -zinit -map {names} {path}")
    entries = [line.split() for line in names.read_text().splitlines() if line.startswith("output ")]
    shown = {int(index): outputs.pop(name) for _, index, _, name in entries}
    registers = int(path.read_bytes().split(b"\n", 1)[0].split()[3])
    return Netlist(path, shown, tuple(outputs.values()), registers)
