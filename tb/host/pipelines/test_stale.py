"""Stale weights on devices: the bits of the definition, which keeps all weights that ever were on one machine."""

import contextlib

import pytest
import torch
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.pipelines.staged_network import StagedNetwork
from adagp.host.pipelines.steps import PipelineError
from pipelined import BATCH, IMAGE, MEMORY, MICRO_BATCHES, N_CLASSES, SEED, SWITCHED, TINY, batches, loss_of, plain
from stale_machine import StaleMachine
from torch import nn

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first


def normed():
    """Batch norm, whose running statistics forward passes change, a depthwise convolution and a pooling."""
    return nn.Sequential(
        nn.Conv2d(2, 5, 3, padding=1, bias=False), nn.BatchNorm2d(5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(5, 5, 3, padding=1, groups=5), nn.ReLU(), nn.Flatten(), nn.Linear(45, N_CLASSES),
    )  # fmt: skip


CASES = {"plain": (plain, TINY, ("2.Conv2d", "8.Linear")), "normed": (normed, SWITCHED, ("1.BatchNorm2d", "7.Linear"))}
"""Network, design, and the first layers of stages after the first."""
DELAYS = {"stale-1f1b": (2, 1, 0), "stale-paired": (4, 2, 0)}
"""Updates that forward passes miss, by schedule and stage."""


def made(name):
    print(f"seed {SEED}")
    torch.manual_seed(SEED)
    return CASES[name][0]().double().train()


def pipeline(name, make, schedule="stale-1f1b", **options):
    _, config, cut = CASES[name]
    devices = [make(config) for _ in range(len(cut) + 1)]
    found = StagedNetwork(made(name), IMAGE, BATCH, config, devices, schedule, MICRO_BATCHES, cut=cut, **options)
    found.load_state(made(name).state_dict())
    found.set_hyper(0.05, 0.9, 0.002)
    return found


def machine(name):
    _, config, cut = CASES[name]
    return StaleMachine(made(name), IMAGE, BATCH // MICRO_BATCHES, config, cut)


def golden(config):
    return GoldenDevice(config, MEMORY)


@pytest.mark.parametrize(("name", "schedule"), [("plain", "stale-1f1b"), ("normed", "stale-1f1b"),
                                                ("normed", "stale-paired")])  # fmt: skip
def test_bits_are_those_of_the_definition_and_of_a_hybrid_too(name, schedule):
    """The first batch calibrates, the last one has no stale weights."""
    found, definition, undelayed = pipeline(name, golden, schedule, hybrid=True), machine(name), machine(name)
    assert [len(each.slots) for each in found.staged.devices] == [missed + 1 for missed in DELAYS[schedule]]
    hashes = []
    for number, (calibrate, images, labels) in enumerate(batches()):
        found.train(images, loss_of(labels), calibrate=calibrate, alone=number == 2)
        delays = (0, 0, 0) if number == 2 else DELAYS[schedule]
        hashes.append(found.weights_hash())
        assert hashes[-1] == definition.batch(images, labels, delays, calibrate), number
        undelayed.batch(images, labels, (0, 0, 0), calibrate)
    weights = undelayed.network.weights_hash(undelayed.device)
    assert len({*hashes, weights}) == 4
    for device in found.staged.devices:
        assert [str(step) for step in device.steps] != [str(step) for step in device.alone_steps] or device.held == 1


@pytest.mark.parametrize("schedule", DELAYS)
def test_simulated_devices_have_the_bits_of_the_definition_and_work_at_the_same_time(schedule):
    definition = machine("plain")
    with contextlib.ExitStack() as opened:
        found = pipeline("plain", lambda each: opened.enter_context(contextlib.closing(SimDevice(each))), schedule)
        for calibrate, images, labels in batches(2):
            found.train(images, loss_of(labels), calibrate=calibrate)
            assert found.weights_hash() == definition.batch(images, labels, DELAYS[schedule], calibrate)
        assert found.cycles < 0.7 * sum(ran.end - ran.begin for ran in found.ran)


def test_what_cannot_be():
    with pytest.raises(PipelineError, match="stale-registers: each stage has two devices, and the one would send its"):
        pipeline("plain", golden, "stale-registers")
    with pytest.raises(PipelineError, match="gpipe: no weights are stale, so there is no hybrid of it"):
        pipeline("plain", golden, "gpipe", hybrid=True)
    found = pipeline("plain", golden)
    calibrate, images, labels = next(batches())
    with pytest.raises(PipelineError, match="alone = True needs a hybrid pipeline with stale weights"):
        found.train(images, loss_of(labels), calibrate=calibrate, alone=True)
