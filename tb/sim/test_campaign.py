"""Campaigns: resuming, failures, processes, replay."""

import json
import os

import pytest
from robustness.campaign import Campaign, Kind

SEED = 7


def _open(top):
    def case(index, rng):
        if index == 3:
            raise AssertionError("three")
        return f"{index}: {rng.integers(1 << 30)}"

    return case


def _kind(opening=_open):
    return Kind("example", opening, 10, "example_failures", presets=())


@pytest.mark.parametrize("jobs", [1, 2])
def test_runs_and_goes_on(tmp_path, jobs):
    campaign = Campaign(_kind(), SEED, tmp_path)
    first = campaign.run(4, jobs, quiet=True)
    assert [record.index for record in first] == [0, 1, 2, 3]
    assert [record.failed for record in first] == [False, False, False, True]
    with open(campaign.path, "ab") as file:
        file.write(b'{"index": 4, "out')  # stopped while writing
    records = campaign.run(8, jobs, quiet=True)
    assert records[:4] == first and len(campaign.path.read_text().splitlines()) == 1 + 8
    for record in records:
        if not record.failed:
            assert record.outcome == campaign.replay(record.index)
    assert len({record.outcome for record in records}) == 8
    figures, details = campaign.figures(records)
    assert figures == {"example": 8, "example_failures": 1}
    assert details["failures"] == [{"index": 3, "reason": "AssertionError: three"}]
    with pytest.raises(AssertionError, match="three"):
        campaign.replay(3)


def test_begins_anew_for_other_hardware(tmp_path):
    campaign = Campaign(_kind(), SEED, tmp_path)
    campaign.run(2, quiet=True)
    head, *rest = campaign.path.read_text().splitlines()
    campaign.path.write_text("\n".join([json.dumps({**json.loads(head), "simulators": ["other"]}), *rest]) + "\n")
    assert campaign._load() == []


def test_opens_anew_after_a_failure_and_once_in_each_process(tmp_path):
    opened = []

    def opening(top):
        opened.append(os.getpid())
        return _open(top)

    Campaign(_kind(opening), SEED, tmp_path).run(6, quiet=True)
    assert opened == [os.getpid()] * 2
