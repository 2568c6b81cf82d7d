"""The tools of mutation testing on small netlists: choice, selection at run time, digests, figures."""

import faulthandler
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from small_netlists import INSIDE, RTLIL


def test_choice_is_spread_seeded_and_leaves_clocks_alone(tools):
    choice = tools("tb.mutation.choice")
    chosen = [choice.choose(RTLIL, 10, seed) for seed in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert {m.block for m in chosen[0]} == {"compute.counter", "other"} and len(chosen[0]) >= 10
    assert all(m.port != "CLK" for m in chosen[0])
    assert {m.line for m in chosen[0] if m.block == "compute.counter"} <= {7, 8}
    assert choice.files(RTLIL) == {"compute.counter", "other"}
    assert {m.block for m in choice.choose(RTLIL, 10, 1, {"compute.counter"})} == {"compute.counter"}
    assert choice.shares({"large": 400, "small": 1}, 20) == {"large": 17, "small": 3}


def test_one_netlist_holds_all_mutants(tools):
    chosen = tools("tb.mutation.choice").choose(RTLIL, 10, 1)
    text = tools("tb.mutation.netlist").verilog(RTLIL, chosen)
    assert text.count("selector selector (.value(mutant))") == 1
    assert all(f"mutant == 16'h{m.number:04x}" in text or f"16'd{m.number}" in text for m in chosen)


def test_what_happens_to_a_bench_is_told_from_what_it_finds(tools):
    apart_ = tools("tb.mutation.isolated_process")
    found = apart_.verdict("values", apart_.Kind.GOLDEN)

    def spin():
        while True:
            pass

    def full():
        raise OSError("the disk is full")

    assert apart_.apart(lambda: found) == found

    def stop():
        faulthandler.disable()  # which would print where, amid the tests' dots
        os.abort()

    assert apart_.apart(stop)["kind"] == apart_.Kind.EXCEPTION
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
def test_an_argument_holds_for_one_netlist(tools, mutant, monkeypatch, netlist, result):
    finding = tools("tb.mutation.finding")
    broken = mutant("idle", "D", 0, "inv")
    monkeypatch.setattr(finding, "ARGUED", {broken.command: ("this", "nobody looks")})
    assert finding.Finding(broken, netlist).result == result


def test_figures(tools):
    apart, choice, table = (tools(f"tb.mutation.{name}") for name in ("isolated_process", "choice", "table"))
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


@pytest.mark.parametrize("name", ["coverage", "formal", "mutation", "robustness"])
def test_campaigns_find_their_modules_outside_of_pytest(name):
    command = [sys.executable, "-m", f"tb.{name}", "--help"]
    assert (
        "usage"
        in subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True).stdout
    )
