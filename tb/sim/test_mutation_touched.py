"""A sample of mutants of blocks that a change touches, and the rules that choose it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from adagp.rtl.update.quality import QualitySums
from amaranth import Signal

ROOT = Path(__file__).parents[2]
BENCH, OTHER, PART = "QualitySums", "Gate", "mutation_predicting"


@pytest.fixture
def touched(tools):
    """The module that samples."""
    return tools("tb.mutation.touched")


@pytest.mark.timeout(1800)  # a mutant that its block's bench misses meets the whole accelerator's
def test_touched_mutants(touched, tmp_path, record_property):
    """Some mutants of blocks that differ from the ones of results/robustness.json are noticed or harmless still."""
    details = json.loads((ROOT / "results" / "robustness.json").read_text())["details"]
    found = touched.run(details, tmp_path)
    record_property("sampled", str(found))
    assert len(found.blocks) + len(found.others) == sum(map(len, touched.QUICK.values()))
    assert bool(found.rows) == bool(found.blocks)
    assert found.survivors == []


def row(mutant, name, digest, result="block"):
    """A row of the results."""
    return {**mutant.to_dict(), "result": result, "by": name, "digests": {name: digest}}


def results(part, *rows):
    return {part: {"details": {"mutants": list(rows)}}}


def test_rows_that_a_quick_bench_caught(touched, mutant):
    made = mutant("idle", "D", 0, "inv")
    rows = [row(made, "Gate", "1"), row(made, "Gate", "2", "equivalent"), row(made, "Reorganise", "3")]
    found = touched.rows_by_bench(results(PART, *rows))
    assert {name: rows for name, rows in found.items() if rows} == {"Gate": rows[:1]}


def test_a_sample_is_spread_over_the_blocks(touched):
    candidates = {"a": [("5", "a5"), ("1", "a1")], "b": [("3", "b3")], "c": [("4", "c4"), ("2", "c2")]}
    assert touched.spread(candidates) == [("b", "b3"), ("c", "c2"), ("a", "a1"), ("c", "c4"), ("a", "a5")]


@pytest.fixture
def made(touched, tmp_path, monkeypatch):
    """Two benches that are the quick ones, a mutant and results in which its row is current."""
    monkeypatch.setattr(touched, "QUICK", {PART: (BENCH, OTHER)})
    rows = []
    for name in (BENCH, OTHER):
        campaign = touched.BlockCampaign(name, PART, tmp_path)
        mutant = next(mutant for mutant in campaign.others() if mutant.mode == "inv")
        rows.append(row(mutant, name, campaign.question(name, mutant)))
    return rows


def test_rows_of_other_digests_are_touched(touched, made, tmp_path):
    found = touched.run(results(PART, *made), tmp_path)
    assert (found.blocks, found.others, found.rows) == ([], [BENCH, OTHER], [])
    assert "touched: none" in str(found)
    older = {**made[1], "digests": {OTHER: "another"}}
    found = touched.run(results(PART, made[0], older), tmp_path, most=0)
    assert (found.blocks, found.others) == ([OTHER], [BENCH])


def test_a_changed_block_is_touched_and_no_other(touched, made, tmp_path, monkeypatch):
    original = QualitySums.elaborate

    def elaborate(self, platform):
        m = original(self, platform)
        more = Signal(name="more")
        m.d.sync += more.eq(~more)
        return m

    monkeypatch.setattr(QualitySums, "elaborate", elaborate)
    found = touched.run(results(PART, *made), tmp_path, most=0)
    assert (found.blocks, found.others) == ([BENCH], [OTHER])


def test_a_mutant_has_its_present_place_or_none(touched, made, tmp_path):
    campaign = touched.BlockCampaign(BENCH, PART, tmp_path)
    mutant = touched.mutant_of(made[0])
    assert campaign.here(replace(mutant, block=mutant.block.rpartition(".")[2], line=1)) == mutant
    for change in ({"cell": "nowhere"}, {"kind": "$other"}, {"block": "other"}, {"portbit": 10**6}):
        assert campaign.here(replace(mutant, **change)) is None


@pytest.mark.parametrize("cell", [None, "nowhere"])
def test_a_mutant_that_nothing_notices_survives(touched, tools, made, tmp_path, monkeypatch, cell):
    """Benches and proofs that notice nothing let a mutant survive, be it a recorded one or one that is chosen anew."""
    verdict = tools("tb.mutation.isolated_process").verdict
    bench = type(touched.BENCHES[BENCH])
    monkeypatch.setattr(bench, "seconds", lambda self, top: 1)
    monkeypatch.setattr(bench, "difference", lambda *arguments: verdict())
    monkeypatch.setattr(touched.equivalence, "attempts", lambda mutant: [])
    monkeypatch.setattr(touched, "Campaign", lambda *arguments: touched.BlockCampaign(BENCH, PART, tmp_path / "whole"))
    changed = {**made[0], "digests": {BENCH: "another"}} | ({"cell": cell} if cell else {})
    found = touched.run(results(PART, changed, made[1]), tmp_path, most=1)
    assert len(found.survivors) == 1 and found.survivors[0] in str(found)
    anew = touched.BlockCampaign(BENCH, PART, tmp_path / "anew").others()
    expected = anew if cell else [touched.mutant_of(made[0])]
    assert touched.mutant_of(found.rows[0]).command in {mutant.command for mutant in expected}
