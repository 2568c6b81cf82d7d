"""Dataflows: the operand that stays in the array, by hand; the same bits with each, in other cycles."""

from functools import cache

import numpy as np
import pytest
import torch
from adagp.host.compiler.dataflow import DATAFLOWS
from adagp.host.compiler.mapping import SLACK, MappingError, choose_mapping
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.training.network import Network
from adagp.spec.commands import Command, Opcode
from adagp.spec.opcodes import GEMMS
from adagp.spec.phases import WARMUP
from adagp.spec.presets import preset
from batches import train_batch
from random_programs import DESIGNS, MEMORY
from scheduled_runs import NETWORKS, Run, differences, golden, settings, simulated
from torch import nn

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

SEED = 5
TILES = ("swap", "out_outer", "nb", "yb", "cb", "qb")
IMAGES, INPUTS, HIDDEN, CLASSES = 5, 9, 7, 3


def ceil(a, b):
    return -(-a // b)


def expected_array_cycles(config, dataflow):
    """Array cycles of a batch of two linear layers, each GEMM one tile, by the operand that the array keeps."""

    def gemm(reduced, filters, inputs):
        """``filters`` are what stays with ws, ``inputs`` what stays with is; the other streams."""
        kept, streamed = (filters, inputs) if dataflow == "ws" else (inputs, filters)
        return ceil(reduced, config.rows) * ceil(kept, config.cols) * streamed

    n, c, m, q = IMAGES, INPUTS, HIDDEN, CLASSES
    forward = gemm(c, m, n) + gemm(m, q, n)  # weights stay, or activations
    data = gemm(q, m, n)  # weights, or errors
    weight = gemm(n, m, c + 1) + gemm(n, q, m + 1)  # errors, or activations with a column of ones for the bias
    return forward + data + weight


@pytest.mark.parametrize("dataflow", ["ws", "is"])
@pytest.mark.parametrize("simulation", [False, True])
def test_the_operand_that_stays(dataflow, simulation):
    print(f"seed {SEED}")
    torch.manual_seed(SEED)
    config, rng = DESIGNS["baseline"], np.random.default_rng(SEED)
    module = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))
    images, labels = rng.random((IMAGES, INPUTS)), rng.integers(0, CLASSES, IMAGES)
    found = {}
    for name in (dataflow, "free"):
        network = Network(module, (INPUTS,), IMAGES, config, dataflow=name)
        device = SimDevice(config, memory_bytes=MEMORY) if simulation else GoldenDevice(config, MEMORY)
        network.load_state(device, module.state_dict())
        network.set_hyper(device, 0.1, 0.9, 0.0)
        train_batch(network, device, images, labels, calibrate=True)
        device.reset_counters()
        train_batch(network, device, images, labels)
        found[name] = network.weights_hash(device), device.counters(WARMUP)
        device.close()
    (ours, counters), (theirs, fastest) = found[dataflow], found["free"]
    assert ours == theirs and counters["macs"] == fastest["macs"] > 0
    if simulation:
        assert counters["array_cycles"] == expected_array_cycles(config, dataflow)
        assert fastest["cycles"] <= (1 + SLACK) * counters["cycles"]


def test_both_are_told_apart():
    config = DESIGNS["baseline"]
    assert expected_array_cycles(config, "ws") != expected_array_cycles(config, "is")


def _untiled(command):
    return Command(command.opcode, {name: value for name, value in command.fields.items() if name not in TILES})


@cache
def compiled(dataflow):
    torch.manual_seed(SEED)
    batch, shape, build = NETWORKS["strides"]
    return Network(build(), shape, batch, golden().config, ring_entries=4, source="predicted", dataflow=dataflow)


def test_all_gemms_follow_and_nothing_else_changes():
    """Those of the predictor's own array too; ``free`` is the faster of both, but for the slack of few bytes."""
    programs = {name: [line.command for line in compiled(name).program] for name in DATAFLOWS}
    seen = {name: {c.swap for c in commands if c.opcode in GEMMS} for name, commands in programs.items()}
    assert seen["ws"] == {0} and seen["is"] == {1}
    n_gemms = n_predictors = 0
    for free, *others in zip(*programs.values(), strict=True):
        for other in others:
            assert other == free or (_untiled(other) == _untiled(free) and free.opcode in GEMMS)
        if free.opcode in GEMMS:
            found = {name: choose_mapping(_untiled(free), golden().config, dataflow=name) for name in DATAFLOWS}
            assert found["free"].fields() == {name: getattr(free, name) for name in TILES}
            assert found["free"].cycles <= (1 + SLACK) * min(each.cycles for each in found.values())
            n_gemms, n_predictors = n_gemms + 1, n_predictors + free.predictor
    assert n_gemms > n_predictors > 3


def test_a_dataflow_without_a_tiling_is_named():
    """A row of pixels that stream is kept in the accumulator; if they stay, only the filters are."""

    def row(w):
        sizes = {"n": 1, "c": 1, "h": 1, "w": w, "q": 1, "oh": 1, "ow": w, "r": 1, "s": 1, "stride": 1}
        return Command(Opcode.FORWARD, sizes)

    config = preset("tiny")
    assert choose_mapping(row(600), config, "conv1").swap == choose_mapping(row(600), config, "conv1", "is").swap == 1
    reason = "one row of one channel takes 600 of the accumulator, which holds 256"
    with pytest.raises(MappingError, match=f"^conv1 forward: {reason}, with dataflow = 'ws'; with 'free' a tile fits$"):
        choose_mapping(row(600), config, "conv1", "ws")
    for dataflow in DATAFLOWS:  # which aren't the cause here
        with pytest.raises(MappingError, match=r"^layer 0 forward: one row of .* which holds 2048$"):
            choose_mapping(row(5000), config, dataflow=dataflow)
    with pytest.raises(ValueError, match=r"^dataflow = 'ss' must be one of free, ws, is, os$"):
        choose_mapping(row(600), config, dataflow="ss")


@cache
def trained(dataflow):
    """A run with GP batches on the golden model."""
    return Run("strides", golden(), settings("strides", dataflow=dataflow)).go()


@pytest.mark.parametrize("dataflow", ["ws", "is"])
def test_the_same_bits_on_golden(dataflow):
    assert differences(trained("free"), trained(dataflow)) == []
    assert trained(dataflow)[-1]["batches"][2] > 0


def test_the_same_bits_on_the_simulated_rtl():
    cycles = {}
    for dataflow in ("ws", "is"):
        device = simulated("max", stall=0.2, seed=SEED)
        run = Run("strides", device, settings("strides", dataflow=dataflow))
        assert differences(trained("free"), run.go()) == []
        run.trainer.read_counters()
        cycles[dataflow] = run.trainer.progress.counters["cycles"]
        device.close()
    assert cycles["ws"] != cycles["is"]
