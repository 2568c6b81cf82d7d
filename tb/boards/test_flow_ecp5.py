"""A board's place and route by the device's plan, with tools that only say what they were given."""

import json
import shutil

import pytest
from adagp.boards import flow_ecp5
from adagp.boards.ecpix5 import BOARD
from adagp.boards.errors import BoardError
from adagp.boards.steps import Steps
from adagp.gen.verilog import Vendor, to_verilog
from adagp.rtl.compute.array import Array
from adagp.spec.presets import preset
from adagp.synth.errors import ToolError

PLAN = BOARD.part.plan
PE = "accelerator.core.compute.array.pe_r0_c0.multiplier.block"
TOOL = """#!/usr/bin/env python3
import itertools, json, os, sys, time
if "--version" in sys.argv:
    print("tool 1.0")
    sys.exit()
open("given.json", "w").write(json.dumps(sys.argv[1:]))
if "7" in sys.argv:
    for n in itertools.count(158):
        print(f"Info:     iter={n} wires=9000 overused=12 overuse=12 tmgfail=3", flush=True)
        time.sleep(0.3)
if "9" in sys.argv:
    print("Info: placing", flush=True)
    os.kill(os.getpid(), 9)
open("top.config", "w").close()
open("top.bit", "w").close()
PLACES = {"DCCA": {"used": 2, "available": 56}, "IDLE": {"used": 0, "available": 4}}
json.dump({"fmax": {"clk": {"achieved": 80.0, "constraint": 75.0}}, "utilization": PLACES}, open("place.json", "w"))
"""


PACK = """#!/bin/sh
if [ "$1" = --version ]; then echo pack 1.0; exit; fi
echo 1 >> packed
: > top.bit
"""


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Places and routes a board with one multiplier, with a seed."""
    tool = tmp_path / "tool"
    tool.write_text(TOOL)
    pack = tmp_path / "pack"
    pack.write_text(PACK)
    for name, path in (("NEXTPNR_ECP5", tool), ("ECPPACK", pack)):
        path.chmod(0o755)
        monkeypatch.setenv(name, str(path))
        assert shutil.which(str(path))
    (tmp_path / "top.lpf").write_text("")

    def run(seed, luts=60_000, name=PE):
        cells = {name: {"type": "MULT18X18D", "attributes": {}}}
        modules = {"other": {"attributes": {}, "cells": {}}, "top": {"attributes": {"top": "01"}, "cells": cells}}
        (tmp_path / "top.json").write_text(json.dumps({"modules": modules}))
        monkeypatch.setattr(flow_ecp5, "synthesise", lambda *_: {"MULT18X18D": 1, "LUT4": luts})
        return flow_ecp5.build(Steps(tmp_path), BOARD, [], seed, False)

    return run


def test_the_plan_is_in_what_nextpnr_gets(build, tmp_path):
    assert build(3)["timing_met"]
    given = json.loads((tmp_path / "given.json").read_text())
    assert given[given.index("--json") + 1] == "planned.json" and given[given.index("--seed") + 1] == "3"
    assert " ".join(PLAN.options) in " ".join(given)
    module = json.loads((tmp_path / "planned.json").read_text())["modules"]["top"]
    assert module["settings"] == dict(PLAN.settings)
    sites = {site for row in PLAN.multipliers for site in row}
    assert module["cells"][PE]["attributes"]["BEL"] in sites


def test_a_small_design_is_placed_without_the_plan(build, tmp_path):
    build(3, luts=30_000)
    assert not set(PLAN.options) & set(json.loads((tmp_path / "given.json").read_text()))
    module = json.loads((tmp_path / "planned.json").read_text())["modules"]["top"]
    assert module["cells"][PE]["attributes"] == {}


def test_a_plan_without_an_array_is_no_plan(build):
    with pytest.raises(BoardError, match=r"^ecpix5: no PE array is among the design's cells"):
        build(3, name="accelerator.core.compute.array.pe_r0_c0.multiplier.product")


def test_the_accelerators_multipliers_are_the_plans():
    """The Verilog that a board gets has ECP5's blocks, under the names that its plan looks for."""
    config = preset("tiny")
    text = to_verilog(Array(config), Vendor(BOARD.target.family))
    assert text.count("  MULT18X18D #(") == text.count(") block (") == text.count(" multiplier (") == config.n_pes
    assert all(f" pe_r{r}_c{c} (" in text for r in range(config.rows) for c in range(config.cols))


def test_a_board_without_a_route_gets_one_line(build):
    with pytest.raises(BoardError, match=r"^ecpix5: nextpnr finds no places or no wires .* try another --seed$"):
        build(7)


def test_a_killed_tool_is_named_and_its_log_is_kept(build, tmp_path):
    said = r"^nextpnr-ecp5, placing ecpix5's design with seed 9, was killed .*9.* and said at last: Info: placing;"
    with pytest.raises(ToolError, match=said) as found:
        build(9)
    log = tmp_path / "place.failed.log"
    assert str(found.value).endswith(f" its log is {log}") and "Info: placing" in log.read_text()
    build(3)
    assert "Info: placing" in log.read_text() and (tmp_path / "place.log").read_text() == ""


def test_another_version_of_a_tool_does_its_step_again(build, tmp_path, capsys):
    """And no other."""
    assert build(3)["tools"] == {"nextpnr-ecp5": "tool 1.0", "ecppack": "pack 1.0"}

    def done_again():
        capsys.readouterr()
        found = build(3)["tools"]
        err = capsys.readouterr().err
        return found, [name for name in ("plan", "place and route", "bitstream") if f"{name}: done before" not in err]

    for tool, name, step in (("tool", "nextpnr-ecp5", "place and route"), ("pack", "ecppack", "bitstream")):
        assert done_again()[1] == []
        path = tmp_path / tool
        path.write_text(path.read_text().replace(f"{tool} 1.0", f"{tool} 1.1"))
        found, steps = done_again()
        assert found[name] == f"{tool} 1.1" and steps == [step]


def test_resources_and_clocks_are_reported(build):
    found = build(3)
    assert found["clocks_mhz"] == {"clk": {"reached": 80.0, "needed": 75.0}} and found["timing_met"]
    assert found["places"] == {"DCCA": {"used": 2, "available": 56}}
