"""A board's place and route by the device's plan, with tools that only say what they were given."""

import json
import shutil

import pytest
from adagp.boards import flow_ecp5
from adagp.boards.ecpix5 import BOARD
from adagp.boards.errors import BoardError
from adagp.boards.steps import Steps
from adagp.gen.verilog import Vendor, to_verilog
from adagp.rtl.array import Array
from adagp.spec.presets import preset

PE = "accelerator.core.compute.array.pe_r0_c0.multiplier.block"
TOOL = """#!/usr/bin/env python3
import itertools, json, sys, time
open("given.json", "w").write(json.dumps(sys.argv[1:]))
if "7" in sys.argv:
    for n in itertools.count(158):
        print(f"Info:     iter={n} wires=9000 overused=12 overuse=12 tmgfail=3", flush=True)
        time.sleep(0.3)
open("top.config", "w").close()
open("top.bit", "w").close()
json.dump({"fmax": {"clk": {"achieved": 80.0, "constraint": 75.0}}, "utilization": {}}, open("place.json", "w"))
"""


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Places and routes a board with one multiplier, with a seed."""
    tool = tmp_path / "tool"
    tool.write_text(TOOL)
    tool.chmod(0o755)
    for name in ("NEXTPNR_ECP5", "ECPPACK"):
        monkeypatch.setenv(name, str(tool))
    assert shutil.which(str(tool))
    (tmp_path / "top.lpf").write_text("")

    def run(seed, luts=30_000, name=PE):
        cells = {name: {"type": "MULT18X18D", "attributes": {}}}
        modules = {"other": {"attributes": {}, "cells": {}}, "top": {"attributes": {"top": "01"}, "cells": cells}}
        (tmp_path / "top.json").write_text(json.dumps({"modules": modules}))
        monkeypatch.setattr(flow_ecp5, "synthesise", lambda *_: {"MULT18X18D": 1, "LUT4": luts})
        return flow_ecp5.build(Steps(tmp_path), BOARD, [], seed, False)

    return run


def test_the_plan_is_in_what_nextpnr_gets(build, tmp_path, monkeypatch):
    pack = tmp_path / "pack"
    pack.write_text("#!/bin/sh\n: > top.bit\n")
    pack.chmod(0o755)
    monkeypatch.setenv("ECPPACK", str(pack))
    assert build(3)["timing_met"]
    given = json.loads((tmp_path / "given.json").read_text())
    assert given[given.index("--json") + 1] == "planned.json" and given[given.index("--seed") + 1] == "3"
    assert " ".join(BOARD.plan.options) in " ".join(given)
    module = json.loads((tmp_path / "planned.json").read_text())["modules"]["top"]
    assert module["settings"] == dict(BOARD.plan.settings)
    sites = {site for row in BOARD.plan.multipliers for site in row}
    assert module["cells"][PE]["attributes"]["BEL"] in sites


def test_a_small_design_is_placed_without_the_plan(build, tmp_path, monkeypatch):
    pack = tmp_path / "pack"
    pack.write_text("#!/bin/sh\n: > top.bit\n")
    pack.chmod(0o755)
    monkeypatch.setenv("ECPPACK", str(pack))
    build(3, luts=1000)
    assert not set(BOARD.plan.options) & set(json.loads((tmp_path / "given.json").read_text()))
    module = json.loads((tmp_path / "planned.json").read_text())["modules"]["top"]
    assert module["cells"][PE]["attributes"] == {}


def test_a_plan_without_an_array_is_no_plan(build):
    with pytest.raises(BoardError, match=r"^ecpix5: no PE array is among the design's cells"):
        build(3, name="accelerator.core.compute.array.pe_r0_c0.multiplier.product")


def test_the_accelerators_multipliers_are_the_plans():
    """The Verilog that a board gets has ECP5's blocks, under the names that its plan looks for."""
    config = preset("tiny")
    text = to_verilog(Array(config), Vendor(flow_ecp5.FAMILY))
    assert text.count("  MULT18X18D #(") == text.count(") block (") == text.count(" multiplier (") == config.n_pes
    assert all(f" pe_r{r}_c{c} (" in text for r in range(config.rows) for c in range(config.cols))


def test_a_board_without_a_route_gets_one_line(build):
    with pytest.raises(BoardError, match=r"^ecpix5: nextpnr finds no places or no wires .* try another --seed$"):
        build(7)
