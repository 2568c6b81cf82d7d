"""The tools of coverage: points out of generated C++, holes, exclusions, shares, a block alone and in the whole."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from adagp.gen.verilog import generate
from adagp.sim import Simulation
from adagp.sim.build import library
from adagp.sim.coverage import LINE, TOGGLE, Point, load, save, take
from adagp.spec.presets import preset
from copier import Copier, start

from ..coverage.benches import BENCHES, Bench, read
from ..coverage.figures import BRANCH, Exclusion, exclude, figures, holes, sources, table, toggles
from ..coverage.statements import Statements, pair

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
BLOCKS = {"adagp": "top", "adagp.fill": "dma_read"}
COUNTS = np.array([1, 1, 5, 0, 0, 1, 9, 0], np.uint64)


def seen(counts=COUNTS):
    return holes(POINTS, counts, BLOCKS, TEXT)


def test_benches_are_there():
    """By the names that coverage runs them by."""
    root = Path(__file__).parents[2]
    tests = [f"tb/cocotb/{module}.py::{test}" for module, _, test in (b.test.partition("::") for b in BENCHES)]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *tests]
    found = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    assert len(tests) > 5 and all(test in found.stdout.splitlines() for test in tests)


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
    assert totals == {(TOGGLE, "dma_read"): 6, (LINE, "dma_read"): 1, (BRANCH, "dma_read"): 2}
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
    assert details["blocks"]["dma_read"] == details["all"]
    assert details["all"]["toggle_counters"] == 6 and details["all"]["toggle_excluded"] == 1
    assert details["open"] == {"dma_read": ["adagp.fill:5 cond_else: assign y = s ? a : b;"]}
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
        "dma_read still": 4, "dma_read upper": 4, "dma_read middle": 2, "dma_read once": 1,
    }  # fmt: skip


ALONE = r"""module \adagp.accelerator (core_clk, go, step, more);
  input go;
  wire \$1 ;
  wire \$2 ;
  reg [3:0] count;
  assign \$1  = go & step;
  assign \$2  = go | step;
  assign procmux_7_Y  = \$1  ? count : 4'h0;
  assign procmux_9_Y  = \$2  ? count : 4'h0;
  always @(posedge core_clk)
    if (more) count <= procmux_7_Y ;
endmodule
""".splitlines()
WITHIN = r"""module \adagp.accelerator.fill (fill_gated_clk, go, step);
  input go;
  wire \$5 ;
  wire \$3 ;
  reg [3:0] count;
  assign \$3  = go | step;
  assign \$5  = go & step;
  assign procmux_20_Y  = \$3  ? count : 4'h0;
  assign procmux_30_Y  = \$5  ? count : 4'h0;
  always @(posedge fill_gated_clk)
    count <= procmux_30_Y ;
endmodule
""".splitlines()


def arms(text, module):
    """Points of a text: of each multiplexer its arms, of all else what Verilator has of it."""
    points = []
    for number, line in enumerate(text, 1):
        if "?" in line:
            points += [
                Point(LINE, module, number, 1 + arm, f"cond_{name}", -1) for arm, name in ((0, "then"), (1, "else"))
            ]
        elif "always" in line:
            points.append(Point(LINE, module, number, 3, "block", -1))
        elif "if (" in line:
            points += [Point(LINE, module, number, 5, name, -1) for name in ("if", "else")]
        elif "wire" in line or "reg" in line:
            name = line.split()[-2 if line.endswith(" ;") else -1].strip("\\;")
            points.append(Point(TOGGLE, module, number, 8, name, -1, 4 if "3:0" in line else 1))
    return points


def test_a_statement_is_the_same_whatever_its_numbers_and_place():
    names = "adagp.accelerator", "adagp.accelerator.fill"
    theirs, ours = arms(ALONE, names[0]), arms(WITHIN, names[1])
    pairs = pair(Statements(ALONE), theirs, Statements(WITHIN), ours)
    assert {(a.line, b.line, a.name.strip("$0123456789"), a.name == b.name) for a, b in pairs} == {
        (3, 3, "", False), (4, 4, "", False), (5, 5, "count", True),
        (8, 9, "cond_then", True), (8, 9, "cond_else", True), (9, 8, "cond_then", True), (9, 8, "cond_else", True),
        (10, 10, "block", True),
    }  # fmt: skip


def test_what_one_text_has_more_of_is_not_paired():
    twice = [*WITHIN[:-1], *WITHIN[8:9], WITHIN[-1]]
    theirs, ours = arms(ALONE, "adagp.accelerator"), arms(twice, "adagp.accelerator.fill")
    lines = {a.line for a, _ in pair(Statements(ALONE), theirs, Statements(twice), ours)}
    assert 9 in lines and 8 not in lines


CHOICE = """  function [3:0] procmux_{0} ;
    casez (s)
      2'b?1:
        procmux_{0} = b[3:0];
    endcase
  endfunction
  assign next{1} = procmux_{0} (4'h0, {1}, {1} & go);""".splitlines()


def test_cases_are_those_of_what_they_choose():
    def text(name, *choices):
        lines = [line.format(*choice) for choice in choices for line in CHOICE]
        return [f"module \\{name} (core_clk);", *lines, "endmodule"]

    def cases(text, name):
        return [Point(LINE, name, n, 7, "case", -1) for n, line in enumerate(text, 1) if line.endswith("?1:")]

    theirs, ours = text("a", (3, "x"), (4, "y")), text("b", (7, "y"), (8, "x"))
    pairs = pair(Statements(theirs), cases(theirs, "a"), Statements(ours), cases(ours, "b"))
    assert [(a.line, b.line) for a, b in pairs] == [(4, 11), (11, 4)]


def test_several_that_may_differ_in_what_is_not_known_are_not_paired():
    def points(*numbers):
        text = ["module a (core_clk);", *(f"  assign o{n % 2} = \\busy${n}  ? x : y;" for n in numbers)]
        plain = ["module a (core_clk);", *(f"  assign \\o${n}  = \\busy${n}  ? x : y;" for n in numbers)]
        return [(Statements(t), [Point(LINE, "a", k, 9, "cond_then", -1) for k in (2, 3)]) for t in (text, plain)]

    (a, c), (b, d) = points(4, 5), points(8, 9)
    assert len(pair(*a, *b)) == 2 and pair(*c, *d) == []


RECORD = "C '\1f\2top.v\1l\2{line}\1n\2{column}\1t\2{kind}\1page\2v_{kind}/{module}\1o\2{what}\1h\2{module}' {count}\n"


def record(line, column, kind, what, count, module="adagp.accelerator"):
    return RECORD.format(line=line, column=column, kind=kind, what=what, count=count, module=module)


def test_what_a_bench_leaves_is_read(tmp_path):
    (tmp_path / "coverage.dat").write_text(
        "# SystemC::Coverage-3\n"
        + record(5, 9, "toggle", "count[0]:0->1", 3) + record(5, 9, "toggle", "count[0]:1->0", 2)
        + record(5, 9, "toggle", "count[1]:0->1", 1) + record(5, 9, "toggle", "count[1]:1->0", 0)
        + record(3, 8, "toggle", "__0241:0->1", 7) + record(3, 8, "toggle", "__0241:1->0", 6)
        + record(8, 3, "branch", "cond_then", 4) + record(8, 3, "branch", "cond_then", 1)
    )  # fmt: skip
    points, counts = read(tmp_path / "coverage.dat")
    count, made_up, arm = points
    assert (count.kind, count.module, count.line, count.column, count.name, count.bits) == (
        TOGGLE, "adagp.accelerator", 5, 9, "count", 2,
    )  # fmt: skip
    assert [counts[count, number] for number in range(4)] == [2, 3, 0, 1]  # falls and rises of each bit
    assert made_up.name == "$1" and [counts[made_up, number] for number in range(2)] == [6, 7]
    assert arm.kind == LINE and counts[arm, 0] == 5


def test_what_a_bench_covers_counts_for_the_block_in_the_whole():
    bench = Bench("test_fill::test_fill[verilator]", "adagp.accelerator", "adagp.accelerator.fill")
    assert bench.name == bench.source == "cocotb fill"
    theirs = [*arms(ALONE, "adagp.accelerator"), Point(LINE, "adagp", 1, 1, "block", -1)]
    ours = [Point(p.kind, p.module, p.line, p.column, p.name, 10 * n, p.bits)
            for n, p in enumerate(arms(WITHIN, "adagp.accelerator.fill"))]  # fmt: skip
    covered = Counter({(point, 0): point.line for point in theirs})
    counts, found = bench.transfer(theirs, covered, Statements(ALONE), ours, Statements(WITHIN))
    by_line = {(p.line, p.name): int(counts[p.counter]) for p in ours}
    assert by_line[9, "cond_then"] == by_line[9, "cond_else"] == 8 and by_line[8, "cond_then"] == 9
    assert by_line[5, "count"] == 5
    assert found == {"line": 7, "line_found": 5, "toggle": 12, "toggle_found": 12}


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
