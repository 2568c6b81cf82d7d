"""The tools of mutation testing on small netlists: choice, selection at run time, proofs, figures."""

import importlib
import os
import signal
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
  wire \kept
  attribute \init 1'0
  wire \lost
  attribute \init 1'0
  wire \stuck
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
    connect \B \stuck
    connect \Y \spare
  end
  attribute \src "/rtl/other.py:5"
  cell $and \hold
    parameter \A_SIGNED 0
    parameter \A_WIDTH 1
    parameter \B_SIGNED 0
    parameter \B_WIDTH 1
    parameter \Y_WIDTH 1
    connect \A \stuck
    connect \B \up
    connect \Y \kept
  end
  attribute \src "/rtl/other.py:5"
  cell $dff \zero
    parameter \CLK_POLARITY 1
    parameter \WIDTH 1
    connect \CLK \clk
    connect \D \kept
    connect \Q \stuck
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


INSIDE = r"""
module \adagp
  wire input 1 \clk
  wire input 2 \up
  wire width 2 output 3 \o
  cell \inner \block
    connect \clk \clk
    connect \up \up
    connect \o \o
  end
end
""" + RTLIL.replace("module \\adagp\n", "module \\inner\n")


MEMORY = """
module adagp (input clk, input en, input [3:0] wa, input [3:0] ra, input x, input d, output reg o = 0);
  reg words [0:15];
  integer i;
  initial for (i = 0; i < 16; i = i + 1) words[i] = 0;
  wire word = words[ra], masked;
  \\$and #(.A_SIGNED(0), .B_SIGNED(0), .A_WIDTH(1), .B_WIDTH(1), .Y_WIDTH(1)) upper (.A(word), .B(x), .Y(masked));
  always @(posedge clk) begin
    if (en && wa <= LAST) words[wa] <= d;
    o <= ra > 7 ? masked : word;
  end
endmodule
"""


@pytest.fixture
def tools(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module


def mutant(tools, cell, port, bit, mode, number=1):
    return tools("tb.mutation.choice").Mutant(number, "other", 3, "adagp", cell, "$and", port, bit, mode)


def prove(tools, folder, netlist, broken, *how):
    (folder / "netlist.il").write_text(netlist)
    return tools("tb.mutation.sequential").prove(str(folder / "netlist.il"), "adagp", broken.command, *how)


def test_choice_is_spread_seeded_and_leaves_clocks_alone(tools):
    choice = tools("tb.mutation.choice")
    chosen = [choice.choose(RTLIL, 10, seed) for seed in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert {m.block for m in chosen[0]} == {"counter", "other"} and len(chosen[0]) >= 10
    assert all(m.port != "CLK" for m in chosen[0])
    assert {m.line for m in chosen[0] if m.block == "counter"} <= {7, 8}
    assert choice.shares({"large": 400, "small": 1}, 20) == {"large": 17, "small": 3}


def test_one_netlist_holds_all_mutants(tools):
    chosen = tools("tb.mutation.choice").choose(RTLIL, 10, 1)
    text = tools("tb.mutation.netlist").verilog(RTLIL, chosen)
    assert text.count("selector selector (.value(mutant))") == 1
    assert all(f"mutant == 16'h{m.number:04x}" in text or f"16'd{m.number}" in text for m in chosen)


@pytest.mark.parametrize(("place", "proved"), [
    (("idle", "D", 0, "inv"), True), (("nothing", "A", 0, "const1"), True), (("hold", "B", 0, "inv"), True),
    (("more", "Y", 1, "inv"), False), (("out", "B", 0, "const1"), False), (("register", "Q", 0, "const0"), False),
    (("hold", "Y", 0, "inv"), False),
])  # fmt: skip
def test_proofs(tools, tmp_path, place, proved):
    """What meets a register that stays 0 may be anything: it takes its states to see that. All else matters."""
    found = prove(tools, tmp_path, RTLIL, mutant(tools, *place))
    assert found["latches"] > 0 and found["proved"] == proved


@pytest.mark.parametrize(("undefined", "proved"), [("1'0", True), ("1'x", False)])
def test_what_is_undefined_may_be_anything(tools, tmp_path, undefined, proved):
    """Where an input of ``hold`` is 0, the other one doesn't matter; where it is undefined, it does."""
    netlist = RTLIL.replace("connect \\A \\stuck\n", f"connect \\A {undefined}\n")
    assert netlist != RTLIL
    assert prove(tools, tmp_path, netlist, mutant(tools, "hold", "B", 0, "inv"))["proved"] == proved


@pytest.mark.parametrize(("conditions", "proved"), [
    (("{up} == 0",), True), (("{count} == 0 || {up} == {up}",), False), (("{count} < 2",), False),
])  # fmt: skip
def test_proofs_under_invariants(tools, tmp_path, conditions, proved):
    """What an adder's input does matters only while it is 1."""
    place = mutant(tools, "more", "B", 0, "const0")
    found = prove(tools, tmp_path, RTLIL, place, "given", *(f"adagp: {condition}" for condition in conditions))
    assert found["proved"] == proved


@pytest.mark.parametrize(("condition", "proved"), [
    ("{block.up} == 0", True), ("{block.count} == 0", True), ("{block.stuck} == 0", False),
])  # fmt: skip
def test_invariants_of_what_a_submodule_holds(tools, tmp_path, condition, proved):
    """Its ports and its own wires: a counter that stays 0 was never told to count."""
    found = prove(tools, tmp_path, INSIDE, mutant(tools, "block", "up", 0, "const0"), "given", f"adagp: {condition}")
    assert found["proved"] == proved


@pytest.mark.parametrize(("how", "proved"), [(("alone",), False), (("alone", "inner"), True), ((), True)])
def test_a_submodule_is_looked_into_or_cut_out(tools, tmp_path, how, proved):
    """What a submodule that is cut out is given matters; inside, this input meets a register that stays 0."""
    netlist = INSIDE.replace("connect \\B \\up\n    connect \\Y \\next", "connect \\B 1'1\n    connect \\Y \\next")
    assert prove(tools, tmp_path, netlist, mutant(tools, "block", "up", 0, "inv"), *how)["proved"] == proved


@pytest.mark.parametrize(("cell", "reader", "nobody"), [
    ("nothing", "\\spare", False), ("nothing", "1'0", True), ("hold", "1'0", True), ("more", "1'0", False),
])  # fmt: skip
def test_what_nobody_reads(tools, tmp_path, cell, reader, nobody):
    """Where ``out`` doesn't read ``spare``, nobody reads what leads there, nor a register that only itself reads."""
    netlist = RTLIL.replace("connect \\B \\spare", f"connect \\B {reader}")
    assert prove(tools, tmp_path, netlist, mutant(tools, cell, "A", 0, "inv"), "unread") == {"proved": nobody}


@pytest.mark.parametrize(("last", "proved"), [(7, True), (8, False)])
def test_what_a_memory_never_holds(tools, tmp_path, last, proved):
    """Words behind the last that is written stay 0, which only a memory made of registers shows."""
    (tmp_path / "memory.v").write_text(MEMORY.replace("LAST", str(last)))
    ys = tools("pyosys.libyosys")
    design = ys.Design()
    for command in (f"read_verilog {tmp_path}/memory.v", "proc", "memory -nomap", f"write_rtlil {tmp_path}/memory.il"):
        ys.run_pass(f"tee -q {command}", design)
    netlist = (tmp_path / "memory.il").read_text().replace("cell \\$and", "cell $and")  # no module of that name
    place = mutant(tools, "upper", "B", 0, "inv")
    assert not prove(tools, tmp_path, netlist, place)["proved"]
    assert prove(tools, tmp_path, netlist, place, "memories")["proved"] == proved


def test_scopes_end_at_the_block(tools):
    scopes = tools("tb.mutation.equivalence").scopes
    assert list(scopes("Array.pe")) == ["Array.pe", "Array", "Compute"]
    assert list(scopes("adagp.accelerator.control.fetch")) == [
        "adagp.accelerator.control.fetch", "adagp.accelerator.control",
    ]  # fmt: skip
    assert list(scopes("adagp")) == ["adagp"]


def test_attempts_at_proofs_are_processes_that_may_fail_or_take_too_long(tools, monkeypatch):
    monkeypatch.chdir(ROOT)
    one, none = mutant(tools, "idle", "D", 0, "inv"), mutant(tools, "missing", "D", 0, "inv")
    attempt = tools("tb.mutation.equivalence").prove
    found = attempt(RTLIL, one.command, "adagp")
    assert found["proved"] and found["module"] == "adagp"
    assert not attempt(RTLIL, one.command, "adagp", seconds=0.01)["proved"]
    assert "missing" in str(attempt(RTLIL, none.command, "adagp"))


def test_what_happens_to_a_bench_is_told_from_what_it_finds(tools):
    apart_ = tools("tb.mutation.apart")
    found = apart_.verdict("values", apart_.Kind.GOLDEN)

    def spin():
        while True:
            pass

    def full():
        raise OSError("the disk is full")

    assert apart_.apart(lambda: found) == found
    assert apart_.apart(os.abort)["kind"] == apart_.Kind.EXCEPTION
    assert apart_.apart(spin, 1)["kind"] == apart_.Kind.TIMEOUT
    with pytest.raises(apart_.TroubleError, match="the disk is full"):
        apart_.apart(full)
    with pytest.raises(apart_.TroubleError, match="-9"):
        apart_.apart(lambda: os.kill(os.getpid(), signal.SIGKILL))


def test_a_digest_of_a_module_covers_what_is_inside_it_but_not_its_lines(tools):
    under = tools("tb.mutation.netlist").under
    moved, changed = INSIDE.replace("counter.py:8", "counter.py:9"), INSIDE.replace("$or", "$xor")
    assert under(INSIDE, "adagp") == under(moved, "adagp") != under(changed, "adagp")
    assert "cell $or" in under(INSIDE, "adagp") and "cell \\inner" not in under(INSIDE, "inner")


def test_digest_of_sources_sees_imports_but_not_comments(tools, monkeypatch, tmp_path):
    sources = tools("tb.mutation.sources")
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    monkeypatch.setattr(sources, "BARE", (tmp_path,))
    bench, other, verilog = (tmp_path / name for name in ("bench.py", "other.py", "gen/verilog.py"))
    verilog.parent.mkdir()
    bench.write_text("def run():\n    import other\n    from adagp.gen import verilog\n")
    other.write_text("A = 1\n")
    verilog.write_text("B = 1\n")
    seen = []
    for path, text in (
        (other, "A = 1  # one\n"), (verilog, "B = 2\n"), (other, '"""Numbers."""\nA = 1\n'), (other, "A = 2\n"),
    ):  # fmt: skip
        path.write_text(text)
        seen.append(sources.sources([bench], but=["gen"]))
    assert seen[0] == seen[1] == seen[2] != seen[3]
    assert sources.closure([bench]) == [bench, verilog, other]


def test_records_outlive_a_run_that_was_stopped(tools, tmp_path):
    records = tools("tb.mutation.records").Records
    records(tmp_path / "records.jsonl").add("a", {"found": None})
    with open(tmp_path / "records.jsonl", "a") as file:
        file.write('["b", {"fou')
    assert records(tmp_path / "records.jsonl") == {"a": {"found": None}}


@pytest.mark.parametrize(("netlist", "result"), [("this", "argued"), ("another", "survived")])
def test_an_argument_holds_for_one_netlist(tools, monkeypatch, netlist, result):
    finding = tools("tb.mutation.finding")
    broken = mutant(tools, "idle", "D", 0, "inv")
    monkeypatch.setattr(finding, "ARGUED", {broken.command: ("this", "nobody looks")})
    assert finding.Finding(broken, netlist).result == result


def test_figures(tools):
    apart, choice, table = (tools(f"tb.mutation.{name}") for name in ("apart", "choice", "table"))
    nothing = apart.verdict()
    late, other = apart.verdict("x", apart.Kind.TIMEOUT), apart.verdict("registers: y", apart.Kind.INTACT)
    said = [
        {"Csr": late}, {"Csr": nothing, "top": other}, {"Csr": nothing, "top": nothing}, {"top": nothing},
        {"Csr": nothing, "top": None},
    ]  # fmt: skip
    proofs = [None, None, {"proved": False}, {"proved": True, "module": "m"}, None]
    found = []
    for number, (verdicts, proof) in enumerate(zip(said, proofs, strict=True)):
        mutant = choice.Mutant(number, "aabba"[number], 0, "Csr", "c", "$or", "A", 0, "inv")
        found.append(tools("tb.mutation.finding").Finding(mutant, "netlist"))
        for name, verdict in verdicts.items():
            digest = f"{name}{number}"
            found[-1].asked(name, digest, {} if verdict is None else {digest: verdict})
        if proof is not None:
            found[-1].tried("p", {"p": proof})
    assert [one.complete for one in found] == [True] * 4 + [False]
    assert [one.result for one in found[:4]] == ["block", "top", "survived", "equivalent"]
    assert [one.block_bench for one in found[:4]] == ["caught", "survived", "survived", "none"]
    assert found[1].row()["digests"] == {"Csr": "Csr1", "top": "top1"}
    figures, details = table.figures(found[:4])
    assert figures == {
        "mutants": 4, "mutants_blocks": 2, "mutants_with_block_bench": 3, "mutants_caught_by_block": 1,
        "mutants_caught_by_top": 1,
        "mutants_equivalent": 1, "mutants_equivalent_given": 0, "mutants_argued": 0, "mutants_unproved": 0,
        "mutants_survived": 1,
    }  # fmt: skip
    known = tools("tb.mutation.invariants").INVARIANTS
    for one, unproved in ((next(one for one in known if one.job), 0), (next(one for one in known if not one.job), 1)):
        found[3].proof = {"module": "m", "how": f"given {one}"}
        figures, _ = table.figures(found[:4])
        assert (figures["mutants_equivalent_given"], figures["mutants_unproved"]) == (1, unproved)
    assert details["benches"] == {"Csr": 1, "top: registers": 1}
    assert details["caught_by"] == {"timeout": 1, "intact": 1}
    assert "| b | 2 | 1 | 0 | 0 | 1 | 0 | 1 |" in table.table(details["blocks"])
