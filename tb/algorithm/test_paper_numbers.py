"""The paper's Tables 4 and 5 against their own sums and the percentages that its text gives."""

from math import floor

import pytest
from adagp.algorithm.paper_numbers import (
    ACCURACY,
    ACCURACY_GAINS,
    ASIC_AREA,
    ASIC_POWER_UW,
    FPGA_POWER_W,
    FPGA_RESOURCES,
)
from adagp.spec.config import VARIANTS

PREDICTING = VARIANTS[1:]


def added(table, name):
    """Each design's addition to the baseline, in the table's unit and in percent."""
    base = table["baseline"][name]
    more = [table[variant][name] - base for variant in PREDICTING]
    return more, [100 * value / base for value in more]


@pytest.mark.parametrize("table", [FPGA_RESOURCES, FPGA_POWER_W, ASIC_AREA, ASIC_POWER_UW])
def test_tables_have_all_designs_and_columns(table):
    assert tuple(table) == VARIANTS
    assert len({tuple(row) for row in table.values()}) == 1
    assert all(value > 0 for row in table.values() for value in row.values())


def test_fpga_resources():
    more, percent = added(FPGA_RESOURCES, "lut")
    assert more == [17_282, 21_167, 22_076]
    assert [round(value, 1) for value in percent] == [3.7, 4.5, 4.7]
    assert added(FPGA_RESOURCES, "ramb36")[0] == [0, 1_080, 1_080]
    assert added(FPGA_RESOURCES, "ramb18")[0] == [0, 0, 0]
    assert added(FPGA_RESOURCES, "dsp48")[0] == [0, 0, 80]


def test_fpga_power():
    assert [floor(10 * value) / 10 for value in added(FPGA_POWER_W, "total")[1]] == [0.8, 3.5, 3.8]  # section 6.6.1
    for row in FPGA_POWER_W.values():
        assert 0.09 < row["total"] - sum(value for name, value in row.items() if name != "total") < 0.13


def test_asic_area():
    assert [floor(10 * value) / 10 for value in added(ASIC_AREA, "total")[1]] == [1.7, 2.6, 8.3]  # section 6.6.1
    for row in ASIC_AREA.values():
        assert abs(row["cells"] + row["interconnect"] - row["total"]) <= 1


def test_asic_power():
    percent = added(ASIC_POWER_UW, "total")[1]
    assert [round(value, 1) for value in percent] == [0.9, 0.4, 13.4]
    for row in ASIC_POWER_UW.values():
        parts = row["internal"] + row["switching"] + row["leakage"]
        assert parts == pytest.approx(row["total"], rel=5e-3)  # of three digits


def test_accuracies_are_as_the_text_says():
    """Section 6.1.1: at most 2.15 points are gained on CIFAR-100; of three networks it tells the gain on ImageNet."""
    gains = {data: {name: pair[data][1] - pair[data][0] for name, pair in ACCURACY.items()} for data in ACCURACY_GAINS}
    assert len(ACCURACY) == 13 and max(gains["cifar100"].values()) == pytest.approx(2.15)
    of_three = {"densenet161": 0.28, "densenet201": 0.04, "vgg13": 0}
    assert {name: gains["imagenet"][name] for name in of_three} == pytest.approx(of_three)
    assert sum(gains["imagenet"].values()) / 13 == pytest.approx(ACCURACY_GAINS["imagenet"], abs=0.01)
