"""Multipliers and sums of a PE array spread over a device."""

import json
from dataclasses import replace

import pytest
from adagp.synth import floorplan
from adagp.synth.ecp5 import ECP5, ROUTER
from adagp.synth.errors import ToolError

PLAN = ECP5.part("85k").plan
ROWS = PLAN.multipliers
CORE = "design.core"


def pe(row, column, array=f"{CORE}.compute.array"):
    return f"{array}.pe_r{row}_c{column}.multiplier.block"


def sums(slices, core=CORE):
    """Slices of the accumulator and of the biases."""
    accumulator = [f"{core}.compute.accumulator.half{h}.memory.0.{s}" for s in range(slices) for h in range(2)]
    return accumulator, [f"{core}.drain.bias$13.memory.memory.0.{s}" for s in range(slices)]


def kind(cell):
    return "DP16KD" if ".memory." in cell else "MULT18X18D"


def netlist(folder, cells):
    folder.mkdir()
    module = {
        "attributes": {"top": "1"}, "ports": {}, "netnames": {},
        "cells": {
            name: {"type": kind(name), "port_directions": {}, "parameters": {}, "attributes": {}, "connections": {}}
            for name in cells
        },
    }  # fmt: skip
    (folder / "netlist.json").write_text(json.dumps({"modules": {"adagp": module}}))
    return folder


def columns(site):
    return int(site.split("/")[0].removeprefix("X"))


@pytest.mark.parametrize(("height", "width"), [(8, 8), (4, 4), (6, 6), (4, 13), (12, 13)])
def test_each_column_has_a_strip(height, width):
    chosen = floorplan.sites([pe(r, c) for r in range(height) for c in range(width)], PLAN)
    assert len(chosen) == len(set(chosen.values())) == height * width
    assert set(chosen.values()) <= {site for row in ROWS for site in row}
    row_of = {site: index for index, row in enumerate(ROWS) for site in row}
    for row in range(height):  # by its first PEs below, its last above
        assert row_of[chosen[pe(row, 0)]] == row * len(ROWS) // height
    for c in range(width - 1):
        for index in range(len(ROWS)):
            here, next_ = (
                [columns(site) for r in range(height) if row_of[site := chosen[pe(r, col)]] == index]
                for col in (c, c + 1)
            )
            assert here and max(here) < min(next_)
    if 2 * height * width < sum(map(len, ROWS)):  # far apart: from one side of the device to the other
        assert max(map(columns, chosen.values())) - min(map(columns, chosen.values())) > 80


def test_the_largest_array_is_spread():
    cells = [pe(r, c) for r in range(4) for c in range(4)]
    accumulator, biases = sums(3)
    others = [pe(0, c, "design.predictor.compute.array") for c in range(6)]
    for cells_of_one in sums(2, "design.predictor"):
        others += cells_of_one
    found = floorplan.sites([*cells, *accumulator, *biases, *others, "design.update.product"], PLAN)
    assert set(found) == {*cells, *accumulator, *biases}


@pytest.mark.parametrize("slices", [1, 6, 20, 26])
def test_sums_stand_over_their_columns(slices):
    accumulator, biases = sums(slices)
    found = floorplan.sites([pe(0, 0), *reversed(accumulator), *biases], PLAN)
    assert len(set(found.values())) == 3 * slices + 1
    for cells, row in ((accumulator, PLAN.memories[0]), (biases, PLAN.memories[1])):
        places = [row.index(found[cell]) for cell in cells]
        assert places == sorted(places)
        assert abs(places[0] - (len(row) - 1 - places[-1])) <= 1  # as far from one side as from the other


def test_sums_without_room_stay_free():
    accumulator, biases = sums(27)
    assert set(floorplan.sites([pe(0, 0), *accumulator, *biases], PLAN)) == {pe(0, 0), *biases}


@pytest.mark.parametrize("cells", [[], ["design.update.product"], [pe(r, c) for r in range(12) for c in range(15)]])
def test_nothing_is_spread_where_there_is_no_array_or_no_room(cells):
    assert floorplan.sites(cells, PLAN) == {}


def test_only_the_array_is_fixed(tmp_path):
    source = netlist(tmp_path / "in", [pe(0, 0), pe(0, 1), "design.update.product"]) / "netlist.json"
    floorplan.write(source, tmp_path / "out.json", PLAN)
    module = json.loads((tmp_path / "out.json").read_text())["modules"]["adagp"]
    assert {name: cell["attributes"] for name, cell in module["cells"].items()} == {
        pe(0, 0): {"BEL": ROWS[0][0]}, pe(0, 1): {"BEL": ROWS[0][26]}, "design.update.product": {},
    }  # fmt: skip
    floorplan.write(source, tmp_path / "same.json", None)
    assert (tmp_path / "same.json").read_bytes() == source.read_bytes()
    others = ({"multipliers": ROWS[:2]}, {"memories": ROWS}, {"settings": ()})
    assert len({PLAN.identity, *(replace(PLAN, **other).identity for other in others)}) == 4


@pytest.mark.timeout(600)
def test_nextpnr_knows_every_place(tmp_path, monkeypatch):
    monkeypatch.setenv("ADAGP_CACHE", str(tmp_path / "cache"))
    cells = [pe(r, c) for r in range(12) for c in range(13)]
    assert len(cells) == ECP5.part("85k").has["multiplier"]
    cells += sums(26)[0] + sums(52)[1]
    assert 2 * [*map(kind, cells)].count("DP16KD") == ECP5.part("85k").has["ebr"]
    options = (*ROUTER.options("85k", "CABGA756", "6"), "--no-route", "--write", "placed.json")
    plan = replace(PLAN, options=())
    folder = ROUTER.run("all", netlist(tmp_path / "all", cells), options, 100, 1, plan).place()
    (module,) = json.loads((folder / "placed.json").read_text())["modules"].values()
    placed = module["cells"]
    found = {name: cell["attributes"]["NEXTPNR_BEL"] for name, cell in placed.items() if name in cells}
    assert found == floorplan.sites(cells, PLAN)
    assert dict(PLAN.settings).items() <= module["settings"].items()  # nextpnr has read them
    wrong = replace(plan, multipliers=(*ROWS[:2], tuple(site.replace("Y58", "Y59") for site in ROWS[2])))
    with pytest.raises(ToolError, match=r"No Bel named 'X\d+/Y59/MULT18_\d'"):
        ROUTER.run("all", tmp_path / "all", options, 100, 1, wrong).place()
