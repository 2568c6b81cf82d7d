"""Proofs that a mutant can't matter, on small netlists."""

from pathlib import Path

import pytest
from small_netlists import INSIDE, MEMORY, RTLIL

ROOT = Path(__file__).parents[2]


@pytest.fixture
def prove(tools, tmp_path):
    """Tries to prove that a mutant of a netlist is equivalent to it."""

    def attempt(netlist, broken, *how):
        (tmp_path / "netlist.il").write_text(netlist)
        return tools("tb.mutation.sequential").prove(str(tmp_path / "netlist.il"), "adagp", broken.command, *how)

    return attempt


@pytest.mark.parametrize(("place", "proved"), [
    (("idle", "D", 0, "inv"), True), (("nothing", "A", 0, "const1"), True), (("hold", "B", 0, "inv"), True),
    (("more", "Y", 1, "inv"), False), (("out", "B", 0, "const1"), False), (("register", "Q", 0, "const0"), False),
    (("hold", "Y", 0, "inv"), False),
])  # fmt: skip
def test_proofs(mutant, prove, place, proved):
    """Logic that meets a register that stays 0 may be anything, which only its states show. All else matters."""
    found = prove(RTLIL, mutant(*place))
    assert found["latches"] > 0 and found["proved"] == proved


@pytest.mark.parametrize(("undefined", "proved"), [("1'0", True), ("1'x", False)])
def test_what_is_undefined_may_be_anything(mutant, prove, undefined, proved):
    """The other input of ``hold`` doesn't matter while one is 0; while one is undefined, it does."""
    netlist = RTLIL.replace("connect \\A \\stuck\n", f"connect \\A {undefined}\n")
    assert netlist != RTLIL
    assert prove(netlist, mutant("hold", "B", 0, "inv"))["proved"] == proved


@pytest.mark.parametrize(("conditions", "proved"), [
    (("{up} == 0",), True), (("{count} == 0 || {up} == {up}",), False), (("{count} < 2",), False),
])  # fmt: skip
def test_proofs_under_invariants(mutant, prove, conditions, proved):
    """An adder's input matters only while it is 1."""
    place = mutant("more", "B", 0, "const0")
    found = prove(RTLIL, place, "given", *(f"adagp: {condition}" for condition in conditions))
    assert found["proved"] == proved


@pytest.mark.parametrize(("condition", "proved"), [
    ("{block.up} == 0", True), ("{block.count} == 0", True), ("{block.stuck} == 0", False),
])  # fmt: skip
def test_invariants_of_what_a_submodule_holds(mutant, prove, condition, proved):
    """Its ports and its own wires: a counter that stays 0 was never told to count."""
    found = prove(INSIDE, mutant("block", "up", 0, "const0"), "given", f"adagp: {condition}")
    assert found["proved"] == proved


@pytest.mark.parametrize(("how", "proved"), [(("alone",), False), (("alone", "inner"), True), ((), True)])
def test_a_submodule_is_looked_into_or_cut_out(mutant, prove, how, proved):
    """The input of a submodule that is cut out matters; inside, it meets a register that stays 0."""
    netlist = INSIDE.replace("connect \\B \\up\n    connect \\Y \\next", "connect \\B 1'1\n    connect \\Y \\next")
    assert prove(netlist, mutant("block", "up", 0, "inv"), *how)["proved"] == proved


@pytest.mark.parametrize(("cell", "reader", "nobody"), [
    ("nothing", "\\spare", False), ("nothing", "1'0", True), ("hold", "1'0", True), ("more", "1'0", False),
])  # fmt: skip
def test_what_nobody_reads(mutant, prove, cell, reader, nobody):
    """Nobody reads the logic of ``spare`` if ``out`` doesn't, nor a register that only itself reads."""
    netlist = RTLIL.replace("connect \\B \\spare", f"connect \\B {reader}")
    assert prove(netlist, mutant(cell, "A", 0, "inv"), "unread") == {"proved": nobody}


@pytest.mark.parametrize(("last", "proved"), [(7, True), (8, False)])
def test_what_a_memory_never_holds(tools, mutant, prove, tmp_path, last, proved):
    """Words behind the last that is written stay 0, which only a memory made of registers shows."""
    (tmp_path / "memory.v").write_text(MEMORY.replace("LAST", str(last)))
    ys = tools("pyosys.libyosys")
    design = ys.Design()
    for command in (f"read_verilog {tmp_path}/memory.v", "proc", "memory -nomap", f"write_rtlil {tmp_path}/memory.il"):
        ys.run_pass(f"tee -q {command}", design)
    netlist = (tmp_path / "memory.il").read_text().replace("cell \\$and", "cell $and")  # no module of that name
    place = mutant("upper", "B", 0, "inv")
    assert not prove(netlist, place)["proved"]
    assert prove(netlist, place, "memories")["proved"] == proved


def test_scopes_end_at_the_block(tools):
    scopes = tools("tb.mutation.equivalence").scopes
    assert list(scopes("Array.pe")) == ["Array.pe", "Array", "Compute"]
    assert list(scopes("adagp.accelerator.control.fetch")) == [
        "adagp.accelerator.control.fetch", "adagp.accelerator.control",
    ]  # fmt: skip
    assert list(scopes("adagp")) == ["adagp"]


def test_attempts_at_proofs_are_processes_that_may_fail_or_take_too_long(tools, mutant, monkeypatch):
    monkeypatch.chdir(ROOT)
    one, none = mutant("idle", "D", 0, "inv"), mutant("missing", "D", 0, "inv")
    attempt = tools("tb.mutation.equivalence").prove
    found = attempt(RTLIL, one.command, "adagp")
    assert found["proved"] and found["module"] == "adagp"
    assert not attempt(RTLIL, one.command, "adagp", seconds=0.01)["proved"]
    assert "missing" in str(attempt(RTLIL, none.command, "adagp"))
