"""Settings, schedules, loss and run folders."""

import math

import numpy as np
import pytest
import torch
from adagp.evaluation.report.plots import plot_run
from adagp.host.training.loss import softmax_cross_entropy
from adagp.host.training.run_folder import RunError, RunFolder
from adagp.host.training.settings import SettingsError, TrainSettings


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epochs", 0), ("batch", -1), ("learning_rate", 0.0), ("learning_rate", math.nan), ("momentum", 1.0),
        ("weight_decay", -0.1), ("schedule", "warm"), ("seed", -1), ("train_images", 0),
    ],
)  # fmt: skip
def test_a_bad_setting_is_named(field, value):
    with pytest.raises(SettingsError, match=f"^{field} = "):
        TrainSettings(**{field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [("epochs", "3"), ("epochs", True), ("lr", 0.1), ("model", 5), ("data_dir", []), ("learning_rate", None)],
)
def test_settings_of_another_shape_are_refused(field, value):
    with pytest.raises(SettingsError, match=f"not the settings of a run: .*{field}"):
        TrainSettings.from_dict({**TrainSettings().to_dict(), field: value})


def test_schedules():
    cosine = TrainSettings(learning_rate=0.2, schedule="cosine")
    assert cosine.learning_rate_at(0, 10) == 0.2
    assert cosine.learning_rate_at(5, 10) == pytest.approx(0.1)
    step = TrainSettings(learning_rate=0.2, schedule="step")
    rates = [step.learning_rate_at(i, 8) for i in range(8)]
    assert rates == pytest.approx([0.2] * 4 + [0.02] * 2 + [0.002] * 2)
    assert TrainSettings.from_dict(step.to_dict()) == step


def test_loss_and_gradient_equal_torch():
    rng = np.random.default_rng(4)
    logits, labels = rng.normal(0, 30, (13, 7)), rng.integers(0, 7, 13)
    reference = torch.tensor(logits, requires_grad=True)
    expected = torch.nn.functional.cross_entropy(reference, torch.tensor(labels))
    expected.backward()
    loss, gradient = softmax_cross_entropy(logits, labels)
    assert loss == pytest.approx(float(expected.detach()), rel=1e-12)
    np.testing.assert_allclose(gradient, reference.grad, atol=1e-15)


def test_log_is_written_twice_and_plotted(tmp_path):
    rows = [
        {"epoch": i + 1, "train_loss": 1 / (i + 1), "train_accuracy": 0.5, "test_loss": 1.0, "test_accuracy": 0.6,
         "cycles": 1000, "macs": 9000, "read_bytes": 10, "write_bytes": 5, "saturations": 0, "array_cycles": 600,
         "stall_idle": 400}
        for i in range(3)
    ]  # fmt: skip
    folder = RunFolder(tmp_path)
    folder.write_log(rows)
    assert folder.log == rows
    assert (tmp_path / "log.csv").read_text().splitlines()[0].startswith("epoch,train_loss")
    plot_run(rows, "title", tmp_path / "report.png")
    assert (tmp_path / "report.png").stat().st_size > 10_000


def test_a_run_in_its_first_epoch_has_no_log(tmp_path):
    folder = RunFolder(tmp_path)
    folder.begin({})
    folder.write_checkpoint({"epoch": 0}, {})
    with pytest.raises(RunError, match="has not finished an epoch yet"):
        _ = folder.log
