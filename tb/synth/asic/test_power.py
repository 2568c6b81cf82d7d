"""Power of cells: tables and functions of Liberty files, netlists worked out by hand, and OpenSTA beside it.

The library has round numbers: with 1 V, a cycle's energy is that of its toggles in pJ.
"""

import re
import shutil
import subprocess

import numpy as np
import pytest
from adagp.spec.presets import preset
from adagp.synth.asic import cells as asic
from adagp.synth.asic import gates as gates_module
from adagp.synth.asic.activity import Activity
from adagp.synth.asic.cells import Library
from adagp.synth.asic.gates import Gates
from adagp.synth.asic.liberty import Pin
from adagp.synth.asic.power import propagate, watts
from adagp.synth.asic.truth_tables import inputs_of, truth
from adagp.synth.design import Design
from adagp.synth.errors import TargetError, ToolError
from made_netlists import FLIP_FLOP, HEAD, cell, gate, netlist

DESIGN = Design(preset("tiny"), "pe")
HERTZ = 50e6


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("library") / "round.lib"
    gates = gate("BUF", "A", "A", 10) + gate("INV", "(!A)", "A", 10) + gate("NAND", "!(A B)", "AB", 20)
    path.write_text(HEAD + gates + gate("XOR", "A^B", "AB", 20) + FLIP_FLOP + "}\n")
    return Library(path)


def test_functions():
    assert inputs_of("(!((S A) + (!S B)))") == ("A", "B", "S")
    a, b, c = (np.indices((2, 2, 2))[n].ravel().astype(bool) for n in range(3))
    for function, value in {
        "A B+C": a & b | c, "!(A&B)": ~(a & b), "A*B ^ C": a & (b ^ c), "A'|B' C": ~a | ~b & c, "(A^B)^C": a ^ b ^ c,
        "!A !B": ~a & ~b, "!(A+B)'": a | b, "1": a | True, "A 0": a & False, "A (B + C)": a & (b | c),
    }.items():  # fmt: skip
        assert truth(function, ("A", "B", "C")) == tuple(value), function
    for wrong in ("A B)", "(A", "A +", "A % B", "D", ""):
        with pytest.raises(TargetError, match=r"^no function of cells: "):
            truth(wrong, ("A", "B", "C"))


def test_tables(library):
    (by, q), = library.pins["FF"]["Q"].energies  # fmt: skip
    assert by == "C" and isinstance(library.pins["FF"]["Q"], Pin) and library.pins["FF"]["Q"].function is None
    # Turned: slew before load; a table for both edges counts in full. Beyond its points it goes on straight.
    loads, slews = np.array([0.5, 1, 3]) * 1e-12, np.array([0, 0.5, 2])
    assert q.at(loads, slews) == pytest.approx(np.array([8.5, 14, 31]) * 1e-12)
    rise, fall = (each.at(np.zeros(1), np.ones(1))[0] * 1e12 for _, each in library.pins["FF"]["C"].energies)
    assert (rise, fall) == (pytest.approx(1.5 / 2), pytest.approx(7.5 / 2))
    assert library.leakage == pytest.approx({"FF": 2.5e-9, **dict.fromkeys(("BUF", "INV", "NAND", "XOR"), 2e-9)})
    assert library.pins["NAND"]["Y"].energies[0][1].at(np.zeros(1), np.zeros(1)) == pytest.approx(20e-12 / 4)


def test_a_netlist_worked_out_by_hand(library, tmp_path):
    """A flip-flop, an inverter, a NAND with its other input high, another flip-flop; memories are no cells."""
    cells = (
        cell("FF", C=2, D=3, Q=4), cell("INV", A=4, Y=5), cell("NAND", A=5, B="1", Y=6), cell("FF", C=2, D=6, Q=7),
        {"type": "adagp_memory", "connections": {"A": [6, 7], "Q": [3]}, "port_directions": {"A": "input"}},
    )  # fmt: skip
    gates = Gates(netlist(tmp_path, {"d": [3], "q": [4, 7]}, *cells), library)
    assert gates.inputs == {3} and gates.stored == {4, 7} and gates.logic == {5, 6}
    found, share, of_cells = watts(gates, DESIGN, Activity({"d": [0.5], "q": [0.25, 0.125]}, {}, 9.0))
    assert DESIGN.config.clock_hz == HERTZ and share == {
        "activity_known": 1, "activity_estimated": 0, "clock_open": 1, "clock_if_open": found["clock"],
    }  # fmt: skip
    # Each clock pin: 0.03 pF up and down, a rise of 1 pJ and a fall of 6 pJ.
    assert found["clock"] == pytest.approx(2 * (0.03 + 1 + 6) * 1e-12 * HERTZ)
    nets = 0.5 * (0.02 * 0.5 + 0.01 * 0.25 + 0.01 * 0.25 + 0.02 * 0.25)
    # Edges of a gate take 0.5 and a tenth of its input's, in the mean; those of Q 0.8, those of constants none.
    slews = (0.8, 0.5 + 0.1 * 0.8, 0.5 + 0.1 * (0.5 + 0.1 * 0.8) / 2)
    assert gates.slews[[2, 3, 4, 5, 6]] == pytest.approx([0, 0, *slews])
    inverter, nand = 0.25 * 20 * (1 + 4 * 0.01) * (1 + slews[0]), 0.25 * 40 * (1 + 4 * 0.02) * (1 + slews[1] / 2)
    flip_flops = 3 * 0.5 + (3 + 1.5 * slews[2]) * 0.25 + (8 + 0.01) * 0.25 + 8 * 0.125
    assert found["data"] == pytest.approx((nets + inverter + nand + flip_flops) * 1e-12 * HERTZ)
    assert found["leakage"] == pytest.approx(2 * 2.5e-9 + 2 * 2e-9)
    # The inverter's own: its energy, and its input's load.
    assert of_cells["INV"] == pytest.approx([(inverter + 0.5 * 0.01 * 0.25) * 1e-12 * HERTZ + 2e-9])
    assert sum(each.sum() for each in of_cells.values()) == pytest.approx(sum(found.values()))
    quiet, _, _ = watts(gates, DESIGN, Activity({"d": [0.0], "q": [0.0, 0.0]}, {}, 9.0))
    assert quiet == {**found, "data": 0}


def test_toggles_of_gates_are_those_of_independent_inputs(library, tmp_path):
    gates = [cell(kind, A=3, B=4, Y=bit) for kind, bit in (("NAND", 5), ("XOR", 6))]
    gates += [cell("NAND", A=5, B=7, Y=8), cell("XOR", A=3, B="1", Y=9), cell("INV", A=8, Y=10)]
    gates += [cell("NAND", A=10, B=11, Y=12), cell("FF", C=2, D=8, Q=7)]
    found = Gates(netlist(tmp_path, {}, *gates), library)
    toggles = propagate(found, {3: 0.4, 4: 0.2, 11: 0.3}, 0.5)
    generator = np.random.default_rng(1)
    before = generator.random((4, 400_000)) < 0.5
    after = before ^ (generator.random((4, 400_000)) < np.array([[0.4], [0.2], [0.5], [0.3]]))
    a, b, c, d = np.stack([before, after], axis=1)
    first = ~(a & b)
    second = ~(first & c)
    for bit, value in ((5, first), (6, a ^ b), (8, second), (9, ~a), (10, ~second), (12, second | ~d)):
        assert toggles[bit] == pytest.approx((value[0] != value[1]).mean(), abs=0.005)
    assert toggles[6] == pytest.approx(0.4 * 0.8 + 0.6 * 0.2) and toggles[2] == 2 and toggles[0] == toggles[1] == 0
    given = propagate(found, {3: 0.4, 4: 0.2, 6: 0.9, 5: 0.0}, 0.5)
    assert given[6] == 0.9 and given[5] == 0 and 0 < given[8] < 0.5


def test_names_that_count(library, tmp_path):
    """A numbered name of a gate's net may be another net's; words are an estimate for flip-flops; no rate exceeds 1."""
    cells = cell("FF", C=2, D=5, Q=3), cell("FF", C=2, D=5, Q=4), cell("INV", A=3, Y=5)
    names = {"a$1": [3, "x"], "w[1]": [4], "b$2": [5], "unused": [99]}
    gates = Gates(netlist(tmp_path, names, *cells), library)
    activity = Activity({"a$7": [1.5, 0], "b$2": [0.3], "unused": [1]}, {}, 0.0, {"w": [0.2]})
    assert gates.rates(activity, "accelerator") == ({3: 1.0, 4: 0.2}, {4})
    _, share, _ = watts(gates, DESIGN, activity)
    assert share["activity_known"] == 1 and share["activity_estimated"] == 0.5
    gates = Gates(netlist(tmp_path, {**names, "b": [5]}, *cells), library)
    assert gates.rates(Activity({"b": [0.3]}, {}, 0.0), "accelerator") == ({5: 0.3}, set())


def test_both_outputs_of_a_flip_flop_toggle_alike(tmp_path):
    """The one without a name as the one with: as known, or as estimated; without either, neither is known."""
    path = tmp_path / "two.lib"
    second = 'pin (QN) { direction : output; function : "IQN"; } } }'
    path.write_text(HEAD + gate("BUF", "A", "A", 10) + FLIP_FLOP.rstrip().removesuffix("}") + second)
    cells = cell("FF", C=2, D=3, Q=4, QN=5), cell("FF", C=2, D=3, Q=6, QN=7), cell("FF", C=2, D=3, Q=8, QN=9)
    gates = Gates(netlist(tmp_path, {"a": [4], "w[1]": [7]}, *cells), Library(path))
    found, estimated = gates.rates(Activity({"a": [0.25]}, {}, 0.0, {"w": [0.5]}), "accelerator")
    assert gates.stored == {4, 5, 6, 7, 8, 9}
    assert found == {4: 0.25, 5: 0.25, 6: 0.5, 7: 0.5} and estimated == {6, 7}
    one = Gates(netlist(tmp_path, {"a": [4]}, cell("FF", C=2, D=3, Q=4), cell("FF", C=2, D=3, Q=6)), Library(path))
    known, _ = one.rates(Activity({"a": [0.25]}, {}, 0.0), "accelerator")
    assert one.stored == {4, 6} and known == {4: 0.25}  # outputs that aren't connected are no net


def test_a_loop_of_gates_is_an_error(library, tmp_path, monkeypatch):
    monkeypatch.setattr(gates_module, "DEEPEST", 3)
    cells = [cell("FF", C=2, D=6, Q=3)] + [cell("INV", A=bit, Y=bit + 1) for bit in (3, 4, 5)]
    assert len(Gates(netlist(tmp_path, {}, *cells), library).waves) == 3
    for more in (cell("INV", A=6, Y=7), cell("NAND", A=8, B=3, Y=8)):
        with pytest.raises(ToolError, match=r"^the netlist has a loop of gates, or more than 3 in a row$"):
            _ = Gates(netlist(tmp_path, {}, *cells, more), library).waves


SCRIPT = """
read_liberty {lib}
read_verilog netlist.v
link_design adagp
create_clock -name clk -period 20 [get_ports clk]
{more}
foreach port {{a b}} {{ set_power_activity -input_ports [get_ports $port] -activity {rate} -duty 0.5 }}
foreach cell [get_cells *] {{ puts "[get_full_name $cell] [::sta::instance_power $cell [::sta::cmd_corner]]" }}
exit
"""
DELAY = "set_input_delay 0 -clock clk [get_ports {a b}]"
OPENSTA = pytest.mark.skipif(
    shutil.which("sta") is None or not asic.LIBERTY.exists(), reason="needs OpenSTA and osu018 (qflow-tech-osu018)"
)


def said(folder, gates, last, more=DELAY, rate=0.4):
    """Watts inside of cells, of nets, and of leakage, by cell, of gates in Verilog behind inputs ``a`` and ``b``."""
    wires = "".join(f"wire n{bit};\n" for bit in range(last + 1))
    (folder / "netlist.v").write_text(
        f"module adagp (clk, a, b, q);\ninput clk, a, b;\noutput q;\n{wires}{gates}\n"
        f"DFFPOSX1 ff (.CLK(clk), .D(n{last}), .Q(q));\nendmodule\n"
    )
    (folder / "run.tcl").write_text(SCRIPT.format(lib=asic.LIBERTY, more=more, rate=rate))
    log = subprocess.run(["sta", "-no_splash", "-exit", "run.tcl"], cwd=folder, capture_output=True, text=True).stdout
    found = re.findall(r"(?m)^(c\d|ff) (.*)$", log)
    return {name: [float(part) for part in parts.split()[:3]] for name, parts in found}


@OPENSTA
def test_opensta_says_the_same_of_a_chain(tmp_path):
    """But for the energy inside of clocks' and outputs' edges, of which 2.0.17 counts both for either."""
    kinds = ("INVX1", "BUFX2", "INVX8", "INVX2", "BUFX4")
    chain = [cell(kind, A=bit, Y=bit + 1) for bit, kind in enumerate(kinds, 3)]
    gates = Gates(netlist(tmp_path, {"a": [3]}, *chain, cell("DFFPOSX1", CLK=2, D=8, Q=9)), Library(asic.LIBERTY))
    lines = "\n".join(f"{kind} c{bit} (.A(n{bit}), .Y(n{bit + 1}));" for bit, kind in enumerate(kinds, 3))
    cells = said(tmp_path, lines.replace("(n3)", "(a)"), 8)
    rates = propagate(gates, {3: 0.4, 9: 0.0}, 0.0)
    assert rates[4:9] == pytest.approx(0.4)
    for bit, kind in enumerate(kinds, 3):
        pin, net = gates.library.pins[kind]["Y"], np.array([bit + 1])
        inside = sum(each.at(gates.farads[net], gates.slews[[bit]])[0] for _, each in pin.energies) * 0.4 * HERTZ
        assert cells[f"c{bit}"][0] / 2 == pytest.approx(inside, rel=0.02)
        assert cells[f"c{bit}"][1] == pytest.approx(0.5 * 1.8**2 * gates.farads[bit + 1] * 0.4 * HERTZ, rel=1e-4)
        assert cells[f"c{bit}"][2] == pytest.approx(gates.library.leakage[kind], rel=1e-4)
    edges = sum(each.at(np.zeros(1), np.zeros(1))[0] for _, each in gates.library.pins["DFFPOSX1"]["CLK"].energies)
    still = said(tmp_path, lines.replace("(n3)", "(a)"), 8, rate=0)
    assert still["ff"][0] / 2 == pytest.approx(2 * edges * HERTZ, rel=0.02)


@OPENSTA
def test_what_opensta_takes_otherwise(tmp_path):
    """OpenSTA takes a quarter of an XOR's inputs' toggles together, and a cycle for a second at undelayed ports."""
    xor = "XOR2X1 c1 (.A(a), .B(b), .Y(n1)); INVX1 c2 (.A(n1), .Y(n2));"
    farads = Library(asic.LIBERTY).pins["INVX1"]["A"].farads
    a_toggle = 0.5 * 1.8**2 * farads
    assert said(tmp_path, xor, 2)["c1"][1] == pytest.approx(a_toggle * HERTZ * (0.4 + 0.4) / 4, rel=1e-4)
    assert said(tmp_path, xor, 2, "")["c1"][1] == pytest.approx(a_toggle * (0.4 + 0.4) / 4, rel=1e-4)
