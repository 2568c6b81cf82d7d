"""Steps of pipelined batches on the estimator: those of the simulated RTL, in about as many cycles."""

import contextlib

import pytest
from adagp.evaluation.instruments.pipeline_estimates import estimated_steps
from adagp.evaluation.instruments.pipeline_steps import laid, ran_batches
from adagp.host.devices.simulated import SimDevice
from adagp.host.pipelines.staged_network import Link, StagedNetwork
from pipelined import IMAGE, KINDS, N_CLASSES, SEED, made

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

DEVICES, MICRO_BATCHES, BATCH = 2, 2, 8


def test_steps_take_as_long_as_on_the_rtl():
    config, module = KINDS["predicted"][1], made("predicted")
    with contextlib.ExitStack() as opened:
        devices = [opened.enter_context(contextlib.closing(SimDevice(config))) for _ in range(DEVICES)]
        pipeline = StagedNetwork(module, IMAGE, BATCH, config, devices, "1f1b", MICRO_BATCHES, source="predicted")
        measured = ran_batches(pipeline, module, IMAGE, N_CLASSES, SEED, lambda text: None)["steps"]
    found = estimated_steps(pipeline.staged)
    for phase in ("bp", "gp"):
        cycles = {(place, step): cycles for place, step, cycles in measured[phase]}
        assert [(place, step) for place, step, _ in found[phase]] == sorted(cycles, key=lambda key: key[0])
        for place, step, each in found[phase]:
            assert each == pytest.approx(cycles[place, step], rel=0.08), (place, step)
        whole, there = (laid(pipeline.staged, [steps[phase]], Link()) for steps in (found, measured))
        assert whole == pytest.approx(there, rel=0.02)
