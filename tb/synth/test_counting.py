"""Cells by block, resources, differences, what fits: on netlists made by hand."""

import json
import re
from collections import Counter
from dataclasses import replace

import pytest
from adagp.spec.presets import preset
from adagp.synth.breakdown import difference, tree, worth_showing
from adagp.synth.design import BLOCKS, Design
from adagp.synth.ecp5 import ECP5
from adagp.synth.errors import FitError, TargetError
from adagp.synth.flow import FPGAS
from adagp.synth.netlist import HARNESS, Scopes, count
from adagp.synth.xilinx import XILINX, estimated_luts

TINY = preset("tiny")
SCOPES = Scopes("design.accelerator", frozenset({"core", "core.drain", "core.drain.lane1", "core.drain.lane10"}))


@pytest.mark.parametrize(
    "cell, block",
    [
        ("design.accelerator.core.drain.lane1.sum_TRELLIS_FF_Q", "core.drain.lane1"),
        ("design.accelerator.core.drain.lane10.sum_LUT4_A_Z", "core.drain.lane10"),
        ("design.accelerator.core.drain.totals.0.0_DIB9_CCU2C_S1", "core.drain"),
        ("design.accelerator.core.drain_valid_LUT4_Z", "core"),
        ("design.accelerator.irq_LUT4_Z", ""),
        ("design.irq_LUT4_Z", ""),
        ("pins_in_TRELLIS_FF_Q_3", HARNESS),
        ("$auto$ff.cc:337:slice$12", HARNESS),
        ("design.$auto$ff.cc:337:slice$12", "(unnamed)"),
    ],
)
def test_a_cell_belongs_to_the_block_that_its_name_begins_with(cell, block):
    assert SCOPES.block(cell) == block


def test_without_a_harness_everything_is_the_design():
    assert Scopes("accelerator", frozenset({"core"})).block("o_psum_DSP48E1_P") == ""


@pytest.fixture
def folder(tmp_path):
    cells = {
        "design.accelerator.core.drain.x_LUT4_Z": "LUT4", "design.accelerator.core.y_CCU2C_S0": "CCU2C",
        "design.accelerator.core.drain.q.0.1": "TRELLIS_DPR16X4", "design.accelerator.irq_TRELLIS_FF_Q": "TRELLIS_FF",
        "pins_in_TRELLIS_FF_Q": "TRELLIS_FF", "design.$auto$1": "LUT4",
    }  # fmt: skip
    module = {"cells": {name: {"type": kind} for name, kind in cells.items()}}
    (tmp_path / "netlist.json").write_text(json.dumps({"modules": {"adagp": module}}))
    names = ("design", "design.accelerator", "$flatten\\design.\\accelerator.\\core", "design.accelerator.core.drain")
    (tmp_path / "scopes.txt").write_text("".join(f"adagp/{name}\n" for name in names))
    return tmp_path


def test_count_and_tree(folder):
    cells = count(folder, "design.accelerator")
    assert cells.scopes.paths == {"core", "core.drain"}
    assert cells.total([HARNESS]) == Counter(TRELLIS_FF=1)
    assert cells.total() == Counter(LUT4=2, CCU2C=1, TRELLIS_DPR16X4=1, TRELLIS_FF=1)
    assert cells.nameless == 1 / 5
    found = tree(cells, ECP5)
    assert list(found) == ["", "(unnamed)", "core", "core.drain"]
    assert [row["lut"] for row in found.values()] == [10, 1, 9, 7]  # 1 a LUT, 2 a carry, 6 a distributed RAM
    assert found[""]["ff"] == 1 and found["core"]["ff"] == 0
    assert tree(cells, ECP5, depth=1) == {block: row for block, row in found.items() if block != "core.drain"}
    (folder / "netlist.json").unlink()
    assert count(folder, "design.accelerator") == cells  # kept beside the netlist
    assert not list(folder.glob("*.partial"))


def test_a_register_belongs_to_the_block_it_was_written_in(folder):
    path = folder / "netlist.json"
    found = json.loads(path.read_text())
    register = found["modules"]["adagp"]["cells"]["design.accelerator.irq_TRELLIS_FF_Q"]
    register["attributes"] = {"src": "/cells.v:3|block:adagp.design.accelerator.core.drain|block:adagp.design"}
    harness = found["modules"]["adagp"]["cells"]["design.accelerator.core.y_CCU2C_S0"]
    harness["attributes"] = {"src": "block:adagp"}
    path.write_text(json.dumps(found))
    cells = count(folder, "design.accelerator")
    assert cells.counts["core.drain"]["TRELLIS_FF"] == 1 and cells.counts[HARNESS]["CCU2C"] == 1
    assert "" not in cells.counts and "core" not in cells.counts


def test_difference_and_what_of_it_is_shown():
    one = {"": {"lut": 100, "ff": 10}, "core": {"lut": 60, "ff": 10}, "predictor": {"lut": 40, "ff": 0}}
    other = {"": {"lut": 61, "ff": 11}, "core": {"lut": 60, "ff": 10}, "gone": {"lut": 1, "ff": 1}}
    more = difference(one, other)
    assert more == {"": {"lut": 39, "ff": -1}, "gone": {"lut": -1, "ff": -1}, "predictor": {"lut": 40, "ff": 0}}
    assert list(worth_showing(more, {"lut": 100, "ff": 10}, 0.05, ("lut",))) == ["", "predictor"]
    assert list(worth_showing(more, {"lut": 100, "ff": 10}, 0.05, ("lut", "ff"))) == ["", "gone", "predictor"]


def test_parts_packages_speeds():
    assert ECP5.part() is ECP5.part("85k") is ECP5.part("LFE5U-85F")
    with pytest.raises(TargetError, match=r"^ecp5 has no part '12k'; there are: 85k, um5g-85k, 45k, 25k$"):
        ECP5.part("12k")
    assert ECP5.choose(ECP5.part("25k"), None, None) == ("CABGA381", "6")
    assert ECP5.choose(ECP5.part("25k"), "CABGA256", "8") == ("CABGA256", "8")
    with pytest.raises(TargetError, match=r"^LFE5U-25F has no package 'CABGA756'; there are: CABGA381, CABGA256, CSF"):
        ECP5.choose(ECP5.part("25k"), "CABGA756", None)
    with pytest.raises(TargetError, match=r"^iCE40UP5K has no speed grade '6'; there is no choice of it$"):
        ice40 = FPGAS["ice40"][0]
        ice40.choose(ice40.part(), None, "6")


def test_what_does_not_fit_is_said_with_figures():
    part = ECP5.part("25k")
    cells = {"LUT4": 24288, "TRELLIS_FF": 24288, "DP16KD": 56, "MULT18X18D": 28, "TRELLIS_IO": 9}
    ECP5.check("tiny-baseline", part, cells)
    with pytest.raises(FitError) as found:
        ECP5.check("tiny-baseline", part, {**cells, "PDPW16KD": 1, "CCU2C": 2856})
    assert str(found.value) == (
        "tiny-baseline doesn't fit LFE5U-25F: it needs 30,000 of lut, of which it has 24,288; 57 of ebr, of which it"
        " has 56"
    )


def test_paired_luts_are_with_those_that_are_memory(tmp_path):
    (tmp_path / "stat.txt").write_text("   Estimated number of LCs:        100\n")
    cells = {"LUT6": 60, "LUT3": 40, "LUT2": 30, "RAM32M": 2, "SRL16E": 3, "INV": 1, "FDRE": 50}
    assert estimated_luts(tmp_path, cells) == 100 + 2 * 4 + 3 + 1


def test_two_small_block_rams_take_the_place_of_a_large_one():
    part = XILINX.part("xc7vx485t")  # of 1,030
    XILINX.check("x", part, {"RAMB36E1": 1000, "RAMB18E1": 60})
    XILINX.check("x", part, {"RAMB36E1": 1029, "RAMB18E1": 2})
    with pytest.raises(FitError, match=r"^x doesn't fit XC7VX485T: it needs 2,061 of bram18, of which it has 2,060$"):
        XILINX.check("x", part, {"RAMB36E1": 1000, "RAMB18E1": 61})


@pytest.mark.parametrize("name", FPGAS)
def test_each_cell_counts_where_it_should(name):
    target = FPGAS[name][0]
    for part in target.parts.values():
        assert set(part.has) <= set(target.counted) and min(part.has.values()) >= 0
    cells = {
        "ecp5": {"LUT4": 3, "CCU2C": 2, "TRELLIS_DPR16X4": 1, "PDPW16KD": 1},
        "xilinx": {"LUT1": 1, "LUT6": 2, "RAM32M": 1, "SRL16E": 1, "FDSE": 3, "RAMB18E1": 1, "BUFG": 1},
        "artix7": {"LUT6": 2, "INV": 1, "FDRE": 3, "RAMB36E1": 1, "IBUF": 3, "BUFG": 1},
        "ice40": {"SB_LUT4": 5, "SB_DFFESR": 2, "SB_RAM40_4KNW": 1, "SB_GB": 1},
    }[name]  # fmt: skip
    expected = {
        "ecp5": {"lut": 13, "lut4": 3, "ccu2c": 2, "dpr16x4": 1, "ebr": 1},
        "xilinx": {"lut": 8, "lutram": 5, "ff": 3, "ramb18": 1, "bram18": 1},
        "artix7": {"lut": 3, "ff": 3, "ramb36": 1, "bram18": 2, "pad": 4},
        "ice40": {"lut": 5, "ff": 2, "ebr": 1},
    }[name]  # fmt: skip
    assert {resource: number for resource, number in target.resources(cells).items() if number} == expected
    assert target.uncounted(cells) == {"ecp5": [], "xilinx": ["BUFG"], "artix7": [], "ice40": ["SB_GB"]}[name]


def test_blocks():
    with pytest.raises(TargetError, match=r"^no block 'nix'; there are: top, control, core, sequencer, "):
        Design(TINY, "nix")
    with pytest.raises(TargetError, match=r"^variant low has no block 'predictor'$"):
        Design(replace(TINY, variant="low"), "predictor")
    with pytest.raises(TargetError, match=r"^variant baseline has no block 'predictor_memory'$"):
        Design(TINY, "predictor_memory")
    assert Design(replace(TINY, variant="max"), "predictor").name == "tiny-max-predictor"
    assert Design(TINY).name == "tiny-baseline"


def test_block_memories_promise_nothing_of_collisions(tmp_path, monkeypatch):
    """But queues of Amaranth's do, which may be read as they are written."""
    monkeypatch.setenv("ADAGP_CACHE", str(tmp_path))
    pad = Design(TINY, "pad_a").rtlil("ecp5", False).read_text()
    assert pad.count("COLLISION_X_MASK 1'1") == pad.count("cell $memrd_v2 ") == TINY.banks
    sequencer = Design(TINY, "sequencer").rtlil("ecp5", False).read_text()
    assert 0 < sequencer.count("COLLISION_X_MASK 1'1") < sequencer.count("cell $memrd_v2 ")


@pytest.mark.parametrize("block", [name for name in BLOCKS if name != "top"])
def test_each_block_can_be_taken_alone(block, tmp_path, monkeypatch):
    monkeypatch.setenv("ADAGP_CACHE", str(tmp_path))
    design = Design(replace(TINY, variant="max"), block)
    text = design.rtlil("ecp5", True).read_text()
    assert "module \\adagp\n" in text and "module \\adagp.design.accelerator\n" in text
    ports = [line.split() for line in text[text.index("module \\adagp\n") :].partition("\nend\n")[0].splitlines()]
    named = {line[-1] for line in ports if len(line) > 3 and line[0] == "wire" and {"input", "output"} & set(line)}
    assert named == {"\\clk", "\\rst", "\\si", "\\so"}


def test_no_name_can_be_taken_for_a_bit_of_another():
    """Yosys' abc9 reads ``a[3]`` as bit 3 of ``a``."""
    rtlil = Design(TINY, "drain").rtlil("ecp5", harness=False).read_text()
    assert not re.findall(r"\\\S*\[\d+\]", rtlil)
    assert re.findall(r"wire width \d+ \\\S+:\d+$", rtlil, re.MULTILINE)  # names of elements there are
