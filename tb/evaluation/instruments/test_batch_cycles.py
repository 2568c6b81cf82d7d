"""The cost of a batch by phase, measured in a short run."""

import numpy as np
import pytest
from adagp.evaluation.instruments.batch_cycles import EPOCHS, STEPS, batch_cycles
from adagp.host.training.data import Dataset
from adagp.host.training.settings import TrainSettings

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first


@pytest.mark.parametrize("source", ("zero", "skip"))
def test_batches_of_each_phase(source):
    x_NCHW, y_N = np.zeros((1, 1, 8, 8), np.float32), np.zeros(1, np.int64)
    settings = TrainSettings(model="mlp", data="digits", batch=4, preset="tiny", variant="max", gradient_source=source)
    seen = []
    found = batch_cycles(
        settings, Dataset("digits", x_NCHW, y_N, x_NCHW, y_N, 10), seen=lambda *done: seen.append(done)
    )  # fmt: skip
    assert set(found) == {"warmup", "bp", "gp"} and seen[-1][1] == EPOCHS * STEPS
    assert min(found["warmup"], found["bp"]) > 1000
    assert found["gp"] == 0 if source == "skip" else 0 < found["gp"] < found["bp"]
