"""A sample of the proofs that a change touches, and the rules that choose it."""

import json
import shutil
from dataclasses import replace

import pytest
from adagp.rtl.lib.register_slice import RegisterSlice
from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from formal.in_time import prove
from formal.properties import JOBS
from formal.run import details
from formal.touched import ROOT, digests, sample, summary, touched


def test_touched_jobs(tmp_path, record_property):
    """The quickest jobs that differ from the ones of results/robustness.json are proved anew."""
    records = json.loads((ROOT / "results" / "robustness.json").read_text())["details"]["formal"]["details"]
    names = touched(records, digests())
    chosen = sample(names, records)
    found = prove(chosen, {name: record["seconds"] for name, record in records.items()}, tmp_path)
    record_property("sampled", summary(names, found, len(JOBS)))
    assert bool(found) == bool(names)
    assert {name: failed for name, failed in found.items() if failed} == {}


PRESENT = {"slow": "1", "quick": "2", "new": "3", "same": "4", "older": "5"}
RECORDS = {
    "slow": {"sources": "0", "seconds": 20}, "quick": {"sources": "0", "seconds": 1},
    "same": {"sources": "4", "seconds": 2}, "older": {"seconds": 3},
}  # fmt: skip


def test_records_of_other_sources_are_touched():
    assert touched(RECORDS, PRESENT) == ["quick", "older", "slow", "new"]
    assert touched({name: {"sources": digest, "seconds": 1} for name, digest in PRESENT.items()}, PRESENT) == []


def test_records_carry_the_digests_of_their_jobs():
    present = digests([JOBS["pack"], JOBS["skid"]])
    written = details({"skid": {"digest": "x", "seconds": 1}, "pack": {"digest": "y", "seconds": 2}}, present)
    assert written["pack"] == {"seconds": 2, "sources": present["pack"]} and touched(written, present) == []
    assert touched(written, {**present, "skid": "other"}) == ["skid"]


@pytest.mark.parametrize(("budget", "chosen"), [
    (0, ["quick"]), (4, ["quick", "older"]), (23, ["quick", "older"]), (24, ["quick", "older", "slow"]),
    (10**9, ["quick", "older", "slow"]),
])  # fmt: skip
def test_the_quickest_are_sampled(budget, chosen):
    names = touched(RECORDS, PRESENT)
    assert sample(names, RECORDS, budget) == chosen


def test_a_job_without_a_time_is_sampled_alone():
    assert sample(["a", "b"], {}) == ["a"] and sample([], {}) == []


def test_all_that_is_touched_is_named():
    assert summary([], {}, 5) == "formal: none of 5 jobs is touched"
    assert summary(["a", "b", "c", "d"], {"a": [], "b": ["o: failed"], "c": None}, 5) == (
        "formal: 4 of 5 jobs are touched; proved: a; failed: b; stopped after their time: c; left for nox -s formal: d"
    )


SOME = [JOBS[name] for name in ("odometer", "lane_offsets", "pack", "skid", "register_slice", "tokens_c", "csr")]


def test_a_change_touches_the_jobs_of_its_block_and_of_those_around_it(tmp_path):
    for name in ("rtl", "spec", "tb/formal"):
        shutil.copytree(ROOT / name, tmp_path / name)
    before = digests(SOME, tmp_path)
    assert before == digests(SOME)

    def touches(file, head, body):
        """The jobs that a line after another one touches."""
        path = tmp_path / file
        text = path.read_text()
        assert text.count(head) == 1
        path.write_text(text.replace(head, head + body))
        after = digests(SOME, tmp_path)
        path.write_text(text)
        return {name for name in before if before[name] != after[name]}

    extra = "    EXTRA = 1\n"
    head = "class Odometer(wiring.Component):\n"
    assert touches("rtl/lib/odometer.py", head, extra) == {"odometer", "lane_offsets"}
    assert touches("rtl/lib/odometer.py", head, "    # nothing\n") == set()
    assert touches("rtl/core.py", "class Core(wiring.Component):\n", extra) == set()  # rules have its numbers only
    assert touches("tb/formal/properties_streams.py", "def _skid(h):\n", "    h.cover('more', 1)\n") == {"skid"}
    assert touches("tb/formal/harness.py", "class Harness:\n", extra) == set(before)


class Leaky(RegisterSlice):
    """A register slice that forgets its item after a cycle."""

    def __init__(self):
        wiring.Component.__init__(self, {"i": In(stream.Signature(8)), "o": Out(stream.Signature(8))})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.i.ready.eq(1)
        m.d.sync += [self.o.valid.eq(self.i.valid), self.o.payload.eq(self.i.payload)]
        return m


def test_a_broken_block_fails_its_job(tmp_path, monkeypatch):
    assert prove(["register_slice"], {}, tmp_path / "intact") == {"register_slice": []}
    monkeypatch.setitem(JOBS, "register_slice", replace(JOBS["register_slice"], block=Leaky))
    found = prove(["register_slice"], {}, tmp_path / "broken")
    assert "o: valid holds until ready: failed" in found["register_slice"]


def test_a_job_that_takes_too_long_is_stopped(tmp_path):
    assert prove(["update", "pack"], {}, tmp_path, limit=2) == {"update": None, "pack": None}
    assert not (tmp_path / "update" / "results.json").exists()
