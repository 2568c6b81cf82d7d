"""Pipelines of several processes over gloo: the bits of one device, a clock in order, and failures told to all."""

import importlib
import json
import signal
import sys
from pathlib import Path

import pytest
import torch
from adagp.host.devices.golden import GoldenDevice
from adagp.host.pipelines.schedules import build
from adagp.host.pipelines.staged_network import StagedNetwork
from adagp.host.pipelines.steps import PipelineError
from adagp.spec.phases import BP, GP
from pipeline_ranks import LIMIT, process
from pipelined import BATCH, IMAGE, KINDS, MEMORY, MICRO_BATCHES, PARTS, PHASES, made, one_device, several_devices
from torch import multiprocessing
from torch.distributed import pipelining
from torch.distributed.pipelining import schedules

pytestmark = pytest.mark.timeout(300)

RUNS = [
    ("plain", "gpipe"),
    ("skipping", "1f1b"),
    ("plain", "zb-h1"),
    ("skipping", "interleaved"),
    ("predicted", "interleaved"),
    ("plain", "stale-1f1b"),
    ("plain", "stale-paired"),
]
SIZE = 3


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What the processes have seen, in the order of ranks."""
    path = tmp_path_factory.mktemp("ranks")
    context = multiprocessing.spawn(process, (SIZE, str(path), RUNS), nprocs=SIZE, join=False)
    for each in context.processes:
        each.join()
    if [each.exitcode for each in context.processes] != [0] * (SIZE - 1) + [-signal.SIGKILL]:
        context.join()  # which tells what a process has raised
    states = {name: [torch.load(path / f"{rank} {name}.pt") for rank in range(SIZE)] for name in map(" ".join, RUNS)}
    return [
        json.loads(Path(path, f"{rank}.json").read_text()) | {"states": {name: states[name][rank] for name in states}}
        for rank in range(SIZE)
    ]


def reference(kind, schedule):
    """Hash and state after each batch of one device; with stale weights, of all devices in one process."""
    config = KINDS[kind][1]
    if not schedule.startswith("stale"):
        return one_device(kind, GoldenDevice(config, MEMORY))
    devices = [GoldenDevice(config, MEMORY) for _ in range(SIZE)]
    pipeline = StagedNetwork(made(kind), IMAGE, BATCH, config, devices, schedule, MICRO_BATCHES)
    return several_devices(pipeline, made(kind).state_dict(), kind)


@pytest.fixture(scope="module")
def expected():
    """The reference's hashes after each batch, and its state at the end, by run."""
    found = {run: list(reference(*run)) for run in RUNS}
    return {run: ([weights for weights, _ in each], each[-1][1]) for run, each in found.items()}


@pytest.mark.parametrize(("kind", "schedule"), RUNS)
def test_bits_are_those_of_one_device(seen, expected, kind, schedule):
    hashes, state = expected[kind, schedule]
    assert len({*hashes}) == len(PHASES[kind])
    for rank in seen:
        assert rank[f"{kind} {schedule}"]["hashes"] == hashes
        found = rank["states"][f"{kind} {schedule}"]
        assert list(found) == list(made(kind).state_dict())
        for name, value in state.items():
            if value.is_floating_point():
                assert torch.equal(found[name], value), name


@pytest.mark.parametrize(("kind", "schedule"), RUNS)
def test_steps_are_those_of_the_schedule_in_its_order_of_time(seen, kind, schedule):
    """No step begins before its device is free, or before what it needs has crossed the link."""
    plan = build(schedule, SIZE, MICRO_BATCHES, [GP if PHASES[kind][-1] == GP else BP], chunks=PARTS)
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


def test_a_rank_that_fails_before_training_is_told_to_all(seen):
    """A device of another configuration ends the constructor of all, one with too little memory their load_state."""
    for rank in seen:
        told, seconds = rank["refused"]
        assert told.startswith("rank 1: device 1 is tiny") and seconds < LIMIT / 2
        assert rank["small"].startswith("rank 1: device 1 of the pipeline needs")
        assert rank["small"].endswith("bytes of memory, it has 8192")


def test_a_killed_rank_ends_the_others(seen):
    """Their connections to it are closed, so they don't wait until gloo gives up."""
    assert "killed" not in seen[-1]
    for rank in seen[:-1]:
        told, seconds = rank["killed"]
        assert told.startswith("the pipeline has ended: rank ") and seconds < LIMIT / 2


@pytest.mark.parametrize(("place", "name", "value", "reason"), [
    (schedules, "REDUCE_GRAD", None, "cannot import name 'REDUCE_GRAD'"),
    (pipelining, "PipelineStage", object, "PipelineStage has no parameter 'input_grads'"),
])  # fmt: skip
def test_torch_without_the_parts_of_its_runtime_is_told(monkeypatch, place, name, value, reason):
    monkeypatch.delattr(place, name)
    if value:
        monkeypatch.setattr(place, name, value, raising=False)
    monkeypatch.delitem(sys.modules, "adagp.host.pipelines.distributed")
    with pytest.raises(PipelineError, match=f"need torch >= 2.12, this is torch .*{reason}"):
        importlib.import_module("adagp.host.pipelines.distributed")
