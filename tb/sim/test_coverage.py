"""The tools of coverage: points out of generated C++, holes, exclusions, shares."""

from collections import Counter

import numpy as np
import pytest
from adagp.gen.verilog import generate
from adagp.sim import Simulation
from adagp.sim.build import library
from adagp.sim.coverage import LINE, TOGGLE, Point, load, save, take
from adagp.spec.presets import preset
from memory_traffic_dut import Copier, start

from ..coverage.figures import BRANCH, Exclusion, exclude, figures, holes, sources, table, toggles

C = """void configure_coverage(Vadagp___024root* vlSelf, bool first) {
    vlSelf->__vlCoverToggleInsert(0, 0, 0, &(vlSymsp->__Vcoverage[0]), first, "top.v", 2, 9, ".adagp", \
"v_toggle/adagp", "bus___05Fready");
    vlSelf->__vlCoverToggleInsert(0, 1, 1, &(vlSymsp->__Vcoverage[2]), first, "top.v", 3, 9, ".adagp.fill", \
"v_toggle/adagp.fill", "__0241__02estart");
    vlSelf->__vlCoverToggleInsert(0, 0, 0, &(vlSymsp->__Vcoverage[0]), first, "top.v", 4, 9, ".adagp.fill", \
"v_toggle/adagp.fill", "ready");
    vlSelf->__vlCoverInsert(&(vlSymsp->__Vcoverage[6]), first, "top.v", 5, 22, ".adagp.fill", \
"v_branch/adagp.fill", "cond_then", "5", "", "", "", "");
    vlSelf->__vlCoverInsert(&(vlSymsp->__Vcoverage[7]), first, "top.v", 5, 23, ".adagp.fill", \
"v_branch/adagp.fill", "cond_else", "5", "", "", "", "");
}
"""
POINTS = [
    Point(TOGGLE, "adagp", 2, 9, "bus__ready", 0),
    Point(TOGGLE, "adagp.fill", 4, 9, "ready", 0),
    Point(TOGGLE, "adagp.fill", 3, 9, "$1.start", 2, 2),
    Point(LINE, "adagp.fill", 5, 22, "cond_then", 6),
    Point(LINE, "adagp.fill", 5, 23, "cond_else", 7),
]
TEXT = ["", "  output bus__ready;", "wire [1:0] start;", "wire ready;", "  assign y = s ? a : b;"]
BLOCKS = {"adagp": "top", "adagp.fill": "dma.fill"}
COUNTS = np.array([1, 1, 5, 0, 0, 1, 9, 0], np.uint64)


def seen(counts=COUNTS):
    return holes(POINTS, counts, BLOCKS, TEXT)


def test_points_of_generated_code(tmp_path):
    (tmp_path / "a.cpp").write_text(C)
    assert take([tmp_path / "a.cpp"]) == POINTS
    assert "Insert" not in (tmp_path / "a.cpp").read_text()
    save(tmp_path / "points.json", POINTS)
    assert load(tmp_path / "points.json") == POINTS


def test_a_counter_without_a_point_is_refused(tmp_path):
    (tmp_path / "a.cpp").write_text(C.replace("__Vcoverage[7]", "__Vcoverage[8]"))
    with pytest.raises(ValueError, match="counter 7 belongs to no point"):
        take([tmp_path / "a.cpp"])


def test_holes_belong_to_the_innermost_module():
    found, totals = seen()
    assert totals == {(TOGGLE, "dma.fill"): 6, (LINE, "dma.fill"): 1, (BRANCH, "dma.fill"): 2}
    assert [(hole.kind, hole.line, hole.what) for hole in found] == [
        (TOGGLE, 3, "$1.start[0] rises"), (TOGGLE, 3, "$1.start[1] falls"), (BRANCH, 5, "cond_else"),
    ]  # fmt: skip
    assert str(found[-1]) == "adagp.fill:5 cond_else: assign y = s ? a : b;"
    assert seen(COUNTS + np.uint64(1))[0] == []


def test_a_line_is_covered_where_any_of_it_is():
    found, _ = seen(np.zeros(8, np.uint64))
    assert [(hole.kind, hole.what) for hole in found if hole.kind != TOGGLE] == [
        (BRANCH, "cond_then"), (BRANCH, "cond_else"), (LINE, "cond_then"),
    ]  # fmt: skip
    _, details, left = figures(found, seen()[1], [Exclusion(".*", ".*y = s.*", "cond_then", "never")])
    assert [hole.kind for hole in left if hole.kind != TOGGLE] == [BRANCH] and details["excluded"] == {"never": 2}


def test_excluded_holes_count_neither_as_covered_nor_as_open():
    exclusion = Exclusion(r"adagp\.fill", "wire.*", r".*\[1\] falls", "constant")
    values, details, left = figures(*seen(), [exclusion])
    assert values == {
        "line_coverage": 100.0,
        "branch_coverage": 50.0,
        "toggle_coverage": 80.0,
    }  # of 6 edges one is excluded
    assert details["excluded"] == {"constant": 1} and len(left) == 2
    assert details["blocks"]["dma.fill"] == details["all"]
    assert details["all"]["toggle_counters"] == 6 and details["all"]["toggle_excluded"] == 1
    assert details["open"] == {"dma.fill": ["adagp.fill:5 cond_else: assign y = s ? a : b;"]}
    assert table(details).splitlines()[-1] == "| all | 1 | 0 | 0 | 100.0 | 2 | 0 | 1 | 50.0 | 6 | 1 | 1 | 80.0 |"


def test_an_exclusion_must_exclude_something():
    found, _ = seen()
    for useless in (
        Exclusion(r"adagp\.fill", ".*", "cond_then", "covered"),
        Exclusion("adagp", ".*", ".*", "of another module"),
        Exclusion(".*", "wire.*", "cond_else", "of another line"),
    ):
        with pytest.raises(ValueError, match="no hole is excluded"):
            exclude(found, [useless])
    assert exclude([], []) == ([], {})


def test_without_holes_coverage_is_full():
    values, _, left = figures([], Counter({(LINE, "a"): 3, (TOGGLE, "a"): 2}), [])
    assert set(values.values()) == {100.0} and left == []


def test_what_each_source_has_covered():
    other = np.array([0, 0, 0, 1, 0, 0, 0, 0], np.uint64)
    assert sources(POINTS, {"stages": COUNTS, "cocotb fill": other + COUNTS * np.uint64(0)}) == {
        "stages": {"points": 1, "points_alone": 1, "toggles": 4, "toggles_alone": 4},
        "cocotb fill": {"points": 0, "points_alone": 0, "toggles": 1, "toggles_alone": 1},
    }
    both = sources(POINTS, {"a": COUNTS, "b": COUNTS})
    assert both["a"] == both["b"] == {"points": 1, "points_alone": 0, "toggles": 4, "toggles_alone": 0}


def test_holes_of_toggles_by_their_bits():
    signals = {  # counts of falls and rises of bit 0, bit 1, ...
        "still": [0, 0, 0, 0], "upper": [1, 1, 0, 0, 0, 0], "once": [1, 1, 0, 1], "middle": [0, 0, 1, 1], "all": [1, 1],
    }  # fmt: skip
    points, counts = [], []
    for name, edges in signals.items():
        points.append(Point(TOGGLE, "adagp.fill", 2, 1, name, len(counts), len(edges) // 2))
        counts += edges
    found = toggles(points, np.array(counts, np.uint64), BLOCKS)
    assert found["sorts"] == {
        "signals that never change": 4, "upper bits that never change": 4, "other bits that never change": 2,
        "bits that change once": 1,
    }  # fmt: skip
    assert found["most"] == {
        "dma.fill still": 4, "dma.fill upper": 4, "dma.fill middle": 2, "dma.fill once": 1,
    }  # fmt: skip


def test_what_a_simulator_counts(tmp_path):
    config, kinds = preset("tiny"), (LINE, TOGGLE)
    top = generate(config, tmp_path, Copier(config))
    points = load(library(config, coverage=kinds, top=top).with_suffix(".json"))
    text, modules = top.read_text().splitlines(), {point.module for point in points}

    def counts(bursts, into=None):
        into = np.zeros(max(point.counter + point.n_counters for point in points), np.uint64) if into is None else into
        with Simulation(config, memory_bytes=1 << 20, top=top, coverage=(kinds, into)) as device:
            if bursts:
                start(device, bursts, 4)
                device.run_until_irq(10_000)
        return into

    def uncovered(into):
        return {f"{hole.module} {hole.what}" for hole in holes(points, into, dict.fromkeys(modules, "copier"), text)[0]}

    idle, busy = counts(0), counts(3)
    irq = "adagp.accelerator irq[0]"
    assert f"{irq} rises" in uncovered(idle) - uncovered(busy) and f"{irq} falls" in uncovered(busy)
    assert all(text[point.line - 1].strip() for point in points)
    lines = [point.counter for point in points if point.kind == LINE]
    assert 0 < np.count_nonzero(idle[lines]) < np.count_nonzero(busy[lines])
    assert (counts(3, busy.copy()) == 2 * busy).all()
