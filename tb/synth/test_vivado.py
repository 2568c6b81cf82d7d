"""The batch project for Vivado: complete, of one part and clock, and without what Vivado wouldn't read."""

import re

import pytest
from adagp.spec.presets import preset
from adagp.synth.design import Design
from adagp.synth.errors import TargetError
from adagp.synth.vivado import project


def test_project(tmp_path):
    script = project(Design(preset("paper"), "pe"), tmp_path / "pe", "xc7vx485t")
    assert script == tmp_path / "pe" / "run.tcl"
    names = {path.name for path in script.parent.iterdir()}
    assert names == {"top.v", "top.json", "adagp.h", "adagp.xdc", "run.tcl", "README.md"}
    text = script.read_text()
    assert re.findall(r"xc7\w+-\d", text) == ["xc7vx485tffg1761-2"] * 2
    constraints = (script.parent / "adagp.xdc").read_text()
    assert "create_clock -name clk -period 5.000 [get_ports clk]" in constraints  # 200 MHz
    assert set(re.findall(r"\$folder/([\w.]+)", text)) == {"reports", "top.v", "adagp.xdc"}
    for step in (
        "synth_design -top adagp",
        "opt_design",
        "place_design",
        "route_design",
        "report_power",
        "report_timing",
    ):
        assert step in text
    assert text.count("{") == text.count("}") and "{{" not in text
    verilog = (script.parent / "top.v").read_text()
    assert verilog.count("\nmodule adagp(") == 1 and "input clk;" in verilog and "MULT18X18D" not in verilog
    assert "200 MHz" in (script.parent / "README.md").read_text()


def test_unknown_part(tmp_path):
    with pytest.raises(TargetError, match=r"^xilinx has no part 'xc7a35t'; there are: xc7vx690t, xc7vx485t, "):
        project(Design(preset("tiny"), "pe"), tmp_path / "pe", "xc7a35t")
    assert not (tmp_path / "pe").exists()
