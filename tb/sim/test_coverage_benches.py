"""Benches' coverage in the whole: by which names they are run, what they leave, which statements are the same."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

from adagp.sim.coverage import LINE, TOGGLE, Point

from ..coverage.benches import BENCHES, Bench, read
from ..coverage.statements import Statements, pair

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


def test_benches_are_there():
    """By the names that coverage runs them by."""
    root = Path(__file__).parents[2]
    tests = [f"tb/cocotb/{module}.py::{test}" for module, _, test in (b.test.partition("::") for b in BENCHES)]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *tests]
    found = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    assert len(tests) > 5 and all(test in found.stdout.splitlines() for test in tests)
