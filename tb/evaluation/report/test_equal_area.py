"""MAX beside a baseline of the same area: numbers worked by hand."""

import pytest
from adagp.evaluation.report import implementation
from adagp.synth.ecp5 import ECP5
from adagp.synth.xilinx import XILINX
from digests import AA
from made_designs import BASELINE, MAX, assert_once, design, rows, write, write_measured


@pytest.fixture
def measured(tmp_path):
    """A folder with results of three designs on both FPGAs."""
    return write_measured(tmp_path)


def test_equal_area(measured):
    """A PE takes (200 + 40 + 240) / 16 = 30 LUTs and a multiplier; MAX adds 1,234 and 8."""
    text = implementation.implementation(AA, measured)
    found = rows(text[text.index("## The baseline") :])
    assert [row.strip("| ").split(" | ")[:2] for row in found[1:]] == [
        ["PEs of the baseline", "16"], ["logic a PE", "30.0"], ["multipliers a PE", "1.00"],
        ["logic that MAX adds", "+1,234"], ["multipliers that MAX adds", "+8"], ["more PEs for this logic", "41"],
        ["more PEs for this logic and multipliers", "8"], ["speed-up at best, for this logic", "3.56"],
        ["speed-up at best, for this logic and multipliers", "1.50"],
        ["speed-up of MAX, in measured cycles", "not measured"],
        ["speed-up of MAX, each at its median clock", "not measured"],
    ]  # fmt: skip
    assert found[0] == "|  | 7 series, `tiny` | ECP5, `tiny` |"
    assert "7 series, `tiny`: MAX's speed-up isn't measured with this preset. ECP5, `tiny`: MAX's" in text


@pytest.mark.parametrize("gain, said", [
    (1.46, "the larger baseline, if it reaches its best (1.50 against 1.46)"),
    (1.51, "MAX (1.51 against 1.50 at best)"),
])  # fmt: skip
def test_which_is_faster_is_said(measured, gain, said):
    """A PE of 180 takes 480 / 180 LUTs: 462 more for the LUTs that MAX adds, 90 more for its multipliers."""
    write(measured, "variants_vgg13", {"speedup_max": gain})
    found = [design(XILINX, variant, blocks, luts_estimated=1) for variant, blocks in
             (("baseline", BASELINE), ("max", MAX))]  # fmt: skip
    write(measured, "xilinx", {}, {"designs": found}, config="paper")
    text = implementation.implementation(AA, measured)
    assert f"for its logic, the larger baseline, if it reaches its best (3.57 against {gain})" in text
    assert f"for its logic and multipliers, {said}" in text


def test_standard_cells_are_exchanged_too(tmp_path):
    blocks = {"": {"cell_area": 9000}, "core.compute.array": {"cell_area": 3200},
              "core.compute.accumulator": {"cell_area": 400}, "core.drain.epilogue": {"cell_area": 400}}  # fmt: skip
    designs = [
        {
            "variant": variant,
            "resources": {"cell_area": cells, "memory_area": 0},
            "area": cells,
            "blocks": blocks,
            "fmax_best_mhz": 99.5,
        }
        for variant, cells in (("baseline", 9000), ("max", 9999))
    ]
    for each, total in zip(designs, (0.04, 0.0519), strict=True):
        inside = {"core.compute.array": 0.012, "core.compute.accumulator": 0.003, "core.drain.epilogue": 0.001}
        each["power_bp_w"] = {"total": total, "blocks": {"": total, **inside}}
    write(tmp_path, "asic", {}, {"designs": designs})
    found = rows(implementation.implementation(AA, tmp_path))
    assert_once(found, (
        "| power a PE, mW | 1 |", "| power that MAX adds, mW | +11.9 |", "| more PEs for this power | 11 |",
        "| speed-up at best, for this power | 1.69 |",
        "| logic a PE | 250.0 |", "| logic that MAX adds | +999 |", "| more PEs for this logic | 3 |",
        "| speed-up at best, for this logic | 1.19 |",
    ))  # fmt: skip


@pytest.mark.parametrize("hardware, said", [("aa", "1.12"), ("bb", "measured on different hardware")])
def test_speed_up_in_time(tmp_path, hardware, said):
    """1.40 in cycles is 1.12 in time where the clocks are 50 and 40 MHz."""
    rest = {"late": {}, "critical_paths": {"1": []}, "fmax_best_mhz": 99.0, "best_seed": 1}
    placed = [
        design(ECP5, variant, blocks, fmax_mhz={"1": mhz}, fmax_median_mhz=mhz, **rest)
        for variant, blocks, mhz in (("baseline", BASELINE, 50.0), ("max", MAX, 40.0))
    ]
    write(tmp_path, "ecp5", {}, {"designs": placed}, config="ecp5", hardware=hardware)
    write(tmp_path, "variants_digits", {"speedup_max": 1.4})
    found = rows(implementation.implementation(AA, tmp_path))
    assert_once(found, (
        "| speed-up of MAX, in measured cycles | 1.40 |", f"| speed-up of MAX, each at its median clock | {said} |",
    ))  # fmt: skip
