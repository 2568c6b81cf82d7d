"""Pins of a design in its harness, at fixed places.

All that a placer has to begin with are the pins: it draws the design together between them, and spreads it from there.
Where it may choose them they are at random with every seed, and with both on one edge the design begins in a corner,
and ends with longer wires.
"""

from collections.abc import Mapping
from pathlib import Path

from ..gen.cache import digest

__all__ = ["identity", "place_pins"]


def identity(pins: Mapping[str, str]) -> str:
    """What tells these places from others."""
    return digest(repr(sorted(pins.items())), Path(__file__).read_bytes())


def place_pins(module: dict, pins: Mapping[str, str]) -> None:
    """Give each port of ``module``, a netlist's, the pad at its place in ``pins``; all ports are single bits.

    Raises KeyError for a port without a place.
    """
    nets = [bit for net in module["netnames"].values() for bit in net["bits"] if isinstance(bit, int)]
    inside = {}
    pads = {}
    for free, (name, port) in enumerate(module["ports"].items(), max(nets) + 1):
        (bit,) = port["bits"]
        inside[bit] = free
        side, towards = ("I", "input") if port["direction"] == "output" else ("O", "output")
        module["netnames"][f"{name}$inside"] = {"hide_name": 1, "bits": [free], "attributes": {}}
        pads[f"{name}$pad"] = {
            "hide_name": 0, "type": "TRELLIS_IO", "parameters": {"DIR": port["direction"].upper()},
            "attributes": {"BEL": pins[name]}, "port_directions": {"B": "inout", side: towards},
            "connections": {"B": [bit], side: [free]},
        }  # fmt: skip
    for cell in module["cells"].values():
        for bits in cell["connections"].values():
            bits[:] = [inside.get(bit, bit) for bit in bits]
    module["cells"] |= pads
