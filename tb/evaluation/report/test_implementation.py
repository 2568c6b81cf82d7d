"""The designs beside the paper's: numbers worked by hand, what is missing, whether the document is up to date."""

import re
from dataclasses import replace

import pytest
from adagp.evaluation.report import added_blocks, figures, implementation
from adagp.evaluation.report.added_blocks import REASONS, added
from adagp.evaluation.report.equal_area import COLUMN_BLOCKS
from adagp.rtl.top import Top
from adagp.spec.config import VARIANTS
from adagp.spec.presets import preset
from adagp.synth.ecp5 import ECP5
from adagp.synth.xilinx import XILINX
from amaranth.hdl import Fragment
from digests import AA
from made_designs import BASELINE, LOW, MAX, assert_once, design, rows, write, write_measured


@pytest.fixture
def measured(tmp_path):
    """A folder with results of three designs on both FPGAs."""
    return write_measured(tmp_path)


def test_what_is_added_on_7_series(measured):
    text = implementation.implementation(AA, measured)
    assert "\n\nOur part is an P1; the paper names no part of its Virtex 7.\n\n" in text
    found = rows(text)
    assert_once(found, (
        "| LUT | baseline | 2,000 |  |  | 472,004 |  |  |",
        "| LUT | low | 2,196 | +196 | +9.8 | 489,286 | +17,282 | +3.7 |",
        "| LUT | efficient | not measured |  |  | 493,171 | +21,167 | +4.5 |",
        "| LUT | max | 3,234 | +1,234 | +61.7 | 494,080 | +22,076 | +4.7 |",
        "| LUT, paired | max | 1,002 | +2 | +0.2 | not given |  |  |",
        "| FF | low | 1,530 | +30 | +2.0 | 31,856 | +454 | +1.4 |",
        "| RAMB36 | max | 12 | +4 | +50.0 | 2,407 | +1,080 | +81.4 |",
        "| RAMB18 | max | 0 | 0 |  | 514 | 0 | 0.0 |", "| DSP48E1 | low | 16 | 0 | 0.0 | 166 | 0 | 0.0 |",
        "| DSP48E1 | max | 24 | +8 | +50.0 | 246 | +80 | +48.2 |",
        "| power, W | max | not measured |  |  | 3.856 | +0.144 | +3.9 |",
    ))  # fmt: skip


def test_what_ours_add_over_the_paper_s(measured):
    """196 of 17,282 LUTs; a paper's design that adds none has no ratio."""
    found = rows(implementation.implementation(AA, measured))
    assert_once(found, (
        "| LUT | 0.01 | not measured | 0.06 |", "| DSP48E1 | 0 to 0 | not measured | 0.10 |",
        "| RAMB36 | 0 to 0 | not measured | 0.00 |",
    ))  # fmt: skip


def test_pe_formats(tmp_path):
    write(tmp_path, "pe_formats", {"lut_ecp5_int16": 34.0, "lut_ecp5_bf16": 646.0, "latency_int8": 3})
    found = rows(implementation.implementation(AA, tmp_path))
    assert_once(found, ("| a PE | int16 | int8 | bf16 |", "| `lut_ecp5` | 34 |  | 646 |", "| `latency` |  | 3 |  |"))


def test_blocks_with_reasons(measured):
    text = implementation.implementation(AA, measured)
    found = rows(text[text.index("## Blocks") : text.index("## Lattice")])
    assert [row.rsplit(" | ", 1)[0] for row in found] == [
        "| block | 7 series, low | 7 series, max | ECP5, low | ECP5, max",
        "| `control.gate` | +150 | +150 | +150 | +150", "| `core` | +12 | +12 | +12 | +12",
        "| `predictor` |  | +1,000 |  | +1,000", "| `predictor.compute` |  | +2 |  | +2",
        "| `predictor.fill` |  | +36 |  | +36", "| `update` | +34 | +34 | +34 | +34",
        "| all | +196 | +1,234 | +196 | +1,234",
    ]  # fmt: skip
    assert found[1].endswith(f" | {REASONS['control.gate']} |")


def test_ecp5(measured):
    found = rows(implementation.implementation(AA, measured))
    assert_once(found, (
        "| LUT | baseline | 2,000 | 50.0 |  |  |", "| LUT | max | 3,234 | 80.8 | +1,234 | +61.7 |",
        "| LUT places, routed | low | 2,200 | 55.0 |  |  |",
        "| EBR | max | 12 | 75.0 | +4 | +50.0 |", "| multiplier | low | 16 | 50.0 | 0 | 0.0 |",
        "| low | LFE5U-85F | 6 | 50 | 55 | 552.7 | 1,055.2 | 1: 50.1; 2: 1,055.2 |",
        "| low | 2 | 7,172 | `b0` 900 of 1,000, 10.0; `b1` 899 of 1,001, 11.0; `b2` 898 of 1,002, 12.0; `b3` 897 of"
        " 1,003, 13.0; `b4` 896 of 1,004, 14.0; `b5` 895 of 1,005, 15.0 |",
        "| max | 2 | `core.fill` 3, 1.50 + 2.25; `control.gate` 1, 0.50 + 0.00; `top` 0, 0.00 + 1.00 |",
    ))  # fmt: skip


def test_targets(tmp_path):
    """One of two seeds has its critical path in the array, and one more has no route."""
    inside, outside = ([{"block": block, "cells": 1, "logic_ns": 1.0, "routing_ns": 1.0}]
                       for block in ("core.compute.array.pe0", "core.fill"))  # fmt: skip
    rest = {"late": {}, "fmax_best_mhz": 60.0, "best_seed": 1}
    ways = (
        {"fmax_median_mhz": 50.0, "fmax_mhz": {"1": 60.0}, "critical_paths": {"1": inside}},
        {"fmax_median_mhz": 20.0, "fmax_mhz": {"1": 60.0, "2": 20.0}, "critical_paths": {"1": inside, "2": outside},
         "unrouted": {"3": "none"}},
    )  # fmt: skip
    placed = [design(ECP5, variant, BASELINE, **rest, **way)
              for variant, way in zip(("baseline", "low"), ways, strict=True)]  # fmt: skip
    write(tmp_path, "ecp5", {}, {"designs": placed})
    found = rows(implementation.implementation(AA, tmp_path))
    assert_once(found, (
        "| reached? | a median of 50 MHz | the critical path lies in the array "
        "| GMAC/s a thousand LUTs, with the main array's PEs busy |",
        "| baseline | yes: 50.0 | yes: with 1 of 1 seeds | 0.400 |",
        "| low | no: 20.0 | no: with 1 of 3 seeds | 0.160 |",
        "| low | 2 | `core.fill` 1, 1.00 + 1.00 |",
    ))  # fmt: skip


def test_a_larger_array_has_targets_of_area(tmp_path):
    """Preset ecp5_8x8 has 8 x 8 PEs."""

    def sized(variant, luts):
        found = design(ECP5, variant, BASELINE)
        return found | {"resources": found["resources"] | {"lut": luts}}

    write(tmp_path, "ecp5_8x8", {}, {"designs": [sized("baseline", 28_000), sized("max", 44_001)]},
          config="ecp5_8x8")  # fmt: skip
    text = implementation.implementation(AA, tmp_path, flows={"ecp5_8x8": "other"})
    part = text[text.index("### 8 x 8 PEs\n") :]
    assert "ecp5_8x8: Of an earlier flow, by" in part and "2 lanes in the epilogue" in part
    assert "none was routed" in part
    assert_once(rows(part), (
        "| baseline | 28,000 | 28,000 | yes |", "| low | not measured | 36,000 | not measured |",
        "| max | 44,001 | 44,000 | no |",
    ))  # fmt: skip


def test_standard_cells(tmp_path):
    def mapped(variant, cells, memories, **watts):
        parts = {"clock": 0.02, "data": 0.01, "leakage": 1e-5, "memories": 0.0}
        power = {f"power_{phase}_w": {**parts, "total": total} for phase, total in watts.items()}
        resources = {"cell_area": cells, "memory_area": memories}
        blocks = {block: {"cell_area": 100} for block in COLUMN_BLOCKS}
        mhz = {"fmax_best_mhz": 1e6 / cells}
        return {"variant": variant, "resources": resources, "area": cells + memories, "blocks": blocks, **power, **mhz}

    found = [mapped("baseline", 8000, 2000, bp=0.04), mapped("max", 9000, 2500, bp=0.05, gp=0.03)]
    write(tmp_path, "asic", {}, {"designs": found})
    seen = rows(implementation.implementation(AA, tmp_path))
    assert_once(seen, (
        "| cells | max | 9,000 | +1,000 | +12.5 | 2,770,979 | +224,903 | +8.8 |",
        "| memories | max | 2,500 | +500 | +25.0 | not given |  |  |",
        "| interconnect | max | not measured |  |  | 460,157 | +23,542 | +5.4 |",
        "| cells and interconnect | max | not measured |  |  | 3,231,136 | +248,445 | +8.3 |",
        "| cells and memories | max | 11,500 | +1,500 | +15.0 | not given |  |  |",
        "| clock, MHz, of gates alone | max | 111.1 | -13.89 | -11.1 | not given |  |  |",
        "| power in BP, W | max | 0.05 | +0.01 | +25.0 | 0.254 | +0.03 | +13.4 |",
        "| power in GP, W | baseline | 0.04 |  |  | 0.224 |  |  |",
        "| power in GP, W | max | 0.03 | -0.01 | -25.0 | 0.254 | +0.03 | +13.4 |",
        "| baseline | BP | 0.02 | 0.01 | 1e-05 | 0 | 0.04 | not counted |",
        "| max | GP | 0.02 | 0.01 | 1e-05 | 0 | 0.03 | not counted |",
        "| baseline | 0.0226 | 0.00172 | 0.199 | 0.224 |",
    ))  # fmt: skip


def test_another_library_of_cells_has_a_part_of_its_own(tmp_path):
    """With its clock gates, its age by the flow of cells, and a column where areas are compared."""

    def mapped(variant, cells):
        power = {"clock": 0.02, "data": 0.01, "leakage": 1e-5, "memories": 0.0, "total": 0.03, "clock_open": 0.1234}
        return {
            "variant": variant, "resources": {"cell_area": cells, "memory_area": 0}, "area": cells,
            "blocks": {"": {"cell_area": cells}, **{block: {"cell_area": 300} for block in COLUMN_BLOCKS}},
            "fmax_best_mhz": 99.5, "power_bp_w": power, "power_gp_w": power,
        }  # fmt: skip

    write(tmp_path, "asic_sg13g2", {}, {"designs": [mapped("baseline", 9000), mapped("max", 9990)]})
    text = implementation.implementation(AA, tmp_path, flows={"asic_sg13g2": "other"})
    part = text[text.index("### SG13G2\n") :]
    assert "asic_sg13g2: Of an earlier flow, by" in part and "with clock gates. Our designs have 16 PEs." in part
    assert_once(rows(part), (
        "| cells | max | 9,990 | +990 | +11.0 | 2,770,979 | +224,903 | +8.8 |",
        "| max | GP | 0.02 | 0.01 | 1e-05 | 0 | 0.03 | 12.3 |", "|  | SG13G2, `tiny` |",
        "| more PEs for this logic | 17 |",
    ))  # fmt: skip
    assert "### SKY130HD" not in text and "asic_sky130" not in text and "asic: not measured yet" in text
    assert "at most" not in part[: part.index("## The baseline")]  # its 16 PEs are too few


def test_additions_to_64_pes_have_a_target(tmp_path):
    """12 % for MAX, 4 % for LOW; and GP takes less power than BP or not, where it is measured."""

    def mapped(variant, cells, **watts):
        power = {f"power_{phase}_w": {"total": total} for phase, total in watts.items()}
        return {
            "variant": variant, "resources": {"cell_area": cells, "memory_area": 0}, "area": cells, **power,
            "blocks": {block: {"cell_area": 100} for block in COLUMN_BLOCKS}, "fmax_best_mhz": 99.5,
        }  # fmt: skip

    designs = [mapped("baseline", 10_000, bp=0.04), mapped("low", 10_401, bp=0.05, gp=0.051),
               mapped("efficient", 10_600), mapped("max", 11_200, bp=0.05, gp=0.04)]  # fmt: skip
    write(tmp_path, "asic_sg13g2", {}, {"designs": designs}, config="xc7a100t")
    assert_once(rows(implementation.implementation(AA, tmp_path, flows={"asic_sg13g2": "other"})), (
        "| design | more cells, % | at most | reached? | power in GP against its own in BP, % | less? |",
        "| low | +4.01 | 4 | no | +2.0 | no |", "| efficient | +6.00 | 6 | yes | not measured |  |",
        "| max | +12.00 | 12 | yes | -20.0 | yes |",
    ))  # fmt: skip


def test_where_figures_come_from(measured):
    text = implementation.implementation(AA, measured, flows={})
    assert figures.named(text) == AA
    line = (
        ", by <code>make it</code></summary>Preset <code>tiny</code> at 50 MHz with y. "
        "Commit <code>cccccccccccc</code>; seed [1, 2]; yosys 1.0.</details>\n\n"
    )
    assert text.count(f"\n\n<details><summary>xilinx: Current{line}") == 3
    assert text.count(f"\n\n<details><summary>ecp5: Of earlier hardware{line}") == 3
    for name, times in (("asic", 2), ("variants_digits", 1), ("pe_formats", 1)):
        missing = f"\n\n{name}: not measured yet; `nox -s bench_{name}` writes `results/{name}.json`.\n\n"
        assert text.count(missing) == times


def test_nothing_measured(tmp_path):
    text = implementation.implementation(AA, tmp_path)
    assert set(re.findall(r"^(\w+): not measured yet", text, re.MULTILINE)) == set(implementation.SOURCES)
    assert "| LUT | max | not measured |  |  | 494,080 | +22,076 | +4.7 |" in rows(text)
    assert "None" not in text and "nan" not in text


def test_there_is_nothing_to_compare_with(tmp_path):
    write(tmp_path, "ecp5", {}, {"designs": [design(ECP5, "max", MAX)]})
    with pytest.raises(ValueError, match=r"^ecp5\.json has no baseline, only max: nothing to compare with$"):
        implementation.implementation(AA, tmp_path)


def test_a_block_without_a_reason(tmp_path):
    large = {**LOW, "update.fourth": {"lut": 99}, "update.fourth.fifo": {"lut": 1}, "sixth": {"lut": 1200}}
    designs = [design(XILINX, "baseline", BASELINE, luts_estimated=1), design(XILINX, "low", large, luts_estimated=2)]
    write(tmp_path, "xilinx", {}, {"designs": designs})
    with pytest.raises(ValueError) as found:
        implementation.implementation(AA, tmp_path)
    assert str(found.value) == (
        "7 series, low: evaluation/report/added_blocks.py has no reason for sixth (+1,200 LUTs), update.fourth "
        "(+100 LUTs)"
    )


def test_too_much_elsewhere():
    few, many = ({"": {"lut": luts}, "core": {"lut": 2100}} for luts in (105, 106))
    none = {"core": {"lut": 100}}
    blocks = [design(ECP5, "x", found)["blocks"] for found in (few, many, none)]
    assert added(blocks[0], blocks[2], "x") == {"": 105, "core": 2000}
    with pytest.raises(ValueError, match=r"^x: 106 of 2,106 LUTs are in no block with a reason$"):
        added(blocks[1], blocks[2], "x")


def test_what_is_added_adds_up():
    """Also where blocks have gone, and for small blocks without a reason in blocks without one."""
    one = {"": {"lut": 50}, "core": {"lut": 50}, "core.new.inner": {"lut": 20}, "other.new": {"lut": 5}}
    two = {"": {"lut": 40}, "core": {"lut": 20}, "core.gone": {"lut": 15}, "other": {"lut": 1}}
    found = added(*(design(ECP5, "x", blocks)["blocks"] for blocks in (one, two)), "x")
    assert {row: luts for row, luts in found.items() if luts} == {"": 10 + 5 - 1, "core": 30 + 20 - 15}
    assert added_blocks.UNEXPLAINED_LUTS == 100


def blocks_of(variant, name="tiny"):
    """Paths of an accelerator's blocks."""
    found = set()

    def visit(fragment, path):
        for inner, name, _ in fragment.subfragments:
            found.add(f"{path}{name}")
            visit(inner, f"{path}{name}.")

    visit(Fragment.get(Top(replace(preset(name), variant=variant)), None), "")
    return found


def test_reasons_are_of_blocks_that_there_are():
    """Those that a design adds have one each, and so do the largest that both have."""
    baseline, known = blocks_of("baseline"), set()
    for variant in VARIANTS[1:]:
        blocks = blocks_of(variant)
        new = {block for block in blocks - baseline if block.rpartition(".")[0] in {"", *baseline}}
        assert new and not new - set(REASONS), (
            f"evaluation/report/added_blocks.py has no reasons for some blocks of {variant}"
        )
        known |= blocks
    known |= blocks_of("max", "paper")  # whose predictor has a narrower port
    assert not set(REASONS) - known - {added_blocks.ELSEWHERE, added_blocks.NAMELESS}
    assert {block for block in baseline if "." not in block} <= set(REASONS)
