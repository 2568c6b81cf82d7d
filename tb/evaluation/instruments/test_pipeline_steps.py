"""Batches that are laid out from the cycles of their steps take as long as the pipeline that ran them."""

import pytest
from adagp.evaluation.instruments.pipeline_steps import balanced_steps, laid, mean_cycles, ran_batches, shares
from adagp.host.devices.golden import GoldenDevice
from adagp.host.pipelines.counts import Mix
from adagp.host.pipelines.staged_network import Link, StagedNetwork
from adagp.host.pipelines.steps import What
from adagp.host.pipelines.worker import Worker
from pipelined import IMAGE, KINDS, MEMORY, N_CLASSES, SEED, made

DEVICES, MICRO_BATCHES = 2, 2
UNITS = {What.FORWARD: 100, What.BACKWARD: 210, What.BACKWARD_INPUT: 90, What.BACKWARD_WEIGHT: 110, What.UPDATE: 7}


@pytest.mark.parametrize("schedule", ["gpipe", "zb-h1"])
def test_a_layout_takes_as_long_as_the_run(monkeypatch, schedule):
    """Steps take longer on the second device, and messages have latency and bytes."""
    run = Worker.run
    monkeypatch.setattr(Worker, "run", lambda worker: _timed(run, worker))
    config, link, module = KINDS["predicted"][1], Link(30, 3), made("predicted")
    devices = [GoldenDevice(config, MEMORY) for _ in range(DEVICES)]
    pipeline = StagedNetwork(
        module, IMAGE, 2 * MICRO_BATCHES, config, devices, schedule, MICRO_BATCHES, link=link, source="predicted"
    )
    found = ran_batches(pipeline, module, IMAGE, N_CLASSES, SEED, lambda text: None)
    steps = found["steps"]
    assert laid(pipeline.staged, [steps["gp"], steps["gp"], steps["bp"]], link) == found["cycles"]
    assert shares(steps["bp"], DEVICES)[1] == pytest.approx(2 / 3, abs=0.01)
    assert shares(balanced_steps(steps["bp"]), DEVICES) == pytest.approx([0.5, 0.5])
    mixed = mean_cycles(pipeline.staged, steps, Mix(4, 1, ((1, 2, 1), (1, 1, 1))), link)
    parts = laid(pipeline.staged, [steps["gp"], steps["bp"]], link) / 2
    assert mixed == pytest.approx((laid(pipeline.staged, [steps["bp"]], link) + found["cycles"] / 3 + 2 * parts) / 4)


def _timed(run, worker):
    what, place = worker.next.what, worker.place
    return run(worker)[0], 5 if what is What.ADAM else UNITS.get(what, 13) * (1 + place)
