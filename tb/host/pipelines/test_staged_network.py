"""Networks on several devices: the bits of one device for every schedule that runs, golden and simulated RTL."""

import contextlib
from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
import pytest
import torch
from adagp.host.compiler.lowering import LoweringError
from adagp.host.compiler.tensors import layer_tensor
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.pipelines.cutting import balanced, cut_at
from adagp.host.pipelines.device_state import from_devices
from adagp.host.pipelines.refusals import check_replicas
from adagp.host.pipelines.staged_network import Link, StagedNetwork
from adagp.host.pipelines.steps import PipelineError, Step, What
from adagp.host.pipelines.timing import timed
from adagp.host.pipelines.worker import Worker
from adagp.spec.phases import BP, GP, WARMUP
from pipelined import (
    BATCH,
    IMAGE,
    KINDS,
    MEMORY,
    MICRO_BATCHES,
    N_CLASSES,
    PARTS,
    PHASES,
    SEED,
    SWITCHED,
    TINY,
    made,
    one_device,
    several_devices,
    source_of,
)  # fmt: skip
from torch import nn

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

SCHEDULES = {"gpipe": 2, "1f1b": 4, "zb-h1": 3, "interleaved": 2, "chimera": 4}
"""The number of devices by schedule."""


def staged(kind, schedule, make=None, **options):
    config = KINDS[kind][1]
    devices = [make() if make else GoldenDevice(config, MEMORY) for _ in range(SCHEDULES[schedule])]
    options = {"chunks": PARTS, "source": source_of(kind), **options}
    return StagedNetwork(made(kind), IMAGE, BATCH, config, devices, schedule, MICRO_BATCHES, **options)


@cache
def expected_of(kind):
    """Hash and state after each batch of one device."""
    return list(one_device(kind, GoldenDevice(KINDS[kind][1], MEMORY)))


@pytest.mark.parametrize(("kind", "schedule"), [
    *(("plain", name) for name in SCHEDULES), ("skipping", "gpipe"), ("skipping", "interleaved"),
    ("predicted", "1f1b"), ("predicted", "interleaved"), ("predicted", "chimera"), ("predicted-skipping", "zb-h1"),
    ("skipping-unnormed", "chimera"),
])  # fmt: skip
def test_bits_are_those_of_one_device(kind, schedule):
    pipeline, expected = staged(kind, schedule), expected_of(kind)
    found = list(several_devices(pipeline, made(kind).state_dict(), kind))
    assert [weights for weights, _ in found] == [weights for weights, _ in expected]
    assert len({weights for weights, _ in found}) == len(PHASES[kind])
    for name, value in expected[-1][1].items():
        if value.is_floating_point():
            assert torch.equal(found[-1][1][name], value), name
    assert pipeline.sent_bytes > 0
    plan = pipeline.staged.gp if PHASES[kind][-1] == GP else pipeline.staged.schedule
    for place, steps in enumerate(plan.lists):
        assert [ran.step for ran in pipeline.ran if ran.device == place] == list(steps)


def counted_steps(monkeypatch, kind, schedule, phases):
    """The steps to the end of each batch on four equal stages and micro-batches, from its phase and if it follows."""
    units = {What.FORWARD: 1, What.BACKWARD: 2, What.BACKWARD_INPUT: 1, What.BACKWARD_WEIGHT: 1}
    run = Worker.run

    def timed_run(worker):
        step = worker.next
        return run(worker)[0], units.get(step.what, 0)

    monkeypatch.setattr(Worker, "run", timed_run)
    config = KINDS[kind][1]
    pipeline = StagedNetwork(
        made(kind), IMAGE, 4, config, [GoldenDevice(config, MEMORY) for _ in range(4)], schedule, 4,
        source=source_of(kind),
    )  # fmt: skip
    pipeline.load_state(made(kind).state_dict())
    images = np.random.default_rng(SEED).uniform(-1, 1, (4, *IMAGE))

    def loss(micro_batch, results):
        return [np.full_like(results[0], 2.0**-micro_batch)]

    for number, (phase, follows) in enumerate(phases):
        pipeline.train(images, loss, calibrate=not number, phase=phase, follows=follows)
        yield pipeline.cycles


def test_a_batch_with_replicas_takes_sixteen_steps(monkeypatch):
    """A GP batch takes six, two more than its forward steps: each device ends it before the next one begins."""
    phases = ((WARMUP, False), (BP, False), (GP, False), (GP, True), (BP, True))
    assert list(counted_steps(monkeypatch, "predicted", "chimera", phases))[1:] == [16, 6, 12, 12 + 16]


@pytest.mark.parametrize(("schedule", "bp"), [("gpipe", 21), ("1f1b", 21), ("zb-h1", 15)])
def test_a_batch_takes_the_steps_of_the_schedule(monkeypatch, schedule, bp):
    """GP batches leave no gap, and a BP batch follows at once."""
    phases = ((WARMUP, False), (BP, False), (GP, False), (GP, True), (BP, True))
    _, alone, first, second, last = counted_steps(monkeypatch, "predicted", schedule, phases)
    assert (alone, second - first, last - second + 3) == (bp, 4, bp)  # a batch ends three steps after the next begins
    assert last == 4 + 4 + bp


@contextlib.contextmanager
def simulated_devices():
    """A maker of devices, which are closed in the order in which they were made: Verilator's runtime needs the last."""
    made_so_far = []

    def make():
        made_so_far.append(SimDevice(TINY, memory_bytes=MEMORY, stall=0.1, seed=SEED))
        return made_so_far[-1]

    try:
        yield make
    finally:
        for device in made_so_far:
            device.close()


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_simulated_devices_train_as_golden(schedule):
    """Their clocks keep the order that the schedule's own timing has: no step begins before what it needs."""
    expected = [weights for weights, _ in expected_of("plain")]
    link = Link(latency=50, bytes_per_cycle=4)
    with simulated_devices() as make:
        pipeline = staged("plain", schedule, make, link=link)
        assert [weights for weights, _ in several_devices(pipeline, made("plain").state_dict())] == expected
    slots = {ran.step: ran for ran in pipeline.ran}
    assert len(slots) == len(pipeline.ran) == SCHEDULES[schedule] * (2 * MICRO_BATCHES + 1)
    for step, ran in slots.items():
        assert ran.end > ran.begin
        for need in pipeline.staged.schedule.needs(step):
            other = slots[need]
            assert ran.begin >= other.end + (link.latency if other.device != ran.device else 0), (step, need)
    busy = sum(ran.end - ran.begin for ran in pipeline.ran)
    assert pipeline.cycles < 0.8 * busy  # devices work at the same time
    assert len(timed(pipeline.staged.schedule).slots) == len(pipeline.ran)


def test_slots_are_as_many_as_micro_batches_under_way():
    """GPipe keeps all, 1F1B as many as devices follow; a device that isn't the first has no input."""
    kept = {name: [len(each.slots) for each in staged("plain", name).staged.devices] for name in ("gpipe", "1f1b")}
    assert kept == {"gpipe": [6, 6], "1f1b": [4, 3, 2, 1]}
    devices = staged("plain", "gpipe").staged.devices
    assert devices[0].input_bytes > 0 == devices[1].input_bytes
    assert {layer.name for each in devices for layer in each.layers} == {
        "0.Conv2d", "2.Conv2d", "4.MaxPool2d", "5.Conv2d", "8.Linear", "10.Linear",
    }  # fmt: skip


def test_the_longest_stage_is_as_short_as_can_be():
    draw = np.random.default_rng(SEED)
    print(f"seed {SEED}")
    for length in (5, 8):
        cycles = {f"n{place}": int(each) for place, each in enumerate(draw.integers(1, 50, length))}
        for stages in range(1, length + 1):
            found = balanced(cycles, stages)
            assert sorted({*found.values()}) == list(range(stages)) and list(found.values()) == sorted(found.values())
            assert longest(cycles, found) == min(longest(cycles, cut) for cut in cuts(cycles, stages))


def longest(cycles, stage_of):
    return max(sum(cycles[name] for name in cycles if stage_of[name] == stage) for stage in {*stage_of.values()})


def cuts(cycles, stages):
    """All ways to cut."""
    names = list(cycles)
    for places in combinations(range(1, len(names)), stages - 1):
        yield cut_at(cycles, [names[place] for place in places], stages)


def test_a_cut_can_be_named():
    pipeline = staged("plain", "gpipe", cut=["8.Linear"])
    assert pipeline.staged.stage_of["5.Conv2d"] == 0 and pipeline.staged.stage_of["8.Linear"] == 1
    found = [weights for weights, _ in several_devices(pipeline, made("plain").state_dict())]
    assert found == [weights for weights, _ in expected_of("plain")]


def test_a_pooled_result_has_the_exponent_of_the_device_that_sees_its_maxima():
    """A checkpoint has one exponent for both, and only the convolution's device follows it."""
    pipeline = staged("plain", "gpipe", cut=["4.MaxPool2d"])
    pipeline.load_state(made("plain").state_dict())
    found = from_devices(pipeline).exponents
    assert "2.Conv2d.output" in found and "4.MaxPool2d.output" not in found


@pytest.mark.parametrize(("changes", "error", "message"), [
    ({"devices": 7}, PipelineError, "stages = 7 must satisfy 1 <= stages <= 6, the network's layers"),
    ({"micro_batches": 5}, LoweringError, "micro_batches = 5 must divide the batch of 12"),
    ({"cut": ["9.Linear"]}, PipelineError, "cut at '9.Linear': a stage must begin with one of 2.Conv2d, 4.MaxPool2d"),
    ({"cut": ["2.Conv2d", "8.Linear"]}, PipelineError, "cut names 2 of the 1 layers that 2 stages need"),
    ({"cut": ["8.Linear", "2.Conv2d"], "devices": 3}, PipelineError, "stages must follow each other as layers do"),
    ({"config": replace(TINY, n_tensors=16)}, LoweringError, "tensors need exponents, tiny has room for 16"),
    ({"memory": 1 << 13}, PipelineError, "device 0 of the pipeline needs [0-9]+ bytes of memory, it has 8192"),
])  # fmt: skip
def test_what_cannot_be(changes, error, message):
    config = changes.get("config", TINY)
    devices = [GoldenDevice(config, changes.get("memory", MEMORY)) for _ in range(changes.get("devices", 2))]
    with pytest.raises(error, match=message):
        pipeline = StagedNetwork(
            made("plain"), IMAGE, BATCH, config, devices, changes.get("schedule", "gpipe"),
            changes.get("micro_batches", MICRO_BATCHES), cut=changes.get("cut"),
        )  # fmt: skip
        pipeline.load_state(made("plain").state_dict())


def test_replicas_that_cannot_be_or_differ_are_told():
    with pytest.raises(PipelineError, match=r"chimera: norm\.BatchNorm2d: batch norm's running statistics follow"):
        staged("skipping", "chimera")
    pipeline = staged("plain", "chimera")
    layer = pipeline.staged.graph.layers[0]
    with pytest.raises(PipelineError, match=r"chimera: 0\.Conv2d: the gradient of a micro-batch takes several"):
        check_replicas(pipeline.staged.schedule, {"part": layer})
    pipeline.load_state(made("plain").state_dict())
    pipeline.weights_hash()
    second, update = pipeline.workers[-1], Step(What.UPDATE, 0, None, 0, replica=1)
    name, micro_batch = pipeline.staged.parts(update)[1]
    second.device.write(second.compiled.tensors(micro_batch)[name].address, np.array([-32767], np.int16))
    assert second.cut(update) == 1
    second.device.write(second.compiled.slots[0][layer_tensor(layer, "momentum")].address, np.ones(1, np.int32))
    with pytest.raises(PipelineError, match=r"0\.Conv2d: the replicas have different weights"):
        pipeline.weights_hash()


def test_devices_of_another_design_are_refused():
    devices = [GoldenDevice(TINY, MEMORY), GoldenDevice(SWITCHED, MEMORY)]
    with pytest.raises(PipelineError, match="device 1 is tiny, the network is for tiny"):
        StagedNetwork(made("plain"), IMAGE, BATCH, TINY, devices, "gpipe", MICRO_BATCHES)


def test_concatenations_and_links_that_cannot_be():
    class Joined(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two, self.last = nn.Conv2d(2, 3, 1), nn.Conv2d(2, 3, 1), nn.Linear(216, N_CLASSES)

        def forward(self, x):
            return self.last(torch.flatten(torch.cat([self.one(x), self.two(x)], 1), 1))

    devices = [GoldenDevice(TINY, MEMORY) for _ in range(2)]
    with pytest.raises(PipelineError, match="concatenations, convolutions in groups"):
        StagedNetwork(Joined(), IMAGE, BATCH, TINY, devices, "gpipe", MICRO_BATCHES)
    with pytest.raises(PipelineError, match="latency = -1 must be at least 0"):
        Link(latency=-1)


@pytest.mark.parametrize("micro_batches", [1, MICRO_BATCHES])
@pytest.mark.parametrize(("within", "config", "message"), [
    (nn.Dropout(0.5), SWITCHED, "1.Dropout: dropout draws by the number of the batch, which a pipeline doesn't set"),
    (nn.Sigmoid(), SWITCHED, "1.Sigmoid runs on the host, and stages of a pipeline have no part there"),
])  # fmt: skip
def test_parts_that_no_stage_can_have(within, config, message, micro_batches):
    module = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), within, nn.Flatten(), nn.Linear(108, N_CLASSES))
    devices = [GoldenDevice(config, MEMORY) for _ in range(2)]
    with pytest.raises(PipelineError, match=message):
        StagedNetwork(module.double().train(), IMAGE, BATCH, config, devices, "gpipe", micro_batches)


def test_devices_that_wait_for_each_other_are_told():
    """The first device wants a gradient before it has sent a value."""
    pipeline = staged("plain", "gpipe")
    steps = pipeline.workers[0].compiled.steps
    back = next(step for step in steps if step.what is What.BACKWARD)
    others = tuple(step for step in steps if step is not back)
    pipeline.workers[0].compiled = replace(pipeline.workers[0].compiled, steps=(back, *others))
    run = several_devices(pipeline, made("plain").state_dict())
    next(run)  # which calibrates, by a list of its own
    with pytest.raises(PipelineError, match="the devices wait for each other: device 0 at B of stage 0"):
        next(run)
