"""Child processes, and one PE through every tool: figures, cache, messages."""

import json
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from adagp.spec.presets import preset
from adagp.synth import flow, placement, process
from adagp.synth import yosys as yosys_module
from adagp.synth.design import Design
from adagp.synth.errors import FitError, ToolError
from adagp.synth.flow import FPGAS
from adagp.synth.netlist import Scopes
from adagp.synth.parallel import ended_by_signals, side_by_side
from adagp.synth.yosys import Step, synthesise
from pe_flow import PE, run

WORD = re.compile(r"^now (\w+)$", re.MULTILINE)


def python(text, tmp_path, said=None):
    process.run(
        [sys.executable, "-u", "-c", text], tmp_path, tmp_path / "log.txt", WORD,
        said.append if said is not None else lambda _: None,
    )  # fmt: skip


def test_what_a_tool_does_is_told_as_it_goes(tmp_path):
    said = []
    python("import time\nfor x in 'ab': print('now', x); time.sleep(1)\nprint('now c', end='')", tmp_path, said)
    assert list(dict.fromkeys(said)) == ["a", "b"] and (tmp_path / "log.txt").read_text() == "now a\nnow b\nnow c"


def test_of_many_lines_at_once_each_is_told(tmp_path):
    """Between two looks at a log a tool may come through several phases."""
    said = []
    python("import time\nfor x in range(5): print('now', x)\ntime.sleep(1)", tmp_path, said)
    assert said == list("01234")


@pytest.mark.parametrize(
    "text, message",
    [
        ("print('one'); print('ERROR: two'); print('three'); raise SystemExit(3)", "code 3 and said: ERROR: two"),
        (r"print(r'1/1: \error [0]'); print('last'); raise SystemExit(1)", "code 1 and said: last"),
        ("import os; print('ERROR: x'); os.kill(os.getpid(), 9)", "9: out of memory?) and said at last: ERROR: x"),
        ("import os; os.kill(os.getpid(), 15)", "was killed (signal 15) and said at last: nothing"),
        ("print('one\\n'); raise SystemExit(1)", "code 1 and said: one"),
        ("raise SystemExit(1)", "code 1 and said: nothing"),
    ],
)
def test_a_failing_tool(text, message, tmp_path):
    with pytest.raises(ToolError, match=re.escape(message)):
        python(text, tmp_path)


def test_a_missing_tool(tmp_path):
    with pytest.raises(ToolError, match=r"^no-such-tool was not found$"):
        process.run(["no-such-tool"], tmp_path, tmp_path / "log.txt", WORD, lambda _: None)


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
        process.run(command, tmp_path, tmp_path / "log.txt", WORD, lambda _: up.set())

    start = time.monotonic()
    with pytest.raises(KeyError), side_by_side(2) as submit:
        job = submit(long)
        assert up.wait(30)
        raise KeyError
    assert isinstance(job.exception(), ToolError) and time.monotonic() - start < 40
    assert not process._running
    inner = int(re.findall(r"^inner (\d+)$", (tmp_path / "log.txt").read_text(), re.MULTILINE)[0])
    state = Path(f"/proc/{inner}/stat")
    for _ in range(100):  # until it is gone, or a zombie that nobody waits for
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.1)
    else:
        pytest.fail(f"process {inner} goes on")


def test_no_tool_starts_when_all_are_to_end(tmp_path):
    """A job may have been at something else then."""
    up, go = threading.Event(), threading.Event()

    def job():
        up.set()
        assert go.wait(30)
        python("print('now up')", tmp_path)

    with pytest.raises(KeyError), side_by_side(1) as submit:
        busy = submit(job)
        assert up.wait(30)
        threading.Timer(0.5, go.set).start()
        raise KeyError
    with pytest.raises(ToolError, match=r"^python\S* was stopped$"):
        busy.result()
    assert not (tmp_path / "log.txt").exists() or not (tmp_path / "log.txt").read_text()
    python("print('now again')", tmp_path)  # the next may


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_end_a_block_and_its_tools(number, tmp_path):
    before = signal.signal(number, signal.SIG_DFL)  # tests may themselves run under nohup
    start = time.monotonic()
    try:
        with pytest.raises(SystemExit) as ended, ended_by_signals():
            threading.Timer(0.5, os.kill, (os.getpid(), number)).start()
            python("import time; time.sleep(60)", tmp_path)
        assert ended.value.code == 128 + number and time.monotonic() - start < 30 and not process._running
        assert signal.getsignal(number) == signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN)
        with ended_by_signals():
            os.kill(os.getpid(), number)  # as under nohup
    finally:
        signal.signal(number, before)


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
    assert found["blocks"]["multiplier"]["multiplier"] == 1 and found["nameless"] == 0
    assert 100 < found["fmax_best_mhz"] < 500 and found["best_seed"] == 1
    path = found["critical_paths"]["1"]
    total = sum(step["logic_ns"] + step["routing_ns"] for step in path)
    assert total == pytest.approx(1e3 / found["fmax_best_mhz"], rel=0.02)
    assert {step["block"] for step in path} <= {"", "multiplier", "(harness)"}
    assert found["late"] == {}  # at tiny's clock
    every = placement.late(Path(found["placed"]["1"]), Scopes("design.accelerator", frozenset({"multiplier"})), 0.0)
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


def test_block_memories_of_an_ecp5_have_their_output_registers(cache):
    (found,) = flow.run("ecp5", [Design(preset("ecp5"), "pad_a")])
    cells = json.loads((Path(found["folder"]) / "netlist.json").read_text())["modules"]["adagp"]["cells"].values()
    modes = [cell["parameters"]["REGMODE_B"] for cell in cells if cell["type"] == "DP16KD"]
    assert modes == ["OUTREG"] * found["resources"]["ebr"] and modes
    assert found["needed"]["ff"] == sum(cell["type"] == "TRELLIS_FF" for cell in cells)


def test_another_step_behind_yosys_is_another_flow(monkeypatch):
    before = {name: flow.chosen(name)["flow"] for name in FPGAS}
    monkeypatch.setitem(flow.CODE, "output_registers", "moved otherwise")
    after = {name: flow.chosen(name)["flow"] for name in FPGAS}
    assert [name for name in FPGAS if before[name] != after[name]] == ["ecp5"]


def test_a_netlist_is_of_one_step_behind_yosys(cache, tmp_path):
    (tmp_path / "x.il").write_text("module \\adagp\nend\n")
    steps = [None, *(Step(lambda netlist, by=by: netlist | {"creator": by}, by) for by in "ab")]
    folders = [synthesise("step", tmp_path / "x.il", "", after=step) for step in steps]
    assert len(set(folders)) == 3
    found = [json.loads((folder / "netlist.json").read_text())["creator"] for folder in folders]
    assert found[0].startswith("Yosys") and found[1:] == ["a", "b"]


def test_what_does_not_fit_is_not_placed(cache, monkeypatch):
    part = FPGAS["ecp5"][0].part("25k")
    monkeypatch.setitem(part.has, "ff", 40)
    found, jobs = run("ecp5", (1,), part="25k")
    assert not any("place" in job for job in jobs) and not found["placements"] and "fmax_mhz" not in found
    with pytest.raises(FitError, match=r"^tiny-baseline-pe doesn't fit LFE5U-25F: it needs \d+ of ff, of which .* 40$"):
        flow.complain([found])


def test_yosys_says_what_it_does_not_like(cache, tmp_path):
    (tmp_path / "x.il").write_text("module \\adagp\nend\n")
    with pytest.raises(
        ToolError, match=r"^Yosys, synthesising x, ended with code 1 and said: ERROR: No such command: nonsense"
    ):
        synthesise("x", tmp_path / "x.il", "nonsense")
    (log,) = cache.glob("netlist-x-*.log")
    assert "No such command: nonsense" in log.read_text()
    assert not [path for path in cache.iterdir() if path.name.startswith("netlist-x-") and path.is_dir()]


def test_yosys_is_missing(monkeypatch):
    def version(name):
        raise yosys_module.PackageNotFoundError(name)

    monkeypatch.setattr(yosys_module, "version", version)
    with pytest.raises(ToolError, match=r"^synthesis needs Yosys: pip install pyosys \(or the extra adagp\[synth\]\)$"):
        run("ecp5")
