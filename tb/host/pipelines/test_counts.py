"""Gains of ADA-GP by count and by formula, beside the paper's; drawings."""

from fractions import Fraction
from itertools import pairwise

import pytest
from adagp.algorithm import paper_numbers as paper
from adagp.host.pipelines.comparing import compare
from adagp.host.pipelines.counts import Mix, StepCounter, fitted_mix, formula
from adagp.host.pipelines.drawing import as_data, lines
from adagp.host.pipelines.schedules import SCHEDULES, build
from adagp.host.pipelines.timing import Durations, timed
from adagp.spec.phases import BP, GP

MIX = Mix(paper.EPOCHS, paper.WARMUP_EPOCHS, paper.PHASES)


def test_the_mix_of_ninety_epochs():
    assert sum(epochs for epochs, _, _ in MIX.parts()) == 90
    by_hand = (4 * Fraction(4, 5) + 4 * Fraction(3, 4) + 4 * Fraction(2, 3) + 68 * Fraction(1, 2)) / 90
    assert MIX.share == by_hand
    assert list(Mix(12, 10, ((4, 4, 1), (1, 1, 1))).parts()) == [(10, 0, 1), (2, 4, 1)]


@pytest.mark.parametrize(("name", "gain"), [("gpipe", 1.628), ("1f1b", 1.628), ("interleaved", 1.565),
                                            ("chimera", 1.556), ("zb-h1", 1.537)])  # fmt: skip
def test_gain_of_the_mix(name, gain):
    """Counted run by run, it is the formula's, since each batch takes its steps whatever comes before."""
    counter = StepCounter(name, 4, 4)
    assert counter.gain(MIX) == formula(counter.lasting(BP), 4, MIX.share)
    assert round(float(counter.gain(MIX)), 3) == gain


def test_the_paper_assumes_as_many_gp_as_bp_batches():
    steps, mean, most = paper.PIPELINE_STEPS, paper.PIPELINE_SPEEDUP, paper.PIPELINE_MOST_SPEEDUP
    assert len(mean) == 3
    for name in mean:
        counter = StepCounter(name, 4, 4)
        assert (counter.steps(BP), counter.steps(GP, BP)) == steps[name]
        assert float(formula(counter.steps(BP), 4, Fraction(1, 2))) == pytest.approx(most[name])
    share, longer = fitted_mix((21, mean["gpipe"]), (16, mean["chimera"]), 4)
    assert 0.497 < share < 0.505 and 0.012 < longer < 0.022
    for name, (bp, _) in steps.items():  # both at once, put back
        assert formula(bp, 4, share) / (1 + longer) == pytest.approx(mean[name])


def test_a_comparison_has_each_schedule_or_its_reason():
    rows, reasons = compare(4, 4, MIX)
    assert [row.name for row in rows] + list(reasons) == list(SCHEDULES) and "odd" in reasons["stale-registers"]
    found = {row.name: row for row in rows}
    assert found["1f1b"].memory == (4, 3, 2, 1) and found["stale-1f1b"].missed == (3, 2, 1, 0)
    stale = found["stale-1f1b"]  # GP batches wait for the updates of BP batches before
    assert stale.idle == 0 and 1 < stale.gain < stale.gain_by_formula
    assert found["chimera"].to_dict()["gp_bp"] == 20


def test_a_drawing():
    drawn = [line.plain.rstrip() for line in lines(timed(build("1f1b", 2, 2, (BP, GP))))]
    assert drawn == [
        "step     0         5         10",
        "device 0 F0F1. . B0= . B1= f0f1.",
        "device 1 . F0B0= F1B1= . . . f0f1",
    ]
    pieces = [line.plain for line in lines(timed(build("1f1b")), width=50)]
    assert len(pieces) == 10 and all(len(piece) <= 50 for piece in pieces)
    assert "F3b" in "".join(line.plain for line in lines(timed(build("chimera"))))
    assert "too many" in next(lines(timed(build("gpipe"), Durations(latency=Fraction(1, 997))))).plain


def test_the_data_have_every_step_and_idle_time():
    timeline = timed(build("zb-h1", 4, 4, (GP, BP)))
    data = as_data(timeline)
    assert (data["steps"], data["batches"], data["memory"]) == (19, ["gp", "bp"], [4, 4, 4, 4])
    for row in data["lists"]:
        assert row[0]["begin"] == 0 and row[-1]["end"] == 19
        assert all(a["end"] == b["begin"] for a, b in pairwise(row))
        assert sum(entry["end"] - entry["begin"] for entry in row if entry["what"] != "idle") == 4 + 12
    assert data["lists"][3][1] == {
        "what": "forward", "stage": 3, "micro_batch": 0, "batch": 0, "phase": "gp", "replica": 0, "begin": 3, "end": 4,
    }  # fmt: skip
