"""Power of a netlist of standard cells, from the activity of its nets and the library's tables.

docs/decisions/power-summed-here.md says why OpenSTA doesn't compute it. Gates have no delay here, so their glitches
aren't counted. A clock after a gate toggles in the cycles for which the gate is open.
"""

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..design import Design
from ..errors import ToolError
from .gates import Gates
from .gating import open_shares
from .truth_tables import inputs_of, truth

if TYPE_CHECKING:
    from .activity import Activity

__all__ = ["Watts", "propagate", "watts"]

KNOWN = 0.95
"""Share of the flip-flops whose activity must be known."""


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
    """Joules a cycle of each cell and of the loads at its pins, by type: for clocks, and for all else."""
    found = {}
    for kind, pins in gates.nets.items():
        clock, data = np.zeros((2, len(gates.names[kind])))
        for name, nets in pins.items():
            pin = gates.library.pins[kind][name]
            spent = 0.5 * gates.library.volts**2 * pin.farads * toggles[nets]
            for by, table in pin.energies:
                loads = gates.farads[nets]
                if gates.is_gate(kind):  # which drives a tree of buffers, not all of its flip-flops
                    loads = np.minimum(loads, table.loads[-1])
                spent += table.at(loads, gates.slews[pins[by or name]]) * toggles[nets]
            ticks = gates.clock_nets[nets]
            clock += np.where(ticks, spent, 0.0)
            data += np.where(ticks, 0.0, spent)
        found[kind] = clock, data
    return found


def _ticking(gates, shares):
    """The mean share of cycles in which the clock of a flip-flop ticks."""
    found = [
        shares.get(net, 1.0)
        for kind, pins in gates.nets.items() if kind in gates.library.flip_flops
        for pin, nets in pins.items() if not gates.library.pins[kind][pin].output
        for net in nets.tolist() if gates.clock_nets[net]
    ]  # fmt: skip
    return float(np.mean(found)) if found else 1.0


class Watts(NamedTuple):
    """Power of a design's cells: ``parts`` (clock, data, leakage), ``of_cells`` by type, and ``shares``.

    Among the shares are those of flip-flops whose activity is known or estimated. ``clock_open`` is the share of cycles
    in which a flip-flop's clock ticks, the mean of all. ``clock_if_open`` is the watts of clocks if all gates were
    open.
    """

    parts: dict[str, float]
    shares: dict[str, float]
    of_cells: dict[str, np.ndarray]


def watts(gates: Gates, design: Design, activity: "Activity") -> Watts:
    """Power of a design's cells with the activity of a batch; raises ToolError if too little is known."""
    known, estimated = gates.rates(activity, design.scope(False))
    share = {
        "activity_known": len(gates.stored & known.keys()) / len(gates.stored),
        "activity_estimated": len(gates.stored & estimated) / len(gates.stored),
    }
    if share["activity_known"] < KNOWN:
        raise ToolError(f"the activity of only {share['activity_known']:.1%} of {design.name}'s flip-flops is known")
    shares = open_shares(gates, activity, gates.aliases(design.scope(False)))
    share["clock_open"] = _ticking(gates, shares)
    toggles = propagate(gates, known | {net: 2 * ticks for net, ticks in shares.items()}, activity.default)
    hertz = design.config.clock_hz
    joules = _joules(gates, toggles)
    clock, data = (sum(float(of[part].sum()) for of in joules.values()) * hertz for part in (0, 1))
    leaking = {kind: gates.library.leakage[kind] for kind in joules}
    of_cells = {kind: (ticks + moves) * hertz + leaking[kind] for kind, (ticks, moves) in joules.items()}
    toggles[gates.clock_nets] = 2.0
    share["clock_if_open"] = sum(float(ticks.sum()) for ticks, _ in _joules(gates, toggles).values()) * hertz
    leakage = sum(leaking[kind] * len(of) for kind, of in of_cells.items())
    return Watts({"clock": clock, "data": data, "leakage": leakage}, share, of_cells)
