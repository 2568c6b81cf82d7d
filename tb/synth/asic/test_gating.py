"""Clock gates of cells: a library's cell, gates mapped and added by Yosys, and the power of clocks after them.

The libraries are made up, with a clock gate beside the other tests' cells.
"""

import json
import re
from itertools import product

import numpy as np
import pytest
from adagp.evaluation.instruments import activity as instrument
from adagp.rtl.lib.clock_gate import clock_gate
from adagp.sim.coverage import LINE, TOGGLE, Point
from adagp.spec.presets import preset
from adagp.synth.asic import cells as asic
from adagp.synth.asic import gating, liberty
from adagp.synth.asic.activity import Activity
from adagp.synth.asic.cells import Library, map_to_cells
from adagp.synth.asic.gates import Gates
from adagp.synth.asic.gating import open_shares
from adagp.synth.asic.power import watts
from adagp.synth.design import BLOCKS, Design
from adagp.synth.errors import TargetError
from amaranth import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from made_cells import cells
from made_netlists import FLIP_FLOP, HEAD, cell, gate, netlist

DESIGN = Design(preset("tiny"), "pe")
HERTZ = DESIGN.config.clock_hz
GATE = """
  cell (NAME) { area : 4; KIND
    pin (CK) { direction : input; clock : true; capacitance : 0.01; clock_gate_clock_pin : true; }
    pin (EN) { direction : input; capacitance : 0.01; clock_gate_enable_pin : true; }
    pin (held) { direction : internal; }
    pin (GCK) { direction : output; state_function : "CK * held"; clock_gate_out_pin : true; } MORE }
"""
KIND = "clock_gating_integrated_cell : latch_posedge;"
TEST = "pin (SE) { direction : input; capacitance : 0.01; clock_gate_test_pin : true; }"


def with_gates(path, *gates):
    text = path.read_text().rstrip().removesuffix("}")
    path.write_text(f"{text}{''.join(gates)}}}\n")
    return path


def icg(name="ICG", kind=KIND, more=""):
    return GATE.replace("NAME", name).replace("KIND", kind).replace("MORE", more)


def test_the_gate_of_a_library(tmp_path):
    """The one without a pin for tests, even where it is larger; latches and gates of other kinds are none."""
    plain = Library(cells(tmp_path / "none.lib"))
    other = Library(with_gates(cells(tmp_path / "other.lib"), icg(kind=KIND.replace("posedge", "negedge"))))
    assert plain.gate is None and other.gate is None
    scan = icg("SCAN", KIND.replace("posedge", "posedge_precontrol"), TEST)
    found = Library(with_gates(cells(tmp_path / "two.lib"), icg().replace("area : 4", "area : 9"), scan))
    assert found.gate == liberty.Gate("ICG", "CK", "EN", "GCK") and "held" not in found.pins["ICG"]
    assert found.pins["ICG"]["GCK"].output and found.pins["ICG"]["GCK"].function is None
    assert Library(with_gates(cells(tmp_path / "scan.lib"), scan)).gate == liberty.Gate(
        "SCAN", "CK", "EN", "GCK", ("SE",)
    )


def test_a_gate_without_its_pins_is_said_in_a_line(tmp_path):
    path = with_gates(cells(tmp_path / "bad.lib"), icg().replace("clock_gate_enable_pin : true;", ""))
    with pytest.raises(TargetError) as found:
        Library(path)
    assert str(found.value) == f"{path}: the clock gate ICG must have one clock, one enable and one output pin"


class Counter(wiring.Component):
    """Counts while it is told to."""

    count: In(1)
    value: Out(8)

    def elaborate(self, _platform):
        m = Module()
        with m.If(self.count):
            m.d.sync += self.value.eq(self.value + 1)
        return m


class Counters(wiring.Component):
    """A counter behind a clock gate of the RTL, and a register of three bits, too few for a gate of their own."""

    wanted: In(1)
    count: In(1)
    values: Out(11)

    def elaborate(self, platform):
        m = Module()
        m.submodules.counter = counter = clock_gate(m, platform, "block", self.wanted, 1)(Counter())
        few = Signal(3)
        with m.If(self.count):
            m.d.sync += few.eq(counter.value)
        m.d.comb += [counter.count.eq(self.count), self.values.eq(Cat(few, counter.value))]
        return m


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    """The counters in place of a PE, mapped to a library whose gate has a pin for tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADAGP_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(asic, "_PASSES", asic._PASSES.replace(" -constr cells.constr -D {period_ps:.0f}", ""))
        patch.setitem(BLOCKS, "pe", lambda _: Counters())
        path = with_gates(cells(tmp_path_factory.mktemp("library") / "small.lib"), icg(more=TEST))
        yield map_to_cells(DESIGN, Library(path))


def test_gates_are_mapped_and_added(mapped):
    """One of the RTL and one after it for the counter's enable; a reset opens both."""
    module = json.loads((mapped.folder / "netlist.json").read_text())["modules"]["adagp"]
    found = {name: each for name, each in module["cells"].items() if each["type"] == "ICG"}
    assert len(found) == 2 and all(each["connections"]["SE"] == ["0"] for each in found.values())
    assert all(isinstance(each["connections"]["EN"][0], int) for each in found.values())  # a net, no constant
    assert not [each for each in module["cells"].values() if "adagp_clock_gate" in each["type"]]
    clocks = [each["connections"]["C"][0] for each in module["cells"].values() if each["type"] == "FF"]
    behind = {name: clocks.count(each["connections"]["GCK"][0]) for name, each in found.items()}
    assert sorted(behind.values()) == [0, 8] and len(clocks) == 8 + 3 + 1 + 1  # and the gate's hold, and a reset
    resources = mapped.target.resources(mapped.cells.total())
    assert resources["clock_gates"] == 2 and not mapped.target.uncounted(mapped.cells.total())
    gates = Gates(mapped.folder, mapped.library)
    (first, source), (second, between) = gates.clocks.items()
    assert source == gates.clock and between == first and behind[max(behind, key=behind.get)] == clocks.count(second)
    assert not gates.stored & gates.clocks.keys() and not gates.inputs & gates.clocks.keys()
    shares = open_shares(gates, Activity({"block_gated_clk": [1.0]}, {}, 0.0), gates.aliases("accelerator"))
    assert shares == {first: 0.5, second: 0.5}


@pytest.fixture
def library(tmp_path):
    path = tmp_path / "round.lib"
    path.write_text(HEAD + gate("BUF", "A", "A", 10) + FLIP_FLOP + icg() + "}\n")
    return Library(path)


def gated(folder, library):
    """Two gates in a row, with a flip-flop after each and one before them."""
    parts = (
        cell("ICG", CK=10, EN=3, GCK=11), cell("ICG", CK=2, EN=3, GCK=10), cell("FF", C=2, D=3, Q=4),
        cell("FF", C=10, D=3, Q=5), cell("FF", C=11, D=3, Q=6),
    )  # fmt: skip
    return Gates(netlist(folder, {"q": [4], "r": [5], "s": [6], "block_clk": [10]}, *parts), library)


def test_a_clock_ticks_while_its_gate_is_open(library, tmp_path):
    gates = gated(tmp_path, library)
    assert list(gates.clocks.items()) == [(10, 2), (11, 10)]
    quiet = {"q": [0.0], "r": [0.0], "s": [0.0]}

    def shares(toggles, **writes):
        return open_shares(gates, Activity(toggles, {}, 0.0, {}, writes), gates.aliases("accelerator"))

    assert shares(quiet) == {10: 1.0, 11: 1.0}  # nothing is known
    assert shares(quiet | {"block_clk": [0.5]}) == {10: 0.25, 11: 0.25}  # a rise and a fall a tick
    assert shares(quiet | {"block_clk": [0.5]}, s=[0.125]) == {10: 0.25, 11: 0.125}
    assert shares(quiet | {"block_clk": [0.5]}, s=[0.75]) == {10: 0.25, 11: 0.25}  # no oftener than its own clock
    assert shares(quiet | {"block_clk": [0.5], "s": [0.2]}, s=[0.125]) == {10: 0.25, 11: 0.2}  # it has changed


def test_a_closed_gate_saves_power(library, tmp_path):
    gates = gated(tmp_path, library)
    toggles = {"q": [0.0], "r": [0.0], "s": [0.0]}
    found = [
        watts(gates, DESIGN, Activity(toggles | {"block_clk": [2 * share]}, {}, 0.0, {}, {"s": [share / 2]}))
        for share in (1.0, 0.0)
    ]
    (opened, shares, _), (closed, none, _) = found
    # A clock pin of a flip-flop takes 0.03 pF, 1 pJ and 6 pJ, one of a gate 0.01 pF.
    each, of_gate = 0.03 + 7, 0.01
    assert opened["clock"] == pytest.approx((each + of_gate + each + of_gate + each / 2) * 1e-12 * HERTZ)
    assert closed["clock"] == pytest.approx((each + of_gate) * 1e-12 * HERTZ)
    assert shares["clock_open"] == pytest.approx((1 + 1 + 0.5) / 3) and none["clock_open"] == pytest.approx(1 / 3)
    always = (3 * each + 2 * of_gate) * 1e-12 * HERTZ
    assert shares["clock_if_open"] == none["clock_if_open"] == pytest.approx(always)
    assert shares["activity_known"] == 1 and closed["data"] == opened["data"] == 0


VERILOG = """module \\adagp.accelerator (clk, q);
  reg [1:0] q = 2'h0;
  reg [3:0] piece_1  = 4'h0;
  reg free = 1'h0;
  always @(posedge clk)
    if (reset) q <= 2'h0;
    else if (\\$enable ) q <= d[1:0];
  always @(posedge clk)
    if (go) piece_1  <= x;
  always @(posedge clk)
    if (reset) free <= 1'h0;
    else free <= y;
  assign whole[6:3] = piece_1 ;
endmodule
"""


def test_how_often_registers_are_written():
    lines = VERILOG.splitlines()
    where = {text: 1 + next(n for n, line in enumerate(lines) if text in line) for text in ("$enable", "if (go)")}
    resets = [n for n, line in enumerate(lines, 1) if "if (reset)" in line]
    points = [
        Point(LINE, instrument.ROOT, resets[0], 5, "if", 0),
        Point(LINE, instrument.ROOT, where["$enable"], 10, "elsif", 1),
        Point(LINE, instrument.ROOT, where["if (go)"], 5, "if", 2), Point(LINE, instrument.ROOT, resets[1], 5, "if", 3),
        Point(TOGGLE, instrument.ROOT, 1, 1, "whole", 4, 8),
    ]  # fmt: skip
    found = instrument.of_counts(points, np.array([1, 24, 10, 1] + [0] * 16), 100, text=VERILOG)
    assert found.writes == {
        "q": [0.25, 0.25], "piece_1": [0.1] * 4, "whole": [1.0] * 3 + [0.1] * 4 + [1.0], "free": [1.0],
    }  # fmt: skip
    assert found.write_rate("whole", 3, 8) == 0.1 and found.write_rate("whole", 3, 7) is None
    memory = Activity({}, {}, 0.0, {}, {"m$1": [0.5, 0.25]})
    assert memory.write_rate("m$2[7]", 1, 2) == 0.25


def test_passes_name_the_pins():
    text = asic.gating.adding(liberty.Gate("X", "C", "E", "G", ("T",)))
    assert re.search(r"^clockgate -pos X E:C:G -tie_lo T -min_net_size 4$", text, re.MULTILINE)


def test_a_flip_flop_whose_reset_joins_its_enable_does_the_same():
    """The next state by Yosys' own definition of each kind of flip-flop: in SDFFE the reset overrides the enable."""
    read = re.findall(r"module \\\$_(\w+)_P(.)(.)(.)_ .*\n.*\.E\((.*?)\), \.D\((.*?)\), \.Q", gating.enables())
    assert len({(kind, *signs) for kind, *signs, _, _ in read}) == len(read) == 16
    for kind, reset, value, enable, wanted, data in read:
        for r, e, d, q in product((0, 1), repeat=4):
            pins = {"R": r, "E": e, "D": d}
            resets, enabled = r == (reset == "P"), e == (enable == "P")
            taken = int(value) if resets else d
            expected = taken if enabled or (resets and kind == "SDFFE") else q
            now, _, otherwise = data.partition(" ? ")
            then = _value(otherwise.partition(" : ")[0 if _value(now, pins) else 2], pins)
            assert (then if _value(wanted, pins) else q) == expected, (kind, reset, value, enable, pins, q)


def _value(text, pins):
    """A term of the map: pins with ``!`` before them, or two of them with ``|`` between, or a constant."""
    if text.startswith("1'b"):
        return int(text[-1])
    return int(any(pins[term.lstrip("!")] ^ term.startswith("!") for term in text.split(" | ")))
