"""The trainer: it learns, its evaluation doesn't depend on batches, the schedule arrives, the log is whole."""

import numpy as np
import pytest
import torch
from adagp.evaluation.report import plots
from adagp.host.compiler.ir import HYPER
from adagp.host.training import trainer
from adagp.host.training.inference import evaluate, predict
from adagp.host.training.loss import softmax_cross_entropy
from adagp.host.training.models import build_model
from adagp.host.training.network import Network
from adagp.host.training.run_folder import RunError, RunFolder
from adagp.host.training.session import open_session
from adagp.host.training.settings import TrainSettings
from adagp.host.training.trainer import Trainer
from adagp.spec.registers import COUNTERS

COLUMNS = (
    "epoch", "train_loss", "train_accuracy", "test_loss", "test_accuracy", "useful_macs", "device_seconds",
    "host_seconds",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


def settings(**changes):
    values = {"preset": "tiny", "batch": 8, "epochs": 2, "train_images": 40, "test_images": 20, **changes}
    return TrainSettings(**values)


def test_it_learns_and_logs(tmp_path):
    chosen = settings(train_images=200, epochs=6, batch=20, learning_rate=0.1)
    losses = []
    with open_session(chosen, "golden") as session:
        folder = RunFolder(tmp_path)
        trainer = Trainer(chosen, session.network, session.device, session.dataset, folder)
        trainer.on_batch = lambda progress, loss: losses.append(loss)
        log = trainer.run().log
        n_commands = len(session.network.program)
    assert len(losses) == 6 * 10 and np.mean(losses[-10:]) < 0.7 * np.mean(losses[:10])
    assert log[-1]["test_accuracy"] > 0.5 and log[-1]["test_loss"] < log[0]["test_loss"]
    assert folder.log == log and [row["epoch"] for row in log] == [1, 2, 3, 4, 5, 6]
    for epoch, row in enumerate(log):
        assert set(row) == {*COLUMNS, *(name for name, _ in COUNTERS)}
        assert row["train_loss"] == pytest.approx(np.mean(losses[10 * epoch : 10 * epoch + 10]), rel=1e-12)
        assert row["macs"] > 0 and row["commands"] == (epoch + 1) * 10 * n_commands


def test_evaluation_does_not_depend_on_the_batch():
    chosen = settings(epochs=1)
    with open_session(chosen, "golden") as session:
        network, device = session.network, session.device
        trainer = Trainer(chosen, network, device, session.dataset)
        trainer.run()
        snapshot, images_NCHW = network.snapshot(device), trainer.test_x_NCHW[:11]
        padded_NK = predict(network, device, images_NCHW)  # 8 + 3 images
        other = Network(build_model(chosen.model, (1, 8, 8), 10, 0), (1, 8, 8), 11, network.config)
        other.restore(device, snapshot)
        np.testing.assert_array_equal(padded_NK, predict(other, device, images_NCHW))
        labels_N = trainer.test_y_N[:11]
        loss, accuracy = evaluate(other, device, images_NCHW, labels_N)
    assert padded_NK.shape == (11, 10) and np.ptp(padded_NK) > 0
    assert accuracy == np.mean(padded_NK.argmax(axis=1) == labels_N)
    assert loss == softmax_cross_entropy(padded_NK, labels_N)[0]


@pytest.mark.parametrize("schedule", ["constant", "cosine", "step"])
def test_the_schedule_reaches_the_device(schedule, monkeypatch):
    chosen = settings(schedule=schedule, model="mlp", learning_rate=0.05, momentum=0.75, weight_decay=0.25)
    seen = {}
    with open_session(chosen, "golden") as session:
        correct = session.device.set_hyper

        def set_hyper(index, mantissa, exponent):
            seen.setdefault(index, []).append(mantissa * 2.0**exponent)
            correct(index, mantissa, exponent)

        monkeypatch.setattr(session.device, "set_hyper", set_hyper)
        Trainer(chosen, session.network, session.device, session.dataset).run()
    expected = {
        "constant": [0.05] * 10,
        "cosine": [0.025 * (1 + np.cos(np.pi * step / 10)) for step in range(10)],
        "step": [0.05] * 5 + [0.005] * 3 + [0.0005] * 2,
    }[schedule]
    assert seen[HYPER] == pytest.approx(expected, rel=2**-15)
    assert seen[HYPER + 1] == [0.75] * 10 and seen[HYPER + 2] == [0.25] * 10


def test_order_and_weights_depend_on_the_seed_alone():
    hashes = []
    for seed in (0, 0, 1):
        chosen = settings(seed=seed, epochs=1, model="mlp")
        with open_session(chosen, "golden") as session:
            Trainer(chosen, session.network, session.device, session.dataset).run()
            hashes.append(session.network.weights_hash(session.device))
    assert hashes[0] == hashes[1] != hashes[2]


def test_running_statistics_that_trail_the_weights_are_no_divergence(monkeypatch):
    monkeypatch.setattr(trainer, "evaluate", lambda *_: (1e30, 0.1))
    monkeypatch.setattr(Network, "has_running_statistics", True)
    chosen = settings(epochs=1, model="mlp")
    with open_session(chosen, "golden") as session:
        progress = Trainer(chosen, session.network, session.device, session.dataset).run()
    assert [row["test_loss"] for row in progress.log] == [1e30]


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    chosen, folder = settings(epochs=1, model="mlp"), RunFolder(tmp_path)
    with open_session(chosen, "golden") as session:
        Trainer(chosen, session.network, session.device, session.dataset, folder).run()
        other = Trainer(settings(epochs=2, model="mlp"), session.network, session.device, session.dataset, folder)
        with pytest.raises(RunError, match=r"belongs to a run with epochs = 1, not 2$"):
            other.restore()
        with pytest.raises(RunError, match="batch = 8 exceeds the 5 training images"):
            Trainer(settings(train_images=5), session.network, session.device, session.dataset)


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
@pytest.mark.parametrize("cycles", [0, 1000])
def test_plot(tmp_path, suffix, magic, cycles):
    row = {name: cycles for name, _ in COUNTERS}
    row |= {"epoch": 1, "train_loss": 2.0, "train_accuracy": 0.1, "test_loss": 1.0, "test_accuracy": 0.5}
    path = tmp_path / f"plot.{suffix}"
    plots.plot_run([row, {**row, "epoch": 2}], "title", path)
    assert path.read_bytes().startswith(magic) and path.stat().st_size > 5000
