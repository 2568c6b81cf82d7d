"""A netlist of standard cells as arrays: its nets, which of them are clocks, and the order of its gates."""

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import ToolError
from ..yosys import TOP

if TYPE_CHECKING:
    from .activity import Activity
    from .liberty import Library

__all__ = ["Gates"]

DEEPEST = 1000
"""Longest chain of gates; a longer one counts as a loop."""
_CONSTANTS = {"0": 0, "1": 1, "x": 0, "z": 0}  # Yosys numbers nets from 2


class Gates:
    """A JSON netlist as arrays: for each type of cell and each pin, the nets of all such cells.

    ``names`` has the cells' names by type. Nets are numbers; 0 and 1 are constants. Cells that the library lacks are
    memories, and the nets that they drive are inputs here. Flip-flops drive the nets ``stored``, gates drive ``logic``,
    and only ports and memories drive ``inputs``. ``clocks`` has the net of each gated clock, and the clock that its
    gate hangs on; a gate comes after the one that it hangs on.
    """

    def __init__(self, folder: Path, library: "Library"):
        module = json.loads((folder / "netlist.json").read_text())["modules"][TOP]
        self.library, self.netnames = library, module["netnames"]
        self.clock: int = module["ports"]["clk"]["bits"][0]
        rows: dict[str, list[list[int]]] = {}
        self.names: dict[str, list[str]] = {}
        for name, cell in module["cells"].items():
            if cell["type"] in library.pins:
                self.names.setdefault(cell["type"], []).append(name)
                bits = (cell["connections"].get(pin, ["x"])[0] for pin in library.pins[cell["type"]])
                rows.setdefault(cell["type"], []).append([_CONSTANTS.get(bit, bit) for bit in bits])
        self.nets = {kind: dict(zip(library.pins[kind], np.array(of).T, strict=True)) for kind, of in rows.items()}
        found = [(library.pins[kind][pin], nets) for kind, pins in self.nets.items() for pin, nets in pins.items()]
        self.count = 1 + max(self.clock, *(int(nets.max()) for _, nets in found))
        self.farads = np.zeros(self.count)
        for pin, nets in found:
            np.add.at(self.farads, nets, pin.farads)
        self.farads[:2] = 0.0
        self.clocks = self._clocks()
        self.clock_nets = np.isin(np.arange(self.count), [self.clock, *self.clocks])
        self.outputs = [  # of each flip-flop that has two: one is the other's opposite
            [net for net in outputs if net > 1] for kind, pins in self.nets.items()
            if len(of := [nets for pin, nets in pins.items() if library.pins[kind][pin].output]) > 1
            and kind in library.flip_flops
            for outputs in np.stack(of, axis=1).tolist()
        ]  # fmt: skip
        self.stored = {net for pin, nets in found if pin.output and pin.function is None for net in nets.tolist()}
        self.stored -= {0, 1, *self.clocks}
        self.logic = {net for pin, nets in found if pin.function is not None for net in nets.tolist()}
        self.inputs = {*np.flatnonzero(self.farads).tolist()} - self.stored - self.logic
        self.inputs -= {self.clock, *self.clocks}

    def _clocks(self):
        gate = self.library.gate
        found: dict[int, int] = {}
        if gate is None or gate.name not in self.nets:
            return found
        pins = self.nets[gate.name]
        left = dict(zip(pins[gate.output].tolist(), pins[gate.clock].tolist(), strict=True))
        while ready := {net: source for net, source in left.items() if source not in left}:
            found |= ready
            left = {net: source for net, source in left.items() if net not in ready}
        return found

    def is_gate(self, kind: str) -> bool:
        """If cells of this type are clock gates."""
        return self.library.gate is not None and kind == self.library.gate.name

    @cached_property
    def waves(self) -> list[tuple[str, np.ndarray]]:
        """Groups of gates as (type, numbers), ordered so that each gate comes after the gates that drive it.

        Raises ToolError for a loop of gates.
        """
        pins = {
            kind: ([nets[pin] for pin in nets if not of[pin].output], [nets[pin] for pin in nets if of[pin].output])
            for kind, nets in self.nets.items() for of in (self.library.pins[kind],)
            if any(pin.function is not None for pin in of.values())
        }  # fmt: skip
        level = np.zeros(self.count, int)
        before = level + 1
        while not np.array_equal(before, level):
            before = level.copy()
            for inputs, outputs in pins.values():
                behind = 1 + np.max([level[nets] for nets in inputs], axis=0, initial=0)
                for nets in outputs:
                    level[nets] = behind
            level[:2] = 0
            if level.max() > DEEPEST:
                raise ToolError(f"the netlist has a loop of gates, or more than {DEEPEST} in a row")
        found = ((kind, level[outputs[0]]) for kind, (_, outputs) in pins.items())
        order = [(at, kind, np.flatnonzero(levels == at)) for kind, levels in found for at in np.unique(levels)]
        return [(kind, which) for _, kind, which in sorted(order, key=lambda each: each[0])]

    @cached_property
    def slews(self) -> np.ndarray:
        """Transition time of each net; 0 for clocks and for nets of ports and memories."""
        found = np.zeros(self.count)
        logic = {kind for kind, _ in self.waves}
        flip_flops = ((kind, slice(None)) for kind in self.nets if kind not in logic and not self.is_gate(kind))
        for kind, which in (*flip_flops, *self.waves):
            nets = {pin: of[which] for pin, of in self.nets[kind].items()}
            for pin, of in self.library.pins[kind].items():
                tables = [table.at(self.farads[nets[pin]], found[nets[by or pin]]) for by, table in of.slews]
                if of.output:
                    found[nets[pin]] = np.sum(tables, axis=0) if tables else 0.0
        return found

    def aliases(self, root: str) -> dict[int, list[tuple[str, int, int]]]:
        """Names below ``root`` of nets, each as (name, bit, width), those without numbers first.

        For nets of gates only names without numbers count, because a number may mean another net in another
        elaboration.
        """
        wanted = self.stored | self.logic | self.inputs | self.clocks.keys()
        aliases: dict[int, list] = {}
        for path, net in self.netnames.items():
            name = path.removeprefix(f"{root}.")
            for index, bit in enumerate(net["bits"] if name != path else ()):
                if bit in wanted and ("$" not in name or bit not in self.logic):
                    aliases.setdefault(bit, []).append((name, index, len(net["bits"])))
        for names in aliases.values():
            names.sort(key=lambda alias: "$" in alias[0])
        return aliases

    def rates(self, activity: "Activity", root: str) -> tuple[dict[int, float], set[int]]:
        """Toggles a cycle of the nets named below ``root``, by the first of their names that is known; and estimates.

        Both outputs of a flip-flop toggle alike, though often one alone has a name.
        The second result is the nets whose rates are estimates.
        """
        found: dict[int, float] = {}
        estimated = set()
        for bit, names in self.aliases(root).items():
            if bit in self.clocks:
                continue
            rates = [rate for alias in names if (rate := activity.rate(*alias)) is not None][:1]
            if not rates and bit not in self.logic:
                rates = [rate for alias in names if (rate := activity.word_rate(*alias)) is not None][:1]
                estimated.update([bit] * len(rates))
            found.update((bit, min(rate, 1.0)) for rate in rates)
        for outputs in self.outputs:
            if of := [net for net in outputs if net in found]:
                found.update((net, found[of[0]]) for net in outputs if net not in found)
                estimated.update(outputs if of[0] in estimated else ())
        return found, estimated
