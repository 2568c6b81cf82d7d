"""Read from a Liberty file the data of standard cells that power and area need."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..errors import TargetError
from .truth_tables import inputs_of

__all__ = ["LIBERTY", "PROCESSES", "Gate", "Library", "Pin", "Table"]

LIBERTY = Path("/usr/share/qflow/tech/osu018/osu018_stdcells.lib")
PROCESSES = {"osu018_stdcells": 180.0, "sg13g2_stdcell": 130.0, "sky130_fd_sc_hd": 130.0}
"""Nanometres of known processes, by how their libraries' names begin: a library's files differ in corner and voltage.

Liberty files don't say them, and figures of memories need them."""

GATES = ("latch_posedge", "latch_posedge_precontrol", "latch_posedge_postcontrol")
"""Liberty's kinds of clock gates that fit: a latch, then an AND gate."""

LOAD = "total_output_net_capacitance"
"""Variable of tables that is a load; the other one is a transition time."""
_SCALES = {"m": 1e-3, "u": 1e-6, "n": 1e-9, "p": 1e-12, "f": 1e-15, "": 1.0}
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_STATEMENT = re.compile(r'(\w+)\s*(?:\(([^()]*)\)\s*(\{)?|:\s*("[^"]*"|[^;{}\n]*))|\}')
_NUMBER = re.compile(r"[-+]?[\d.]+(?:[eE][-+]?\d+)?")
_LEAKAGE = re.compile(r"([\d.]+)\s*([munpf]?)W")


@dataclass(frozen=True)
class _Group:
    """A group of a Liberty file: ``kind (name) { ... }``; ``values``: of attributes, their text without quotes."""

    kind: str
    name: str
    values: dict[str, str] = field(default_factory=dict)
    groups: list["_Group"] = field(default_factory=list)

    def of(self, kind):
        return [group for group in self.groups if group.kind == kind]


def _read(text):
    """The group around all of a Liberty file."""
    stack = [_Group("", "")]
    for word, arguments, opens, value in _STATEMENT.findall(_COMMENT.sub("", text)):
        if opens:
            group = _Group(word, arguments.strip(' \t"'))
            stack[-1].groups.append(group)
            stack.append(group)
        elif word:
            stack[-1].values[word] = (arguments or value).strip(' \t"')
        elif len(stack) > 1:
            stack.pop()
    return stack[0]


def _numbers(text):
    return np.array([float(number) for number in _NUMBER.findall(text)])


@dataclass(frozen=True)
class Table:
    """Values by load (farads) and by the time of an input's transition (the library's unit)."""

    loads: np.ndarray
    slews: np.ndarray
    values: np.ndarray

    @classmethod
    def read(cls, group: _Group, templates: Mapping[str, _Group], load_unit: float, scale: float) -> "Table":
        """Read a table of a Liberty file, its values times ``scale``; raises TargetError if it has no template."""
        if group.name != "scalar" and group.name not in templates:
            raise TargetError(f"a Liberty file's table {group.kind} has no template {group.name}")
        template = templates.get(group.name, group)
        axes = {}
        for n in (1, 2):
            if variable := template.values.get(f"variable_{n}"):
                index = group.values.get(f"index_{n}") or template.values[f"index_{n}"]
                axes["loads" if variable == LOAD else "slews"] = _numbers(index)
        values = scale * _numbers(group.values["values"]).reshape([len(axis) for axis in axes.values()])
        if next(iter(axes), "") == "slews":
            values = values.T
        loads, slews = (axes.get(name, np.zeros(1)) for name in ("loads", "slews"))
        return cls(loads * load_unit, slews, values.reshape(len(loads), len(slews)))

    def at(self, load: np.ndarray, slew: np.ndarray) -> np.ndarray:
        """Between and beyond its points the values go on in straight lines."""
        (i, x), (j, y) = _place(self.loads, load), _place(self.slews, slew)
        up, right = min(1, len(self.loads) - 1), min(1, len(self.slews) - 1)
        low = self.values[i, j] * (1 - y) + self.values[i, j + right] * y
        return low * (1 - x) + (self.values[i + up, j] * (1 - y) + self.values[i + up, j + right] * y) * x


def _place(axis, at):
    """The point at or before each, and how far on it is to the next."""
    if len(axis) == 1:
        return np.zeros(np.shape(at), int), np.zeros(np.shape(at))
    low = np.clip(np.searchsorted(axis, at, side="right") - 1, 0, len(axis) - 2)
    return low, (at - axis[low]) / (axis[low + 1] - axis[low])


@dataclass(frozen=True)
class Pin:
    """A cell's pin. ``function`` is the function of a gate's output; None for inputs and outputs of flip-flops.

    The sum of the tables in ``energies`` is the joules that one toggle takes inside the cell. The sum of those in
    ``slews`` is the toggle's transition time. Each table has the input pin whose transition it depends on (None: the
    pin itself).
    """

    farads: float
    output: bool
    function: str | None
    energies: tuple[tuple[str | None, Table], ...] = ()
    slews: tuple[tuple[str | None, Table], ...] = ()


def _tables(pin, kind, names, templates, load_unit, scale):
    """Tables of a pin, scaled so that their sum is the mean of its rises and falls.

    A table for both rise and fall (the last of ``names``) counts in full, others by half.
    """
    found = [
        (group.values.get("related_pin", "").split(), table)
        for group in pin.of(kind) for table in group.groups if table.kind in names
    ]  # fmt: skip
    alike = Counter(table.kind for _, table in found)
    shares = {name: (1.0 if name == names[-1] else 0.5) / count for name, count in alike.items()}
    return tuple(
        (pins[0] if pins else None, Table.read(table, templates, load_unit, scale * shares[table.kind]))
        for pins, table in found
    )


@dataclass(frozen=True)
class Gate:
    """An integrated clock gate: the cell's name, its pins, and those pins of a test that must be 0."""

    name: str
    clock: str
    enable: str
    output: str
    test: tuple[str, ...] = ()


def _gate(path, cells, areas):
    """The smallest clock gate with the fewest pins for tests; None if there is none. Raises TargetError."""
    found = []
    for name, cell in cells.items():
        if cell.values.get("clock_gating_integrated_cell") in GATES:
            roles: dict[str, list[str]] = {"clock": [], "enable": [], "out": [], "test": []}
            for pin in cell.of("pin"):
                for role, pins in roles.items():
                    pins += [pin.name] * (pin.values.get(f"clock_gate_{role}_pin") == "true")
            if any(len(roles[role]) != 1 for role in ("clock", "enable", "out")):
                raise TargetError(f"{path}: the clock gate {name} must have one clock, one enable and one output pin")
            clock, enable, out = (roles[role][0] for role in ("clock", "enable", "out"))
            found.append((len(roles["test"]), areas[name], Gate(name, clock, enable, out, tuple(roles["test"]))))
    return min(found, key=lambda each: each[:2])[2] if found else None


@dataclass(frozen=True)
class Library:
    """A Liberty file's cells: areas and watts of leakage by name, pins by name of both, and which are flip-flops.

    ``buffer`` is taken to drive inputs; ``nm``, of the process, is None where it isn't known. Raises TargetError for
    one that lacks any other of these.
    """

    path: Path
    areas: Mapping[str, float] = field(init=False)
    pins: Mapping[str, Mapping[str, Pin]] = field(init=False)
    leakage: Mapping[str, float] = field(init=False)
    flip_flops: frozenset[str] = field(init=False)
    buffer: str = field(init=False)
    gate: Gate | None = field(init=False)
    volts: float = field(init=False)
    nm: float | None = field(init=False)

    def __post_init__(self):
        root = _read(self.path.read_text(errors="replace"))
        library = next(iter(root.of("library")), root)
        cells = {cell.name: cell for cell in library.of("cell")}
        if not cells:
            raise TargetError(f"{self.path} is no Liberty file: it has no cells")
        areas = {name: float(cell.values["area"]) for name, cell in cells.items() if "area" in cell.values}
        if lacking := sorted(cells.keys() - areas.keys()):
            raise TargetError(f"{self.path} has no area of {len(lacking)} of its {len(cells)} cells, as {lacking[0]}")
        flip_flops = frozenset(name for name, cell in cells.items() if cell.of("ff"))
        if not flip_flops:
            raise TargetError(f"{self.path} has no flip-flops: none of its {len(cells)} cells has an ff group")
        volts = library.values.get("nom_voltage")
        unit, _, scale = library.values.get("capacitive_load_unit", "").strip().partition(",")
        scale = scale.strip(' "').lower()
        if volts is None or scale not in ("pf", "ff"):
            raise TargetError(f"{self.path} has no nom_voltage or no capacitive_load_unit in pF or fF")
        farads = float(unit.strip(' "')) * _SCALES[scale[0]]
        pins = {name: _pins(cell, library, farads) for name, cell in cells.items()}
        buffers = sorted(name for name in cells.keys() - flip_flops if _is_buffer(pins[name]))
        if not buffers:
            raise TargetError(f"{self.path} has no buffers: no cell's output is its only input")
        found = {
            "areas": areas, "pins": pins, "leakage": _leakage(cells, library), "flip_flops": flip_flops,
            "buffer": buffers[0], "gate": _gate(self.path, cells, areas),
            "volts": float(volts), "nm": _nanometres(library.name),
        }  # fmt: skip
        for key, figure in found.items():
            object.__setattr__(self, key, figure)


def _nanometres(library):
    """A library's feature size; None if its process isn't known."""
    return next((size for name, size in PROCESSES.items() if library.startswith(name)), None)


def _pins(cell, library, load_unit):
    """A cell's pins; energies are in load units times square volts."""
    templates = {group.name: group for group in library.groups if group.kind.endswith("template")}
    inputs = {pin.name for pin in cell.of("pin") if pin.values.get("direction") not in ("output", "internal")}
    energies = ("rise_power", "fall_power", "power")
    slews = ("rise_transition", "fall_transition", "")
    pins = {}
    for pin in cell.of("pin"):
        if pin.values.get("direction") == "internal":
            continue
        function = pin.values.get("function")
        pins[pin.name] = Pin(
            float(pin.values.get("capacitance", 0)) * load_unit, pin.name not in inputs,
            function if function is not None and inputs.issuperset(inputs_of(function)) else None,
            _tables(pin, "internal_power", energies, templates, load_unit, load_unit),
            _tables(pin, "timing", slews, templates, load_unit, 1.0),
        )  # fmt: skip
    return pins


def _leakage(cells, library):
    """Watts by cell: of the whole of it or else the mean over its states; 0 where the file says nothing."""
    found = _LEAKAGE.search(library.values.get("leakage_power_unit", ""))
    unit = float(found[1]) * _SCALES[found[2]] if found else 0.0
    default = library.values.get("default_cell_leakage_power", "0")
    watts = {}
    for name, cell in cells.items():
        states = [float(group.values["value"]) for group in cell.of("leakage_power") if "value" in group.values]
        own = cell.values.get("cell_leakage_power")
        watts[name] = unit * (float(np.mean(states)) if states and own is None else float(own or default))
    return watts


def _is_buffer(pins):
    functions = [pin.function.strip(" ()") for pin in pins.values() if pin.function is not None]
    return len(pins) == 2 and len(functions) == 1 and functions[0] in pins
