"""The harness' pins at fixed places: the netlist between them is what it was, and nextpnr puts them there."""

import copy
import json

import pytest
from adagp.synth import flow
from adagp.synth.ecp5 import ECP5, ROUTER
from adagp.synth.errors import ToolError
from adagp.synth.nextpnr import Run
from adagp.synth.pins import identity, place_pins
from pe_flow import run

PINS = ECP5.part("85k").pins


def cell(kind, **connections):
    directions = {pin: "output" if pin in "QZ" else "input" for pin in connections}
    return {"type": kind, "port_directions": directions, "connections": {p: [net] for p, net in connections.items()},
            "parameters": {}, "attributes": {}}  # fmt: skip


def module():
    """A register between ``si`` and ``so`` that ``rst`` clears; what it gives is read inside too."""
    cells = {
        "gate": cell("LUT4", A=4, B=3, C=5, D="0", Z=6), "register": cell("TRELLIS_FF", CLK=2, DI=6, Q=5),
    }  # fmt: skip
    ports = {name: {"direction": "output" if name == "so" else "input", "bits": [bit]}
             for name, bit in (("clk", 2), ("rst", 3), ("si", 4), ("so", 5))}  # fmt: skip
    nets = {name: {"hide_name": 0, "bits": [bit], "attributes": {}} for name, bit in
            (("clk", 2), ("rst", 3), ("si", 4), ("so", 5), ("d", 6))}  # fmt: skip
    return {"attributes": {"top": "1"}, "ports": ports, "cells": cells, "netnames": nets}


def test_each_port_has_a_pad_between_it_and_the_design():
    before, after = module(), module()
    place_pins(after, PINS)
    pads = {name: after["cells"].pop(f"{name}$pad") for name in before["ports"]}
    assert set(after["cells"]) == set(before["cells"]) and after["ports"] == before["ports"]
    inner = {}
    for name, pad in pads.items():
        side, direction = ("I", "OUTPUT") if name == "so" else ("O", "INPUT")
        assert pad["attributes"] == {"BEL": PINS[name]} and pad["parameters"] == {"DIR": direction}
        assert pad["connections"]["B"] == before["ports"][name]["bits"]
        inner[before["ports"][name]["bits"][0]] = pad["connections"][side][0]
    known = {bit for net in before["netnames"].values() for bit in net["bits"]}
    assert len(set(inner.values())) == 4 and not known & set(inner.values())
    for name, old in before["cells"].items():  # the same but for the nets behind the pads
        for pin, bits in old["connections"].items():
            assert after["cells"][name]["connections"][pin] == [inner.get(bit, bit) for bit in bits]


def test_a_port_without_a_place_is_an_error():
    with pytest.raises(KeyError, match="so"):
        place_pins(module(), {name: site for name, site in PINS.items() if name != "so"})


@pytest.mark.timeout(600)
def test_nextpnr_puts_them_there(tmp_path, monkeypatch):
    monkeypatch.setenv("ADAGP_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "netlist"
    folder.mkdir()
    design = copy.deepcopy(module())
    design["cells"]["gate"]["parameters"] = {"INIT": "1000000000000000"}
    (folder / "netlist.json").write_text(json.dumps({"modules": {"adagp": design}}))
    options = (*ROUTER.options("85k", "CABGA756", "6"), "--write", "placed.json")
    placed = ROUTER.run("pins", folder, options, 100, 2, pins=PINS).place()
    (found,) = json.loads((placed / "placed.json").read_text())["modules"].values()
    sites = {name: found["cells"][f"{name}$pad"]["attributes"]["NEXTPNR_BEL"] for name in PINS}
    assert sites == PINS
    wrong = PINS | {"si": "X126/Y12/PIOA"}
    with pytest.raises(ToolError, match="X126/Y12/PIOA"):
        ROUTER.run("pins", folder, options, 100, 2, pins=wrong).place()
    assert len({identity(PINS), identity(wrong)}) == 2


def test_designs_are_placed_between_them(cache, monkeypatch):
    class Placed(Exception):
        pass

    def place(attempt, _say):
        raise Placed(attempt.pins, attempt.identity)

    monkeypatch.setattr(Run, "place", place)
    with pytest.raises(Placed) as fixed:
        run("ecp5", (1,), part="85k")
    monkeypatch.setitem(flow.FPGAS["ecp5"][0].part("85k").__dict__, "pins", None)
    with pytest.raises(Placed) as free:
        run("ecp5", (1,), part="85k")
    assert fixed.value.args[0] == PINS and free.value.args[0] is None
    assert fixed.value.args[1] != free.value.args[1]
