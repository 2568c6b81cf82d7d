"""Power of a netlist of standard cells, from the activity of its nets and the library's tables.

docs/decisions/power-summed-here.md says why OpenSTA doesn't compute it. Gates have no delay here, so their glitches
aren't counted.
"""

import json
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..design import Design
from ..errors import ToolError
from ..yosys import TOP
from .truth_tables import inputs_of, truth

if TYPE_CHECKING:
    from .activity import Activity
    from .liberty import Library

__all__ = ["Gates", "propagate", "watts"]

KNOWN = 0.95
"""Share of the flip-flops whose activity must be known."""
DEEPEST = 1000
"""Longest chain of gates; a longer one counts as a loop."""
_CONSTANTS = {"0": 0, "1": 1, "x": 0, "z": 0}  # Yosys numbers nets from 2


class Gates:
    """A JSON netlist as arrays: for each type of cell and each pin, the nets of all such cells.

    Nets are numbers; 0 and 1 are constants. Cells that the library lacks are memories, and the nets that they drive are
    inputs here. Flip-flops drive the nets ``stored``, gates drive ``logic``, and only ports and memories drive
    ``inputs``.
    """

    def __init__(self, folder: Path, library: "Library"):
        module = json.loads((folder / "netlist.json").read_text())["modules"][TOP]
        self.library, self.netnames = library, module["netnames"]
        self.clock: int = module["ports"]["clk"]["bits"][0]
        rows: dict[str, list[list[int]]] = {}
        for cell in module["cells"].values():
            if cell["type"] in library.pins:
                bits = (cell["connections"].get(pin, ["x"])[0] for pin in library.pins[cell["type"]])
                rows.setdefault(cell["type"], []).append([_CONSTANTS.get(bit, bit) for bit in bits])
        self.nets = {kind: dict(zip(library.pins[kind], np.array(of).T, strict=True)) for kind, of in rows.items()}
        found = [(library.pins[kind][pin], nets) for kind, pins in self.nets.items() for pin, nets in pins.items()]
        self.count = 1 + max(self.clock, *(int(nets.max()) for _, nets in found))
        self.farads = np.zeros(self.count)
        for pin, nets in found:
            np.add.at(self.farads, nets, pin.farads)
        self.farads[:2] = 0.0
        self.stored = {net for pin, nets in found if pin.output and pin.function is None for net in nets.tolist()}
        self.logic = {net for pin, nets in found if pin.function is not None for net in nets.tolist()}
        self.inputs = {*np.flatnonzero(self.farads).tolist()} - self.stored - self.logic - {self.clock}

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
                raise ToolError(f"the netlist has a loop of gates, or more than {DEEPEST} one behind the other")
        found = ((kind, level[outputs[0]]) for kind, (_, outputs) in pins.items())
        order = [(at, kind, np.flatnonzero(levels == at)) for kind, levels in found for at in np.unique(levels)]
        return [(kind, which) for _, kind, which in sorted(order, key=lambda each: each[0])]

    @cached_property
    def slews(self) -> np.ndarray:
        """Transition time of each net; 0 for the clock and for nets of ports and memories."""
        found = np.zeros(self.count)
        flip_flops = ((kind, slice(None)) for kind in self.nets.keys() - {kind for kind, _ in self.waves})
        for kind, which in (*flip_flops, *self.waves):
            nets = {pin: of[which] for pin, of in self.nets[kind].items()}
            for pin, of in self.library.pins[kind].items():
                tables = [table.at(self.farads[nets[pin]], found[nets[by or pin]]) for by, table in of.slews]
                if of.output:
                    found[nets[pin]] = np.sum(tables, axis=0) if tables else 0.0
        return found

    def rates(self, activity: "Activity", root: str) -> tuple[dict[int, float], set[int]]:
        """Toggles a cycle of the nets named below ``root``, by the first of their names that is known; and estimates.

        The second result is the nets whose rates are estimates. For nets of gates only names without numbers count,
        because a number may mean another net in another elaboration.
        """
        wanted = self.stored | self.logic | self.inputs
        aliases: dict[int, list] = {}
        for path, net in self.netnames.items():
            name = path.removeprefix(f"{root}.")
            for index, bit in enumerate(net["bits"] if name != path else ()):
                if bit in wanted and ("$" not in name or bit not in self.logic):
                    aliases.setdefault(bit, []).append((name, index, len(net["bits"])))
        found: dict[int, float] = {}
        estimated = set()
        for bit, names in aliases.items():
            names.sort(key=lambda alias: "$" in alias[0])
            rates = [rate for alias in names if (rate := activity.rate(*alias)) is not None][:1]
            if not rates and bit not in self.logic:
                rates = [rate for alias in names if (rate := activity.word_rate(*alias)) is not None][:1]
                estimated.update([bit] * len(rates))
            found.update((bit, min(rate, 1.0)) for rate in rates)
        return found, estimated


@cache
def _transfer(function: str, inputs: tuple[str, ...]) -> np.ndarray:
    """Change of a gate's output (0: stays low, 1: rises, 2: falls, 3: stays high) for all changes of its inputs."""
    table = np.array(truth(function, inputs), int)
    doing = np.indices((4,) * len(inputs)).reshape(len(inputs), -1)
    weights = 1 << np.arange(len(inputs))[::-1]
    return np.eye(4)[2 * table[weights @ (doing >> 1)] + table[weights @ (doing & 1)]]


def propagate(gates: Gates, known: dict[int, float], default: float) -> np.ndarray:
    """Toggles a cycle of all nets: as in ``known``, or computed through the gates; the clock has 2.

    Inputs of a gate count as independent, and as toggling at once if they toggle in the same cycle. Known nets count
    as high half of the time.
    """
    high, toggles = np.full(gates.count, 0.5), np.full(gates.count, default)
    high[:2], toggles[:2] = (0.0, 1.0), 0.0
    bits = np.array([*known], int)
    rates = np.full(gates.count, np.nan)
    rates[bits] = [*known.values()]
    toggles[bits] = rates[bits]
    for kind, which in gates.waves:
        for name, pin in gates.library.pins[kind].items():
            if pin.function is None:
                continue
            inputs = inputs_of(pin.function)
            joint = np.ones((len(which), 1))
            for each in inputs:
                net = gates.nets[kind][each][which]
                half = toggles[net] / 2
                does = np.stack([1 - high[net] - half, half, half, high[net] - half], axis=1)
                joint = (joint[:, :, None] * does[:, None]).reshape(len(which), -1)
            does = joint @ _transfer(pin.function, inputs)
            net = gates.nets[kind][name][which]
            toggles[net] = np.where(np.isnan(rates[net]), does[:, 1] + does[:, 2], rates[net])
            # A net that toggles more often than computed is both high and low for at least as long as this takes.
            high[net] = np.clip(does[:, 1] + does[:, 3], toggles[net] / 2, 1 - toggles[net] / 2)
    toggles[gates.clock] = 2.0
    return toggles


def _joules(gates, toggles):
    """Joules a cycle: of the clock's net and pins, and of all others."""
    volts, slews = gates.library.volts, gates.slews
    charged = 0.5 * volts**2 * gates.farads * toggles
    clock, data = charged[gates.clock], charged.sum() - charged[gates.clock]
    for kind, pins in gates.nets.items():
        for name, nets in pins.items():
            for by, table in gates.library.pins[kind][name].energies:
                spent = table.at(gates.farads[nets], slews[pins[by or name]]) * toggles[nets]
                clock += spent[nets == gates.clock].sum()
                data += spent[nets != gates.clock].sum()
    return float(clock), float(data)


def watts(gates: Gates, design: Design, activity: "Activity") -> tuple[dict[str, float], dict[str, float]]:
    """Power of a design's cells (clock, data, leakage), and shares of flip-flops whose activity is known or estimated.

    Raises ToolError if too little is known.
    """
    known, estimated = gates.rates(activity, design.scope(False))
    share = {
        "activity_known": len(gates.stored & known.keys()) / len(gates.stored),
        "activity_estimated": len(gates.stored & estimated) / len(gates.stored),
    }
    if share["activity_known"] < KNOWN:
        raise ToolError(f"the activity of only {share['activity_known']:.1%} of {design.name}'s flip-flops is known")
    clock, data = _joules(gates, propagate(gates, known, activity.default))
    hertz = design.config.clock_hz
    leakage = sum(gates.library.leakage[kind] * len(next(iter(pins.values()))) for kind, pins in gates.nets.items())
    return {"clock": clock * hertz, "data": data * hertz, "leakage": leakage}, share
