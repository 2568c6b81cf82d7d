"""Training of a classifier on a pipeline: the run of one device, whose batches several devices train."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np

from ...spec.phases import BP, GP, PHASE_NAMES, WARMUP
from ..islands.runtime import Moment
from ..training.dataset import Dataset
from ..training.run_folder import RunFolder
from ..training.session import Session, open_session
from ..training.settings import TrainSettings
from ..training.trainer import Trainer
from .device_state import State, from_network, to_network
from .expected import Expected
from .ranks import REPLICAS_CUT, Batch, Share, Team
from .trace import DeviceTimeline

__all__ = ["PipelineTrainer", "one_device_cycles"]

PIPELINED = "pipelined_cycles"
"""Counter of the pipeline's cycles in batches that don't calibrate; the following ones are of the same batches."""
LINKED = "link_bytes"
"""Counter of bytes between devices."""


_SLOW = 1e-4
"""The learning rate at which cycles are measured. They don't depend on it, and a low one keeps a run from diverging."""


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
    alone: measured cycles of a batch on one device by phase, if they were
    pipelined_epochs: later ones have no stale weights; None: there are no others
    """

    def __init__(self, settings: TrainSettings, session: Session, team: Team, folder: RunFolder | None, every: int):
        super().__init__(settings, session.network, session.device, session.dataset, folder, every)
        self.team = team
        self.recorded: DeviceTimeline | None = None
        self.expected: Expected | None = None
        self.alone: dict[int, int] | None = None
        self.pipelined_epochs: int | None = None
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
        hyper = rate, settings.momentum, settings.weight_decay
        adam = settings.predictor_rate_at(progress.epoch) if settings.predicts else None
        shares = []
        for number, (phase, chosen) in enumerate(zip(phases, images, strict=True)):
            y_N = None if phase == GP else self.train_y_N[chosen]
            batch = Batch(
                self.train_x_NCHW[chosen], y_N, hyper, fresh, adam, phase, follows=number > 0,
                alone=self.pipelined_epochs is not None and progress.epoch >= self.pipelined_epochs,
            )  # fmt: skip
            shares.append(self.team.order("train", batch))
            if self.recorded is not None:
                ran = [ran for share in shares[-1] for ran in share.ran]
                self.recorded.add(step + number, ran, batch.follows)
        device_seconds = time.perf_counter() - began
        self._behind = True
        self._count(phases, shares, fresh)
        if self.schedule is not None:
            self._pass(len(phases))
        by_part = {part: one for share in shares[-1] for part, one in share.losses.items()}
        losses = [one for _, one in sorted(by_part.items())]
        for loss, n, correct in losses:
            progress.loss_sum += loss * n
            progress.correct += correct
            progress.images += n
        self.network.moment = Moment(settings.seed, progress.epoch, first).after(len(phases))
        normed = [name for layer in self.network.normed for name in layer.buffers[2:]]
        self.network.islands.state.count(normed, 1 if fresh else len(phases) * settings.micro_batches)
        if first + len(phases) == self.steps_per_epoch:
            self.catch_up()
        progress.device_seconds += device_seconds
        progress.host_seconds += time.perf_counter() - began - device_seconds
        return sum(loss for loss, _, _ in losses) / len(losses) if losses else None

    def _count(self, phases: Sequence[int], batches: Sequence[Sequence[Share]], calibrated: bool) -> None:
        """Add the counters of batches in a row to the progress': of all devices, and cycles of the pipeline.

        A batch has the cycles from its first step until that of the next one, the last one until its end.
        """
        marks = [math.floor(min(ran.begin for share in shares for ran in share.ran)) for shares in batches]
        marks.append(math.ceil(max(share.clock for share in batches[-1])))
        for phase, shares, begin, end in zip(phases, batches, marks[:-1], marks[1:], strict=True):
            self.progress.batches[phase] += 1
            for counters in (one for share in shares for one in share.counters):
                self.progress.count(phase, counters | {"cycles": 0})
            self.progress.count(phase, {"cycles": end - begin})
            if not calibrated:
                sent = sum(share.sent_bytes for share in shares)
                self.progress.count(phase, {PIPELINED: end - begin, LINKED: sent})
                for ran in (ran for share in shares for ran in share.ran):
                    self.progress.count(phase, {busy_of(ran.device): math.ceil(ran.end - ran.begin)})

    def results(self) -> dict:
        """Cycles and bytes over links of a batch that doesn't calibrate, idle shares, and the speed-up.

        Devices without a clock have no shares; a run of one batch has none either. ``phases`` has the same by phase.
        """
        counters, counts = self.progress.counters, list(self.progress.batches)
        counts[WARMUP] -= 1
        assert self.expected is not None
        whole = self._shares(counters, sum(counts))
        expects = self.expected.speedup(self.progress.batches[GP] / sum(self.progress.batches), self._share_alone())
        speedup, kind, alone = expects, "as the cost model expects", None
        if self.alone is not None and whole["idle_shares"]:
            cycles = sum(count * self.alone[phase] for phase, count in enumerate(counts) if count)
            speedup, kind, alone = cycles / counters[PIPELINED], "measured", cycles / sum(counts)
        phases = {
            PHASE_NAMES[phase]: {"batches": count, **self._shares(self.progress.by_phase[phase], count)}
            for phase, count in enumerate(counts) if count
        }  # fmt: skip
        return {
            **whole, "phases": phases, "speedup": speedup, "speedup_is": kind, "one_device_cycles": alone,
            "expected_speedup": expects, "stages": [asdict(row) for row in self.expected.stages],
            "replica_saturations": counters.get(REPLICAS_CUT, 0),
        }  # fmt: skip

    def _share_alone(self) -> float:
        """Part of all epochs without stale weights, of a hybrid run."""
        epochs = self.settings.epochs
        return 0.0 if self.pipelined_epochs is None else max(0, epochs - self.pipelined_epochs) / epochs

    def _shares(self, counters: Mapping[str, int], batches: int) -> dict:
        """Cycles and bytes of a batch, and idle shares, from the counters of some batches."""
        cycles = counters.get(PIPELINED, 0)
        idle = [1 - counters[busy_of(place)] / cycles for place in range(self.n_devices)] if cycles else []
        return {
            "cycles_a_batch": cycles / max(1, batches), "link_bytes_a_batch": counters.get(LINKED, 0) / max(1, batches),
            "idle_shares": idle, "idle_share": sum(idle) / self.n_devices,
        }  # fmt: skip


def one_device_cycles(settings: TrainSettings, device: str, dataset: Dataset, updates: bool = False) -> dict[int, int]:
    """Cycles of a batch by phase on one device with the same micro-batches, without the one that calibrates.

    ``updates``: each micro-batch has its own, as a batch of its own has.
    """
    if updates:
        parts = settings.micro_batches
        apart = replace(settings, batch=settings.batch // parts, micro_batches=1)
        return {phase: parts * cycles for phase, cycles in one_device_cycles(apart, device, dataset).items()}
    short = replace(
        settings, epochs=1 + settings.predicts, train_images=2 * settings.batch, test_images=1, schedule="constant",
        learning_rate=_SLOW,
        warmup_epochs=1, phases="1:1", plateau_factor=TrainSettings.plateau_factor,
        plateau_patience=TrainSettings.plateau_patience, validation_fraction=TrainSettings.validation_fraction,
    )  # fmt: skip
    found: list[int] = []
    with open_session(short, device, dataset=dataset) as session:
        trainer = Trainer(short, session.network, session.device, session.dataset)

        def counted(progress, loss) -> None:
            trainer.read_counters()
            found.append(progress.by_phase[WARMUP]["cycles"])

        trainer.on_batch = counted
        by_phase = trainer.run().by_phase
    others = {phase: by_phase[phase]["cycles"] for phase in (BP, GP) if by_phase[phase]}
    return {WARMUP: found[1] - found[0], **others}
