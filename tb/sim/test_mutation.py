"""The tools of mutation testing on small netlists: choice, selection at run time, proofs, figures."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RTLIL = r"""
attribute \src "/rtl/counter.py:1"
module \adagp
  wire input 1 \clk
  wire input 2 \up
  wire width 2 output 3 \o
  attribute \init 2'00
  wire width 2 \count
  wire width 2 \next
  wire \spare
  attribute \init 1'0
  wire \lost
  attribute \src "/rtl/counter.py:7"
  cell $add \more
    parameter \A_SIGNED 0
    parameter \A_WIDTH 2
    parameter \B_SIGNED 0
    parameter \B_WIDTH 1
    parameter \Y_WIDTH 2
    connect \A \count
    connect \B \up
    connect \Y \next
  end
  attribute \src "/rtl/counter.py:8"
  cell $dff \register
    parameter \CLK_POLARITY 1
    parameter \WIDTH 2
    connect \CLK \clk
    connect \D \next
    connect \Q \count
  end
  attribute \src "/rtl/other.py:3"
  cell $dff \idle
    parameter \CLK_POLARITY 1
    parameter \WIDTH 1
    connect \CLK \clk
    connect \D \up
    connect \Q \lost
  end
  attribute \src "/rtl/other.py:4"
  cell $and \nothing
    parameter \A_SIGNED 0
    parameter \A_WIDTH 1
    parameter \B_SIGNED 0
    parameter \B_WIDTH 1
    parameter \Y_WIDTH 1
    connect \A \lost
    connect \B 1'0
    connect \Y \spare
  end
  attribute \src "/rtl/other.py:5"
  cell $or \out
    parameter \A_SIGNED 0
    parameter \A_WIDTH 2
    parameter \B_SIGNED 0
    parameter \B_WIDTH 1
    parameter \Y_WIDTH 2
    connect \A \count
    connect \B \spare
    connect \Y \o
  end
end
"""


@pytest.fixture
def tools(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from tb.mutation import choice, equivalence, netlist, table

    return choice, equivalence, netlist, table


def mutant(choice, cell, port, bit, mode):
    return choice.Mutant(1, "other", 3, "adagp", cell, "$and", port, bit, mode)


def test_choice_is_spread_seeded_and_leaves_clocks_alone(tools):
    choice, *_ = tools
    chosen = [choice.choose(RTLIL, 10, seed) for seed in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert {m.block for m in chosen[0]} == {"counter", "other"} and len(chosen[0]) >= 10
    assert all(m.port != "CLK" for m in chosen[0])
    assert {m.line for m in chosen[0] if m.block == "counter"} <= {7, 8}
    assert choice.shares({"large": 400, "small": 1}, 20) == {"large": 17, "small": 3}


def test_one_netlist_holds_all_mutants(tools):
    choice, _, netlist, _ = tools
    chosen = choice.choose(RTLIL, 10, 1)
    text = netlist.verilog(RTLIL, chosen)
    assert text.count("selector selector (.value(mutant))") == 1
    assert all(f"mutant == 16'h{m.number:04x}" in text or f"16'd{m.number}" in text for m in chosen)


@pytest.mark.parametrize(("place", "proof"), [
    (("idle", "D", 0, "inv"), {"differing_bits": 0}), (("nothing", "A", 0, "const1"), {"differing_bits": 0}),
    (("more", "Y", 1, "inv"), None), (("out", "B", 0, "const1"), None), (("register", "Q", 0, "const0"), None),
])  # fmt: skip
def test_proofs(tools, monkeypatch, place, proof):
    """A register that nothing depends on may hold anything; all else matters."""
    choice, equivalence, *_ = tools
    monkeypatch.chdir(ROOT)
    found = equivalence.prove(RTLIL, mutant(choice, *place))
    assert (found is None) == (proof is None)
    assert found is None or found["module"] == "adagp"


def test_figures(tools):
    choice, *_, table = tools
    mutants = [choice.Mutant(n, block, 0, "Csr", "c", "$or", "A", 0, "inv") for n, block in enumerate("aabb", 1)]
    findings = {
        1: {"top": "registers: z", "Csr": "x"}, 2: {"Csr": None, "top": "registers: y"},
        3: {"Csr": None, "top": None}, 4: {},
    }  # fmt: skip
    found, details = table.figures(mutants, findings, {3: None, 4: {"module": "m"}})
    counts = {"mutants": 4, "mutants_survived": 1, "mutants_equivalent": 1, "mutants_argued": 0}
    assert found == counts | {"mutants_blocks": 2}
    assert details["caught_by"] == {"Csr": 1, "top: registers": 1}
    assert "| b | 2 | 0 | 0 | 1 | 0 | 1 |" in table.table(details["blocks"])
