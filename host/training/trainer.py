"""The training loop: batches in a seeded order on a device, a log row an epoch, checkpoints."""

import time
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from ...spec.commands import Phase
from ...spec.phases import BP, GP, WARMUP
from ...spec.schedule import Schedule, following
from ..compiler.quantise import constant
from ..compiler.useful_macs import useful_batch
from ..devices.device import Device
from ..islands.runtime import Moment
from .dataset import Dataset, array_digest
from .divergence import check_loss
from .inference import evaluate
from .loss import softmax_cross_entropy
from .models import model_digest
from .network import Network
from .plateau import Plateau
from .programs import program_of
from .progress import Progress
from .run_folder import RunError, RunFolder
from .settings import TrainSettings, parse_phases

if TYPE_CHECKING:
    from .timeline import Timeline

__all__ = ["Trainer"]

VALIDATION = 0x56414C
"""Part of the seed that chooses the validation images; it differs from those of the epochs' orders."""


class Trainer:
    """A training run: batches in a seeded order, one log row an epoch, a checkpoint every so often.

    The weights depend on integer arithmetic on the device and float64 on the host alone, and the order of images on
    seed and epoch alone. So a resumed run ends with the bits of an undisturbed one.

    ``on_batch(progress, loss)`` is called after each batch; a callback that looks at counters calls
    :meth:`read_counters` first. ``timeline`` records some batches, ``several`` says how devices share them. Raises
    RunError if the settings don't fit the data, and DivergenceError in :meth:`run` if the loss becomes meaningless.
    """

    def __init__(
        self,
        settings: TrainSettings,
        network: Network,
        device: Device,
        dataset: Dataset,
        folder: RunFolder | None = None,
        checkpoint_every: int = 100,
        on_batch: Callable[[Progress, float | None], None] | None = None,
    ):
        self.settings, self.network, self.device, self.folder = settings, network, device, folder
        self.checkpoint_every, self.on_batch = checkpoint_every, on_batch
        self.timeline: Timeline | None = None
        self.several: dict = {}
        self.model_digest = model_digest(settings.model)
        self.train_x_NCHW = dataset.train_x_NCHW[: settings.train_images]
        self.train_y_N = dataset.train_y_N[: settings.train_images]
        self.plateau = Plateau(settings.plateau_factor, settings.plateau_patience)
        if settings.schedule == "plateau":
            self._set_aside()
        self.test_x_NCHW = dataset.test_x_NCHW[: settings.test_images]
        self.test_y_N = dataset.test_y_N[: settings.test_images]
        self.steps_per_epoch = len(self.train_x_NCHW) // settings.batch
        if self.steps_per_epoch == 0:
            raise RunError(f"batch = {settings.batch} exceeds the {len(self.train_x_NCHW)} training images")
        self.schedule: Schedule | None = None
        if settings.predicts:
            self.schedule = Schedule(settings.warmup_epochs, self.steps_per_epoch, parse_phases(settings.phases))
            device.set_schedule(self.schedule, constant(settings.gate**2) if settings.gate else None)
        self.progress = Progress(plateau=self.plateau.begin(settings.learning_rate))
        self._forget_counters()

    def _set_aside(self) -> None:
        """Set a part of the training images aside for validation, chosen by the seed."""
        total = len(self.train_y_N)
        aside = round(self.settings.validation_fraction * total)
        if aside == 0:
            raise RunError(
                f"validation_fraction = {self.settings.validation_fraction} of {total} training images is none"
            )
        order = np.random.default_rng([self.settings.seed, VALIDATION, 0]).permutation(total)
        held, rest = np.sort(order[:aside]), np.sort(order[aside:])
        self.validation_x_NCHW, self.validation_y_N = self.train_x_NCHW[held], self.train_y_N[held]
        self.train_x_NCHW, self.train_y_N = self.train_x_NCHW[rest], self.train_y_N[rest]

    @cached_property
    def data_digest(self) -> str:
        """SHA-256 of the images and labels that the run uses."""
        return array_digest(self.train_x_NCHW, self.train_y_N, self.test_x_NCHW, self.test_y_N)

    # --- state ----------------------------------------------------------------------------------

    def restore(self) -> None:
        """Continue from the folder's checkpoint; raises RunError if it is of another run."""
        assert self.folder is not None
        state, arrays = self.folder.read_checkpoint()
        if differing := self.settings.differing(state.get("settings", {})):
            raise RunError(f"the checkpoint in {self.folder.path} belongs to a run with {differing}")
        if state.get("program") != self.network.program.digest:
            raise RunError(
                f"the checkpoint in {self.folder.path} belongs to another network than {self.settings.model} is now"
            )
        if state.get("data", self.data_digest) != self.data_digest:  # earlier versions kept none
            raise RunError(
                f"the checkpoint in {self.folder.path} belongs to a run on other data than {self.settings.data} is now"
            )
        try:
            self.progress = Progress(**state["progress"])
            self.network.restore(self.device, arrays)
        except (KeyError, TypeError) as error:
            raise RunError(f"the checkpoint in {self.folder.path} isn't one of this version: {error}") from None
        self._forget_counters()
        if self.timeline is not None:
            self.timeline.resume(self.progress.epoch * self.steps_per_epoch + self.progress.step)

    def checkpoint(self) -> None:
        """Write the folder's checkpoint."""
        if self.timeline is not None:
            self.timeline.save()
        if self.folder is not None:
            self.read_counters()
            state = {
                "settings": self.settings.to_dict(), "program": self.network.program.digest,
                "model_file": self.model_digest, "data": self.data_digest, "several": self.several,
                "progress": vars(self.progress),
            }  # fmt: skip
            self.folder.write_checkpoint(state, self.network.snapshot(self.device))

    def _forget_counters(self) -> None:
        """Set the device's counters to zero."""
        self.device.reset_counters()
        self._uncounted: set[int] = set()  # phases of batches since then

    def read_counters(self) -> None:
        """Add what the device has counted since the last call to the progress' counters.

        On a board each counter takes two round trips, so nobody reads them before they are needed: for a log row, a
        checkpoint, or whoever asks.
        """
        if not self._uncounted:
            return
        for phase in sorted(self._uncounted):
            self.progress.count(phase, self.device.counters(phase))
        self._forget_counters()

    # --- the run ----------------------------------------------------------------------------------

    def run(self) -> Progress:
        """Train to the end."""
        while self.progress.epoch < self.settings.epochs:
            self._epoch()
        return self.progress

    def _epoch(self) -> None:
        progress = self.progress
        order = np.random.default_rng([self.settings.seed, progress.epoch]).permutation(len(self.train_x_NCHW))
        if self.schedule is not None:
            self.network.set_adam(self.device, self.settings.predictor_rate_at(progress.epoch))
            self.device.set_seed(Moment(self.settings.seed, progress.epoch).epoch_seed)
        while progress.step < self.steps_per_epoch:
            before, phases = progress.step, self._next_phases()
            batches = range(before, before + len(phases))
            images = [order[step * self.settings.batch : (step + 1) * self.settings.batch] for step in batches]
            kept = self._kept(phases, images)
            loss = self._batches(*kept, first=before + len(phases) - len(kept[0]))
            check_loss(loss, self.network.n_outputs, f"batch {before + len(phases)} of epoch {progress.epoch + 1}")
            progress.step += len(phases)
            if self.on_batch:
                self.on_batch(progress, loss)
            if progress.step // self.checkpoint_every > before // self.checkpoint_every:
                self.checkpoint()
        test_loss, test_accuracy = evaluate(self.network, self.device, self.test_x_NCHW, self.test_y_N)
        if not self.network.has_running_statistics:  # which trail the weights, so that at first any loss is possible
            check_loss(test_loss, self.network.n_outputs, f"the test after epoch {progress.epoch + 1}")
        validated = {}
        if self.settings.schedule == "plateau":
            validated["learning_rate"] = progress.plateau["rate"]
            loss, accuracy = evaluate(self.network, self.device, self.validation_x_NCHW, self.validation_y_N)
            validated |= {"validation_loss": loss, "validation_accuracy": accuracy}
            progress.plateau = self.plateau.after(progress.plateau, loss)
        self.read_counters()
        seen = progress.images  # whose loss is known: perhaps none, if all batches were of GP
        progress.log.append({
            "epoch": progress.epoch + 1,
            "train_loss": progress.loss_sum / seen if seen else None,
            "train_accuracy": progress.correct / seen if seen else None,
            "test_loss": test_loss,
            "test_accuracy": test_accuracy,
            **validated,
            **progress.counters,
            "useful_macs": self._useful_macs(),
            **(progress.phases() if self.schedule is not None else {}),
            "device_seconds": round(progress.device_seconds, 3),
            "host_seconds": round(progress.host_seconds, 3),
            **({"island_seconds": round(progress.island_seconds, 3)} if self.network.islands else {}),
        })  # fmt: skip
        progress.epoch += 1
        progress.step, progress.loss_sum, progress.correct, progress.images = 0, 0.0, 0, 0
        if self.folder is not None:
            self.folder.write_log(progress.log)
        self.checkpoint()

    def _useful_macs(self) -> int:
        """Useful products of the run's batches, each counted once."""
        return sum(n * useful_batch(self.network.compiled, phase) for phase, n in enumerate(self.progress.batches))

    def _next_phases(self) -> list[int]:
        """Phases of the batches up to the next that needs the host; the epoch and the input ring limit their number."""
        if self.schedule is None:
            return [WARMUP]
        position, gate_open = self.device.position()
        phases: list[int] = []
        while len(phases) < min(self.steps_per_epoch - self.progress.step, self.network.ring_entries):
            phase, position = following(position, self.schedule, gate_open)
            phases.append(phase.bit_length() - 1)
            if phase != Phase.GP:
                break
        return phases

    def _kept(self, phases: list[int], images: list[np.ndarray]) -> tuple[list[int], list[np.ndarray]]:
        """Batches that aren't skipped; the device's schedule is moved past the others."""
        if self.schedule is None or self.settings.gradient_source != "skip":
            return phases, images
        skipped = phases.count(GP)  # the first ones
        self._pass(skipped)
        return phases[skipped:], images[skipped:]

    def _pass(self, batches: int) -> None:
        """Move the device's schedule past batches that it doesn't run."""
        assert self.schedule is not None
        position, gate_open = self.device.position()
        for _ in range(batches):
            _, position = following(position, self.schedule, gate_open)
        self.device.set_position(position, gate_open)

    def _batches(self, phases: list[int], images: list[np.ndarray], first: int) -> float | None:
        """Train on batches, all of GP except perhaps the last, whose loss is returned if it isn't of GP.

        ``first``: the number of the first one in the epoch.
        """
        if not phases:
            return None
        progress, network, device, settings = self.progress, self.network, self.device, self.settings
        began, loss = time.perf_counter(), None
        step = progress.epoch * self.steps_per_epoch + first
        rate = settings.learning_rate_at(step, settings.epochs * self.steps_per_epoch)
        if settings.schedule == "plateau":
            rate = progress.plateau["rate"]
        network.set_hyper(device, rate, settings.momentum, settings.weight_decay)
        for entry, batch in enumerate(images):
            network.write_input(device, self.train_x_NCHW[batch], entry)
        fresh, learns = not any(progress.batches), settings.learns(progress.batches[WARMUP] + progress.batches[BP])
        if self.timeline is not None:
            self.timeline.begin(step, len(phases), program_of(network.compiled, fresh, learns))
        phase = WARMUP if self.schedule is None else None
        moment, islands_before = Moment(settings.seed, progress.epoch, first), network.islands.seconds
        begin = partial(network.start, device, phase, batches=len(phases), calibrate=fresh, learns=learns)
        device_seconds = self._timed(partial(begin, scheduled=phases, moment=moment))
        if phases[-1] != GP:
            loss, seconds = self._backpropagate(self.train_y_N[images[-1]])
            device_seconds += seconds
        if self.timeline is not None:
            self.timeline.end()
        for phase in phases:
            progress.batches[phase] += 1
        self._uncounted |= set(phases)
        island_seconds = network.islands.seconds - islands_before
        device_seconds -= island_seconds
        progress.island_seconds += island_seconds
        progress.device_seconds += device_seconds
        progress.host_seconds += time.perf_counter() - began - device_seconds
        return loss

    def _backpropagate(self, y_N: np.ndarray) -> tuple[float, float]:
        """Give the device the gradients of the loss, each of which it waits for; returns the loss and its seconds."""
        losses, seconds, passes = [], 0.0, self.network.passes
        for part_N in np.split(y_N, self.settings.micro_batches)[:passes]:
            logits_NK = self.network.read_logits(self.device)
            loss, gradient_NK = softmax_cross_entropy(logits_NK, part_N)
            self.network.write_loss_gradient(self.device, gradient_NK)
            seconds += self._timed(self.device.resume)
            losses.append(loss)
            self.progress.loss_sum += loss * len(part_N)
            self.progress.correct += int(np.sum(logits_NK.argmax(axis=1) == part_N))
            self.progress.images += len(part_N)
        return sum(losses) / passes, seconds

    def _timed(self, begin: Callable[[], None]) -> float:
        began = time.perf_counter()
        begin()
        self.network.wait(self.device)
        return time.perf_counter() - began
