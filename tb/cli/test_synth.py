"""``adagp synth``: figures of a block, mistakes in one line; activity of counters."""

import json
import re

import numpy as np
import pytest
from adagp.evaluation.instruments.activity import of_counts
from adagp.host.console import numbers
from adagp.host.training.settings import SettingsError
from adagp.sim.coverage import LINE, TOGGLE, Point
from adagp.synth.asic import cells
from adagp.synth.errors import ToolError
from adagp.synth.xilinx import XILINX

PE = ("synth", "--preset", "tiny", "--block", "pe")
LIBRARY = """
library (small) {
 nom_voltage : 1.8; capacitive_load_unit (1, pf);
 cell (DFF) {
  area : 1;
  ff (IQ) { }
 }
 cell (BUF) {
  area : 1;
  pin (A) { direction : input; capacitance : 0.01; }
  pin (Y) { direction : output; function : "A"; }
 }
}
"""
MEMORY = """\
module \\adagp.accelerator.core.bank0 (clk);
  reg [7:0] memory [3:0];
  reg [7:0] kept [1:0];
  always @(posedge clk) begin
    if (write)
      memory[address] <= data;
    if (write_low)
      memory[address][3:0] <= half;
    if (read)
      out <= memory[address];
  end
  always @(posedge clk) begin
    if (keep)
      kept[place] <= data;
  end
endmodule
"""


@pytest.mark.timeout(1800)
def test_a_block_of_two_designs(adagp, tmp_path, monkeypatch):
    monkeypatch.setenv("ADAGP_CACHE", str(tmp_path / "cache"))
    options = ("--variant", "baseline", "--variant", "max", "--json", tmp_path / "pe.json", "-o", tmp_path / "kept")
    code, out, err = adagp(*PE, *options)
    assert code == 0 and "tiny-max-pe: synthesis" in err
    found = json.loads((tmp_path / "pe.json").read_text())
    assert found["target"] == "ecp5" and set(found["tools"]) == {"yosys", "amaranth"}
    assert [design["variant"] for design in found["designs"]] == ["baseline", "max"]
    resources = found["designs"][0]["resources"]
    assert resources == found["designs"][1]["resources"] and resources["multiplier"] == 1
    assert f"{resources['ff']} (0.1%)" in out and "multiplier  " in out and "Not counted: the pin harness" in out
    assert "tiny-max-pe - tiny-baseline-pe, by block: the same" in out
    assert (tmp_path / "kept" / "tiny-max-pe" / "netlist.json").exists()


def test_a_design_without_a_route_is_an_error_and_has_figures(adagp, tmp_path, monkeypatch):
    """One that some seeds route is none."""

    def run(_target, designs, *_):
        common = {"resources": {"lut": 7}, "available": {"lut": 10}, "harness": {}, "blocks": {}}
        ways = (
            {"unrouted": {"2": "no wires for seed 2"}, "fmax_mhz": {"1": 70.5}, "fmax_median_mhz": 70.5},
            {"unrouted": {"1": "no wires", "2": "none either"}},
        )
        return [common | {"design": design.name} | way for design, way in zip(designs, ways, strict=False)]

    monkeypatch.setattr("adagp.synth.flow.run", run)
    options = ("--variant", "baseline", "--seeds", "1,2", "--json", tmp_path / "found.json")
    code, out, err = adagp(*PE, *options)
    assert code == 0 and re.search(r"seeds without a route, 0 MHz +│ +2 ", out) and "no wires" not in err
    code, out, err = adagp(*PE, *options, "--variant", "max")
    assert (code, err.strip().splitlines()[-1]) == (1, "failed: no wires")
    assert re.search(r"0 MHz +│ +2 +│ +1, 2 ", out) and re.search(r"median of seeds, MHz +│ +70.5 +│ +│", out)
    assert len(json.loads((tmp_path / "found.json").read_text())["designs"]) == 2


def test_an_interrupt_says_how_to_go_on(adagp, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("adagp.synth.flow.run", interrupted)
    code, out, err = adagp(*PE, "--variant", "baseline")
    assert (code, out) == (130, "") and err.splitlines()[-1].strip() == "interrupted; the same command goes on"


MISTAKES = {
    "no block 'nix'; there are: top, control, ": ("--block", "nix"),
    "ecp5 has no part '12k'; there are: 85k, um5g-85k, 45k, 25k": ("--part", "12k"),
    "LFE5U-85F has no package 'X'; there are: CABGA756,": ("--package", "X"),
    "LFE5U-85F has no speed grade '9'; there are: 6, 7, 8": ("--speed", "9"),
    "seeds = '' must be like 1,2,5 or 1-8": ("--seeds", ""),
    "--freq nan must be from 1 to 1000 MHz": ("--seeds", "1", "--freq", "nan"),
    "--freq 1e+09 must be from 1 to 1000 MHz": ("--seeds", "1", "--freq", "1e9"),
    "--json: . is a folder, not a file": ("--json", "."),
    "--json: a.txt/x can't be written": ("--json", "a.txt/x"),
    "seeds = '1-x' must be like 1,2,5 or 1-8": ("--seeds", "1-x"),
    "seeds = '5-1' must be like 1,2,5 or 1-8": ("--seeds", "5-1"),
    "seeds = ',' must be like 1,2,5 or 1-8": ("--seeds", ","),
    "seeds = '1-' must be like 1,2,5 or 1-8": ("--seeds", "1-"),
    "seeds = '0' must be from 1 to 2147483647": ("--seeds", "0"),
    "seeds = '1,99999999999999999999' must be from 1 to 2147483647": ("--seeds", "1,99999999999999999999"),
    "seeds = '1-999999999' must be 1000 seeds at most": ("--seeds", "1-999999999"),
    "--freq is for place and route: it needs --seeds": ("--freq", "90"),
    "--power simulates a preset as it is: it can't go with --set": ("--target", "asic", "--power", "--set", "rows=2"),
    "--output = a.txt can't be a folder to write to": ("--output", "a.txt"),
    "--vivado = a.txt/x can't be a folder to write to": ("--target", "xilinx", "--vivado", "a.txt/x"),
    "--part isn't for --target asic": ("--target", "asic", "--part", "25k"),
    "--package isn't for --target asic": ("--target", "asic", "--package", "x"),
    "--speed isn't for --target asic": ("--target", "asic", "--speed", "6"),
    "--freq isn't for --target asic": ("--target", "asic", "--freq", "6"),
    "target = 'gowin' must be one of: ecp5, xilinx, artix7, ice40, asic": ("--target", "gowin"),
    "--liberty is for --target asic": ("--liberty", "x.lib"),
    "--power is for --target asic": ("--power",),
    "no open tool places and routes for xilinx; --target artix7 is placed": ("--target", "xilinx", "--seeds", "1"),
    "variant baseline has no block 'predictor'": ("--variant", "baseline", "--block", "predictor"),
    "variant in {baseline, low, efficient, max}": ("--variant", "maximal"),
    "--set rows=x: 'x' must be a whole number": ("--set", "rows=x"),
    "the configuration has no field 'colums'; did you mean cols?": ("--set", "colums=4"),
    "2 <= rows <= 64": ("--set", "rows=1"),
    "x.lib: No such file or directory": ("--target", "asic", "--liberty", "x.lib"),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_a_mistake_gets_one_line(adagp, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").touch()
    code, out, err = adagp("synth", "--preset", "tiny", *MISTAKES[message])
    assert (code, out) == (2, "") and err.strip().count("\n") == 0 and message in err


def test_a_library_without_flip_flops(adagp, tmp_path):
    (tmp_path / "gates.lib").write_text("library (x) {\n cell (INV) { area : 1; }\n}\n")
    code, out, err = adagp(*PE, "--target", "asic", "--liberty", tmp_path / "gates.lib")
    assert (code, out) == (2, "") and "has no flip-flops: none of its 1 cells has an ff group" in err


def test_a_missing_library(adagp, tmp_path, monkeypatch):
    monkeypatch.setattr("adagp.synth.asic.cells.LIBERTY", tmp_path / "none.lib")
    code, out, err = adagp(*PE, "--target", "asic")
    assert (code, out) == (1, "") and "none.lib was not found (Debian: apt install qflow-tech-osu018" in err


def test_a_missing_tool(adagp, monkeypatch, tmp_path):
    from adagp.synth import yosys

    def version(name):
        raise yosys.PackageNotFoundError(name)

    monkeypatch.setenv("ADAGP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(yosys, "version", version)
    code, out, err = adagp(*PE, "--variant", "baseline")
    assert (code, out) == (1, "") and "failed: synthesis needs Yosys: pip install pyosys" in err


def test_seeds():
    assert numbers("1-3,7,2") == [1, 2, 3, 7]
    for text in ("", "1-2-3", "1,5-4"):
        with pytest.raises(SettingsError):
            numbers(text)


def test_tools_for_cells_are_looked_for_first(adagp, monkeypatch, tmp_path):
    (tmp_path / "ff.lib").write_text(LIBRARY)
    monkeypatch.setattr("adagp.evaluation.instruments.activity.activities", None)
    monkeypatch.setattr("shutil.which", lambda _: None)
    code, out, err = adagp(*PE, "--target", "asic", "--power", "--liberty", tmp_path / "ff.lib")
    assert (code, out) == (1, "") and "sta was not found" in err


def test_a_design_that_does_not_fit_is_shown_and_an_error(adagp, tmp_path, monkeypatch):
    monkeypatch.setenv("ADAGP_CACHE", str(tmp_path / "cache"))
    part = XILINX.part("xc7vx485t")
    monkeypatch.setitem(part.has, "dsp48", 0.5)
    options = ("--variant", "baseline", "--target", "xilinx", "--part", "xc7vx485t", "--vivado", tmp_path / "vivado")
    code, out, err = adagp(*PE, *options, "--json", tmp_path / "found.json")
    assert code == 2 and re.search(r"dsp48 +│ +1 \(200", out) and not (tmp_path / "vivado").exists()
    assert err.strip().endswith("doesn't fit XC7VX485T: it needs 1 of dsp48, of which it has 0.5")
    (found,) = json.loads((tmp_path / "found.json").read_text())["designs"]
    assert (found["part"], found["package"], found["speed"]) == ("XC7VX485T", "ffg1761", "-2") and found["unfit"]


def test_activity_of_counters():
    bank = "adagp.accelerator.core.bank0"
    points = [
        Point(TOGGLE, "adagp.accelerator.core.array", 1, 1, "psum", 0, 2),
        Point(TOGGLE, "adagp.accelerator.core.array", 2, 1, "swap", 4, 1),
        Point(LINE, bank, 5, 1, "if", 6),
        Point(LINE, bank, 5, 1, "else", 7),
        Point(LINE, bank, 7, 1, "if", 8),
        Point(LINE, bank, 9, 1, "if", 9),
        Point(TOGGLE, "adagp", 5, 1, "clk", 10, 1),
        Point(TOGGLE, "adagp.accelerator", 6, 1, "irq", 12, 1),
        Point(TOGGLE, bank, 1, 1, "data", 14, 8),
        Point(LINE, bank, 13, 1, "if", 30),
    ]
    data = [1, 0, 4, 4, *[40, 40] * 6]
    counts = np.array([1, 2, 3, 4, 0, 10, 50, 99, 20, 25, 200, 200, 0, 0, *data, 16], np.uint32)
    found = of_counts(points, counts, 100, text=MEMORY)
    known = {"core.array.psum": [0.03, 0.07], "core.array.swap": [0.1], "irq": [0.0]}
    assert found.toggles == known | {"core.bank0.data": [0.01, 0.08, *[0.8] * 6]}
    # A write of half of a word is half an access.
    assert found.accesses == {"core.bank0.memory": pytest.approx(0.5 + 0.2 / 2 + 0.25), "core.bank0.kept": 0.16}
    # Of two words, each bit changes with half the writes that change it: no more than every other one.
    assert found.words["core.bank0.kept"] == pytest.approx([0.01 / 2, *[0.08 / 2] * 7])
    assert found.default == pytest.approx((0.03 + 0.07 + 0.1 + 0 + 0.01 + 0.08 + 6 * 0.8) / 12)
    inner = of_counts(points, counts, 100, "adagp.accelerator.core.array", MEMORY)
    assert inner.toggles == {"psum": [0.03, 0.07], "swap": [0.1]} and inner.accesses == {}
    assert of_counts([], counts, 100) == cells.Activity({}, {}, 0.0)
    with pytest.raises(ToolError, match=r"^the simulation doesn't count line 14 of its Verilog, an access of .*kept$"):
        of_counts(points[:-1], counts, 100, text=MEMORY)


LANES = """\
module \\adagp.accelerator.core.lanes.lane1 (clk);
  reg [5:0] \\store$1  [7:0];
  reg flag [1:0];
  always @(posedge clk) begin
    if (mask[0])
      \\store$1 [place][2:0] <= low;
    if (mask[1])
      \\store$1 [place][5:3] <= \\high ;
  end
  always @(posedge clk) begin
    if (ask)
      out <= \\store$1 [other];
    if (mark)
      flag[where] <= lit;
  end
endmodule
module \\adagp.memory (clk);
  reg [1:0] words [3:0];
  always @(posedge clk) begin
    if (write)
      words[0] <= any;
  end
endmodule
"""


def test_activity_of_a_memory_in_parts():
    """Each slice has its own rate and data, which may be unknown; a memory outside of the design is none of it."""
    lane = "adagp.accelerator.core.lanes.lane1"
    lines = [Point(LINE, lane, line, 1, "if", number) for number, line in enumerate((5, 7, 11, 13))]
    toggled = [Point(TOGGLE, lane, 1, 1, "low", 4, 6), Point(TOGGLE, lane, 1, 1, "lit", 16, 1)]
    counts = np.array([40, 20, 10, 30, *[1, 1] * 6, 4, 4], np.uint32)
    found = of_counts([*lines, *toggled], counts, 100, text=LANES)
    accesses = {"core.lanes.lane1.store$1": 0.4 / 2 + 0.2 / 2 + 0.1, "core.lanes.lane1.flag": 0.3}
    assert found.accesses == pytest.approx(accesses)
    # Data that isn't as wide as a word, or isn't known, is taken to change as often as it may.
    assert found.words["core.lanes.lane1.store$1"] == pytest.approx([0.02 / 8] * 3 + [0.2 / 2 / 8] * 3)
    assert found.words["core.lanes.lane1.flag"] == pytest.approx([0.08 / 2])
    inner = of_counts([*lines, *toggled], counts, 100, "adagp.accelerator.core.lanes", LANES)
    assert set(inner.accesses) == set(inner.words) == {"lane1.store$1", "lane1.flag"}
    assert of_counts([], counts, 100, "adagp.accelerator.core.lanes.lane2", LANES).accesses == {}


def test_generate_for_an_unknown_family(adagp, tmp_path):
    code, out, err = adagp("generate", "--preset", "tiny", "--target", "gowin", "-o", tmp_path / "made")
    assert (code, out) == (2, "") and "target = 'gowin' must be one of: ecp5, ice40, xilinx" in err
    assert not (tmp_path / "made").exists()
