"""Training of a classifier on a pipeline: the run of one device, whose batches several devices train."""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np

from ...spec.phases import WARMUP
from ..islands.runtime import Moment
from ..training.dataset import Dataset
from ..training.run_folder import RunFolder
from ..training.session import Session, open_session
from ..training.settings import TrainSettings
from ..training.trainer import Trainer
from .device_state import State, from_network, to_network
from .expected import Expected
from .ranks import Batch, Share, Team
from .trace import DeviceTimeline

__all__ = ["PipelineTrainer", "one_device_cycles"]

PIPELINED = "pipelined_cycles"
"""Counter of the pipeline's cycles in batches that don't calibrate; the following ones are of the same batches."""
LINKED = "link_bytes"
"""Counter of bytes between devices."""


def busy_of(place: int) -> str:
    """The counter of a device's cycles in its steps."""
    return f"device_{place}_cycles"


class PipelineTrainer(Trainer):
    """A training run whose batches a pipeline's devices train.

    The session has the whole network on a golden model. Before each test and each checkpoint it takes over the state
    of all devices. So checkpoints are those of one device, and the test's bits are.

    Attributes
    ----------
    recorded: keeps the steps of some batches
    expected: the cost model's view of the pipeline, for :meth:`results`
    alone: measured cycles of a batch on one device, if they were
    """

    def __init__(self, settings: TrainSettings, session: Session, team: Team, folder: RunFolder | None, every: int):
        super().__init__(settings, session.network, session.device, session.dataset, folder, every)
        self.team = team
        self.recorded: DeviceTimeline | None = None
        self.expected: Expected | None = None
        self.alone: int | None = None
        self._behind = False  # the golden model, after a batch
        self.progress.counters["devices"] = self.n_devices

    @property
    def n_devices(self) -> int:
        """Devices of the pipeline."""
        return self.team.network.staged.schedule.devices

    def restore(self) -> None:
        """Continue from the folder's checkpoint; raises RunError if it is of another run."""
        super().restore()
        self.team.order("take", from_network(self.network, self.device))
        self._behind = False
        if self.recorded is not None:
            self.recorded.resume(self.progress.epoch * self.steps_per_epoch + self.progress.step)

    def checkpoint(self) -> None:
        """Write the folder's checkpoint."""
        self.catch_up()
        if self.recorded is not None:
            self.recorded.save()
        super().checkpoint()

    def catch_up(self) -> None:
        """Put the state of all devices on the golden model."""
        if self._behind:
            for state in self.team.order("state"):
                assert isinstance(state, State)
                to_network(self.network, self.device, state)
            self._behind = False

    def _batches(self, phases: list[int], images: list[np.ndarray], first: int) -> float | None:
        progress, settings, began = self.progress, self.settings, time.perf_counter()
        step, fresh = progress.epoch * self.steps_per_epoch + first, not any(progress.batches)
        rate = settings.learning_rate_at(step, settings.epochs * self.steps_per_epoch)
        if settings.schedule == "plateau":
            rate = progress.plateau["rate"]
        x_NCHW, y_N = self.train_x_NCHW[images[0]], self.train_y_N[images[0]]
        hyper = rate, settings.momentum, settings.weight_decay
        shares = self.team.order("train", Batch(x_NCHW, y_N, hyper, fresh))
        device_seconds = time.perf_counter() - began
        self._behind = True
        self._count(shares, fresh)
        if self.recorded is not None:
            self.recorded.add(step, [ran for share in shares for ran in share.ran])
        losses = [one for share in shares for one in share.losses]
        for loss, n, correct in losses:
            progress.loss_sum += loss * n
            progress.correct += correct
            progress.images += n
        self.network.moment = Moment(settings.seed, progress.epoch, first).after(1)
        normed = [name for layer in self.network.normed for name in layer.buffers[2:]]
        self.network.islands.state.count(normed, len(losses))
        progress.batches[WARMUP] += 1
        if first + 1 == self.steps_per_epoch:
            self.catch_up()
        progress.device_seconds += device_seconds
        progress.host_seconds += time.perf_counter() - began - device_seconds
        return sum(loss for loss, _, _ in losses) / len(losses)

    def _count(self, shares: Sequence[Share], calibrated: bool) -> None:
        """Add a batch's counters to the progress': those of all devices, and the cycles that the pipeline took."""
        ends = math.ceil(max(ran.end for share in shares for ran in share.ran))
        for counters in (one for share in shares for one in share.counters):
            self.progress.count(WARMUP, counters | {"cycles": 0})
        self.progress.count(WARMUP, {"cycles": ends})
        if not calibrated:
            self.progress.count(WARMUP, {PIPELINED: ends, LINKED: sum(share.sent_bytes for share in shares)})
            for ran in (ran for share in shares for ran in share.ran):
                self.progress.count(WARMUP, {busy_of(ran.device): math.ceil(ran.end - ran.begin)})

    def results(self) -> dict:
        """Cycles and bytes over links of a batch that doesn't calibrate, idle shares, and the speed-up.

        Devices without a clock have no shares; a run of one batch has none either.
        """
        counters, batches = self.progress.counters, sum(self.progress.batches) - 1
        cycles = counters.get(PIPELINED, 0)
        idle = [1 - counters[busy_of(place)] / cycles for place in range(self.n_devices)] if cycles else []
        assert self.expected is not None
        speedup, kind = self.expected.speedup, "as the cost model expects"
        if self.alone is not None and cycles:
            speedup, kind = self.alone * batches / cycles, "measured"
        return {
            "cycles_a_batch": cycles / max(1, batches), "link_bytes_a_batch": counters.get(LINKED, 0) / max(1, batches),
            "idle_shares": idle, "idle_share": sum(idle) / self.n_devices,
            "speedup": speedup, "speedup_is": kind, "one_device_cycles": self.alone,
            "expected_speedup": self.expected.speedup, "stages": [asdict(row) for row in self.expected.stages],
        }  # fmt: skip


def one_device_cycles(settings: TrainSettings, device: str, dataset: Dataset) -> int:
    """Cycles of a batch that one device trains with the same micro-batches, measured on its second batch."""
    short = replace(
        settings, epochs=1, train_images=2 * settings.batch, test_images=1, schedule="constant",
        plateau_factor=TrainSettings.plateau_factor, plateau_patience=TrainSettings.plateau_patience,
        validation_fraction=TrainSettings.validation_fraction,
    )  # fmt: skip
    found: list[int] = []
    with open_session(short, device, dataset=dataset) as session:
        trainer = Trainer(short, session.network, session.device, session.dataset)

        def counted(progress, loss) -> None:
            trainer.read_counters()
            found.append(progress.counters["cycles"])

        trainer.on_batch = counted
        trainer.run()
    return found[1] - found[0]
