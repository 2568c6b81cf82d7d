"""Training, evaluation and inference of a network on a device."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..spec.registers import COUNTERS
from .data import Dataset
from .device import Device
from .loss import softmax_cross_entropy
from .network import Network
from .run_folder import RunError, RunFolder
from .settings import TrainSettings

__all__ = ["Progress", "Trainer", "evaluate", "predict"]

TRAIN_PHASE, EVAL_PHASE = 0, 3  # indices of the warm-up and evaluation phases


@dataclass
class Progress:
    """Where a run stands; with the device's state this is all a checkpoint needs."""

    epoch: int = 0
    step: int = 0
    """Batches done in this epoch."""
    loss_sum: float = 0.0
    correct: int = 0
    log: list[dict] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    """Training counters since the run began, up to this point."""
    device_seconds: float = 0.0
    host_seconds: float = 0.0


def predict(network: Network, device: Device, x_NCHW: np.ndarray) -> np.ndarray:
    """Logits [N, classes] of any number of images; the last batch is padded with zeros."""
    parts = []
    for start in range(0, len(x_NCHW), network.batch):
        part = x_NCHW[start : start + network.batch]
        padded = np.zeros((network.batch, *x_NCHW.shape[1:]), x_NCHW.dtype)
        padded[: len(part)] = part
        network.write_input(device, padded)
        network.start(device, EVAL_PHASE)
        device.wait()
        parts.append(network.read_logits(device)[: len(part)])
        device.resume()
        device.wait()
    return np.concatenate(parts)


def evaluate(network: Network, device: Device, x_NCHW: np.ndarray, y_N: np.ndarray) -> tuple[float, float]:
    """Mean loss and accuracy over a set of images."""
    logits_NK = predict(network, device, x_NCHW)
    loss, _ = softmax_cross_entropy(logits_NK, y_N)
    return loss, float(np.mean(logits_NK.argmax(axis=1) == y_N))


class Trainer:
    """A training run: batches in a seeded order, one log row an epoch, a checkpoint every so often.

    Everything that decides the weights is integer arithmetic on the device or float64 on the host,
    and the order of images depends on seed and epoch alone, so a resumed run ends with the very bits
    of an undisturbed one. ``on_batch(progress, loss)`` is called after each batch.
    """

    def __init__(
        self,
        settings: TrainSettings,
        network: Network,
        device: Device,
        dataset: Dataset,
        folder: RunFolder | None = None,
        checkpoint_every: int = 100,
        on_batch: Callable[[Progress, float], None] | None = None,
    ):
        self.settings, self.network, self.device, self.folder = settings, network, device, folder
        self.checkpoint_every, self.on_batch = checkpoint_every, on_batch
        self.train_x_NCHW = dataset.train_x_NCHW[: settings.train_images]
        self.train_y_N = dataset.train_y_N[: settings.train_images]
        self.test_x_NCHW = dataset.test_x_NCHW[: settings.test_images]
        self.test_y_N = dataset.test_y_N[: settings.test_images]
        self.steps_per_epoch = len(self.train_x_NCHW) // settings.batch
        if self.steps_per_epoch == 0:
            raise RunError(f"batch = {settings.batch} exceeds the {len(self.train_x_NCHW)} training images")
        self.progress = Progress()

    # --- state ----------------------------------------------------------------------------------

    def restore(self) -> None:
        """Continue from the folder's checkpoint; raises RunError if it is of another run."""
        assert self.folder is not None
        state, arrays = self.folder.read_checkpoint()
        if TrainSettings.from_dict(state.get("settings", {})) != self.settings:
            raise RunError(f"the checkpoint in {self.folder.path} belongs to a run with other settings")
        if state.get("program") != self.network.program.digest:
            raise RunError(
                f"the checkpoint in {self.folder.path} belongs to another network than {self.settings.model} is now"
            )
        try:
            self.progress = Progress(**state["progress"])
            self.network.restore(self.device, arrays)
        except (KeyError, TypeError) as error:
            raise RunError(f"the checkpoint in {self.folder.path} isn't one of this version: {error}") from None

    def checkpoint(self) -> None:
        """Write the folder's checkpoint."""
        if self.folder is not None:
            state = {
                "settings": self.settings.to_dict(), "program": self.network.program.digest,
                "progress": vars(self.progress),
            }  # fmt: skip
            self.folder.write_checkpoint(state, self.network.snapshot(self.device))

    # --- the run ----------------------------------------------------------------------------------

    def run(self) -> Progress:
        """Train to the end."""
        while self.progress.epoch < self.settings.epochs:
            self._epoch()
        return self.progress

    def _epoch(self) -> None:
        progress = self.progress
        order = np.random.default_rng([self.settings.seed, progress.epoch]).permutation(len(self.train_x_NCHW))
        while progress.step < self.steps_per_epoch:
            start = progress.step * self.settings.batch
            images = order[start : start + self.settings.batch]
            loss = self._batch(self.train_x_NCHW[images], self.train_y_N[images])
            progress.step += 1
            if self.on_batch:
                self.on_batch(progress, loss)
            if progress.step % self.checkpoint_every == 0:
                self.checkpoint()
        test_loss, test_accuracy = evaluate(self.network, self.device, self.test_x_NCHW, self.test_y_N)
        images_seen = self.steps_per_epoch * self.settings.batch
        progress.log.append({
            "epoch": progress.epoch + 1,
            "train_loss": progress.loss_sum / images_seen,
            "train_accuracy": progress.correct / images_seen,
            "test_loss": test_loss,
            "test_accuracy": test_accuracy,
            **progress.counters,
            "device_seconds": round(progress.device_seconds, 3),
            "host_seconds": round(progress.host_seconds, 3),
        })  # fmt: skip
        progress.epoch += 1
        progress.step, progress.loss_sum, progress.correct = 0, 0.0, 0
        if self.folder is not None:
            self.folder.write_log(progress.log)
        self.checkpoint()

    def _batch(self, x_NCHW: np.ndarray, y_N: np.ndarray) -> float:
        progress, network, device, settings = self.progress, self.network, self.device, self.settings
        began = time.perf_counter()
        step = progress.epoch * self.steps_per_epoch + progress.step
        rate = settings.learning_rate_at(step, settings.epochs * self.steps_per_epoch)
        network.set_hyper(device, rate, settings.momentum, settings.weight_decay)
        network.write_input(device, x_NCHW)
        device.reset_counters()
        device_seconds = self._timed(lambda: network.start(device, TRAIN_PHASE, calibrate=step == 0))
        logits_NK = network.read_logits(device)
        loss, gradient_NK = softmax_cross_entropy(logits_NK, y_N)
        network.write_loss_gradient(device, gradient_NK)
        device_seconds += self._timed(device.resume)
        counters = device.counters(TRAIN_PHASE)
        for name, _ in COUNTERS:
            progress.counters[name] = progress.counters.get(name, 0) + counters[name]
        progress.loss_sum += loss * len(y_N)
        progress.correct += int(np.sum(logits_NK.argmax(axis=1) == y_N))
        progress.device_seconds += device_seconds
        progress.host_seconds += time.perf_counter() - began - device_seconds
        return loss

    def _timed(self, begin: Callable[[], None]) -> float:
        began = time.perf_counter()
        begin()
        self.device.wait()
        return time.perf_counter() - began
