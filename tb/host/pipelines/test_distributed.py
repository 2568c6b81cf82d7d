"""Pipelines of several processes over gloo: the bits of one device, a clock in order, and failures told to all."""

import json
from pathlib import Path

import pytest
from adagp.host.devices.golden import GoldenDevice
from adagp.host.pipelines.schedules import build
from pipeline_ranks import process
from pipelined import KINDS, MEMORY, MICRO_BATCHES, PARTS, one_device
from torch import multiprocessing

pytestmark = pytest.mark.timeout(300)

RUNS = [("plain", "gpipe"), ("skipping", "1f1b"), ("plain", "zb-h1"), ("skipping", "interleaved")]
SIZE = 3


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What the processes have seen, in the order of ranks."""
    path = tmp_path_factory.mktemp("ranks")
    multiprocessing.spawn(process, (SIZE, str(path), RUNS), nprocs=SIZE)
    return [json.loads(Path(path, f"{rank}.json").read_text()) for rank in range(SIZE)]


@pytest.fixture(scope="module")
def expected():
    """The hashes after each batch of one device, by kind of network."""
    return {
        kind: [weights for weights, _ in one_device(kind, GoldenDevice(config, MEMORY))]
        for kind, (_, config) in KINDS.items()
    }


@pytest.mark.parametrize(("kind", "schedule"), RUNS)
def test_bits_are_those_of_one_device(seen, expected, kind, schedule):
    for rank in seen:
        assert rank[f"{kind} {schedule}"]["hashes"] == expected[kind]
    assert len({*expected[kind]}) == 3


@pytest.mark.parametrize(("kind", "schedule"), RUNS)
def test_steps_are_those_of_the_schedule_in_its_order_of_time(seen, kind, schedule):
    """No step begins before its device is free, or before what it needs has crossed the link."""
    plan = build(schedule, SIZE, MICRO_BATCHES, chunks=PARTS)
    times = {}
    for rank, steps in enumerate(plan.lists):
        found = seen[rank][f"{kind} {schedule}"]["steps"]
        assert [step for step, _, _ in found] == [str(step) for step in steps]
        times |= {step: (rank, begin, end) for step, (_, begin, end) in zip(steps, found, strict=True)}
    waited = 0
    for steps in plan.lists:
        free = 0
        for step in steps:
            rank, begin, end = times[step]
            needs = [times[need] for need in plan.needs(step)]
            assert end == begin + 100 and begin >= free, step
            crossing = [other for other in needs if other[0] != rank]
            assert all(begin >= ended + 30 for _, _, ended in crossing), step
            waited += begin > free
            free = end
    assert waited and all(rank[f"{kind} {schedule}"]["bytes"] > 0 for rank in seen)


def test_ranks_with_another_network_are_told(seen):
    assert [rank["different"] for rank in seen] == [
        "rank 1 has another network, schedule or configuration than rank 0",
        "rank 0 has another network, schedule or configuration than rank 1",
        "rank 0 has another network, schedule or configuration than rank 2",
    ]


def test_a_failure_ends_all_ranks_with_its_reason(seen):
    told = "the pipeline has ended: rank 1: the device has lost its power"
    assert [rank["failure"] for rank in seen] == [told] * SIZE
