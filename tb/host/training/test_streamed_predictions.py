"""Predictions that reach the update without passing through memory: the bits of those that are spilled."""

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from adagp.host.compiler.lowering import LoweringError
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.training.network import Network
from adagp.spec.commands import Opcode, Phase
from adagp.spec.config import SLICES
from adagp.spec.presets import preset
from random_programs import DESIGNS, MEMORY
from scheduled_runs import HashedRun
from torch import nn

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

STREAMED = DESIGNS["max"]
SPILLED = replace(STREAMED, streamed_predictions=False)
SEED, BATCH, SHAPE = 31, 4, (3, 8, 8)


def make():
    """A large linear layer in several slices, a convolution in groups, and one of few filters."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1, groups=3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(96, 120),
        nn.ReLU6(), nn.Linear(120, 7, bias=False),
    )  # fmt: skip


def trained(device):
    run = HashedRun(make, SHAPE, BATCH, device, SEED)
    return run.network, run.go()


@cache
def on_golden(config):
    return trained(GoldenDevice(config, MEMORY))


def updates(network):
    """In a GP batch: place and count of the gradients of each layer's updates."""
    found = [line for line in network.program if line.command.opcode == Opcode.UPDATE]
    return [
        (line.name, line.command.a_addr, line.command.count) for line in found if line.command.phase_mask & Phase.GP
    ]  # fmt: skip


def test_slices_are_the_whole():
    (spilled, _), (streamed, _) = on_golden(SPILLED), on_golden(STREAMED)
    counts = [Counter(), Counter()]
    for network, count in zip((spilled, streamed), counts, strict=True):
        for name, _, weights in updates(network):
            count[name] += weights
    assert counts[0] == counts[1] and len(counts[0]) == len(spilled.trained) > 2
    window, places = streamed.compiled.window, {place for _, place, _ in updates(streamed)}
    assert len(places) == SLICES and all(place in window for place in places)
    assert not any(place in spilled.compiled.window for _, place, _ in updates(spilled))
    assert len(updates(streamed)) >= len(updates(spilled)) + SLICES


def test_golden_trains_alike():
    assert on_golden(STREAMED)[1] == on_golden(SPILLED)[1]
    assert len(set(on_golden(STREAMED)[1])) > 3


def test_hardware_equals_golden():
    device = SimDevice(STREAMED, memory_bytes=MEMORY, limit=20_000_000, stall=0.2, seed=SEED)
    _, hashes = trained(device)
    device.close()
    assert hashes == on_golden(STREAMED)[1]


def test_filters_that_end_in_one_cycle_are_refused():
    """An update that takes more weights in a cycle than a filter has would meet several ends at once."""
    config = replace(preset("paper"), variant="max", streamed_predictions=True, update_lanes=8)
    module = nn.Sequential(nn.Conv2d(3, 16, 1), nn.Flatten(), nn.Linear(256, 4))
    with pytest.raises(
        LoweringError, match=r"0\.Conv2d has 4 weights in a filter, fewer than update_lanes = 8; .*'spill'"
    ):
        Network(module, (3, 4, 4), 2, config, source="predicted")
    Network(module, (3, 4, 4), 2, replace(config, streamed_predictions=False), source="predicted")
