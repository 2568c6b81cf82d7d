"""One training run: a network, a data set, a method, a seed; it can stop behind any epoch and go on."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils import convert_conv2d_weight_memory_format

from ..algorithm import AdaGP
from ..algorithm.schedules import phase_name
from ..gen.cache import digest
from ..spec.schedule import PREDICTING
from .data import Batches, Splits
from .methods.costs import BatchCosts, batch_costs
from .methods.deferred import Deferred
from .methods.dni import Dni
from .methods.half_resolution import halved
from .methods.ideas import IDEAS, Idea
from .methods.methods import ALL_METHODS, Method
from .methods.optimisation import MOMENTUM, WEIGHT_DECAY, Rates, autocast, optimizer, scaler
from .methods.stale import Stale
from .networks.models import build
from .run_state import History, restore, save
from .tasks import CLASSIFICATION, Task, moved

__all__ = ["Outcome", "Run", "Standing", "execute", "network_of"]


@dataclass(frozen=True)
class Run:
    """Everything but the examples that decides how a run ends; ``epochs`` are those of a method with the whole share.

    ``regime``: its name, or the data set's where there is none.

    ``optimizer``, ``lr_schedule``, ``device``, ``autocast``: see :mod:`.optimisation`. ``image_size`` is 0 where there
    are no images.
    """

    regime: str
    model: str
    method: str
    seed: int
    lr: float
    epochs: int
    batch_size: int
    image_size: int
    channels: int
    momentum: float = MOMENTUM
    weight_decay: float = WEIGHT_DECAY
    optimizer: str = "sgd"
    lr_schedule: str = "cosine"
    device: str = "cpu"
    autocast: str = "off"

    @property
    def identity(self) -> str:
        """A name that tells the run from all others."""
        return f"{self.regime}-{self.method}-{self.lr:g}-{self.seed}-{digest(repr(self))[:8]}"


@dataclass(frozen=True)
class Standing:
    """The state of a run under way: batches done and in all; epochs; the last loss and validation score."""

    done: int
    total: int
    epoch: int
    epochs: int
    loss: float
    score: float


Progress = Callable[[Standing], object]


@dataclass(frozen=True)
class Outcome:
    """``validation`` and ``test``: in percent, at the end, nan where training diverged.

    ``batches``: by phase, those too that a run that diverged didn't come to; ``macs``: of all these, see :mod:`.costs`,
    and ``whole``: what those of plain training would be for all epochs; ``quality``: rows of predictions' metrics.
    ``validations``, ``validation_losses``: by epoch, where they are followed. ``measures``: of the test part, see
    :meth:`.tasks.Task.measures`, likewise.
    """

    run: Run
    validation: float
    test: float
    macs: int
    batches: dict[str, int]
    losses: list[float]
    quality: list[dict]
    whole: int = 0
    validations: list[float] = field(default_factory=list)
    validation_losses: list[float] = field(default_factory=list)
    measures: dict[str, float] = field(default_factory=dict)


def network_of(run: Run, data: Splits) -> nn.Module:
    """The run's network as it begins; raises NetworkError."""
    if run.image_size:
        return build(run.model, data.n_classes, run.image_size, run.seed, channels=run.channels)
    return build(run.model, data.n_classes, None, run.seed, source_words=len(data.train.source_words))


def execute(
    run: Run, data: Splits, progress: Progress = lambda _: None, task: Task = CLASSIFICATION,
    folder: Path | None = None, *, follow: bool = False,
) -> Outcome:  # fmt: skip
    """Train and evaluate; with a ``folder`` every epoch leaves a state in it, from which the next call goes on.

    ``follow``: evaluate behind each epoch, and measure all that the task knows at the end. Outcomes depend on nothing
    but the arguments; PyTorch's generators stay as they are. Raises RunError for a state that isn't whole.
    """
    with torch.random.fork_rng([torch.cuda.current_device()] if run.device == "cuda" else []):
        torch.manual_seed(run.seed)  # of dropout
        training = _Training(run, data, task, follow or run.lr_schedule == "plateau")
        training.train(progress, folder / f"{run.identity}.pt" if folder else None)
        return training.outcome(follow)


class _Training:
    """A run's parts while it is under way."""

    def __init__(self, run: Run, data: Splits, task: Task, follow: bool):
        self.run, self.data, self.task, self._follow = run, data, task, follow
        self.method = ALL_METHODS[run.method]
        self.network = network_of(run, data).to(run.device)
        if run.device == "cpu":  # the same numbers but for rounding, sooner
            convert_conv2d_weight_memory_format(self.network, torch.channels_last)
        self.optimizer = optimizer(run.optimizer, self.network.parameters(), run.lr, run.momentum, run.weight_decay)
        self.epochs = max(1, round(run.epochs * self.method.share))
        self.n_batches = len(self._batches(0))
        self.rates = Rates(run.lr_schedule, self.optimizer, self.epochs * self.n_batches)
        self.autocast = autocast(run.autocast, run.device)
        self.scaler = scaler(run.autocast, run.device)
        self.trainer = self._trainer()
        self.history = History()

    def _trainer(self) -> AdaGP | Dni | Idea | Stale:
        method, run = self.method, self.run
        if method.pipelining:
            return Stale(method.pipelining, self.network, self.optimizer, self.epochs)
        table = method.schedule(self.epochs)
        if method.source in IDEAS:
            return Idea(method.source, self.network, self.optimizer, table, seed=run.seed)
        if method.source == "dni":
            return Dni(self.network, self.optimizer, table, self.data.n_classes, seed=run.seed)
        make = Deferred if method.deferred else partial(AdaGP, gp_momentum=method.gp_momentum)
        return make(
            self.network, self.optimizer, table, predictor=method.predictor, source=method.source, gate=method.gate,
            metrics=method.source in PREDICTING, scaler=self.scaler, predictor_every=method.every, seed=run.seed,
        )  # fmt: skip

    def _batches(self, epoch: int, shuffle: bool = True) -> Batches:
        return Batches(self.data.train, self.run.batch_size, self.run.seed, epoch, shuffle=shuffle)

    def train(self, progress: Progress, state: Path | None) -> None:
        """From the state, if there is one, to the end; training whose weights aren't finite any more ends with its
        epoch."""
        parts = {"network": self.network, "optimizer": self.optimizer, "rates": self.rates, "trainer": self.trainer}
        if self.scaler:
            parts["scaler"] = self.scaler
        begun, self.history = restore(state, parts)
        self.network.train()
        for epoch in range(begun, self.epochs):
            if not self._finite():
                break
            self.history.losses.append(self._epoch(epoch, progress))
            self._evaluate()
            progress(self._standing(epoch, self.history.losses[-1]))
            if state:
                save(state, parts, epoch + 1, self.history)

    def _epoch(self, epoch: int, progress: Progress) -> float:
        """Train for an epoch; returns its last loss."""
        phases, losses = self.history.phases, self.history.losses
        loss = losses[-1] if losses else math.nan
        for batch in self.trainer.epoch(self._batches(epoch)):
            made = self._step(moved(batch, torch.device(self.run.device)))
            loss = float(made) if made is not None else loss
            name = phase_name(self.trainer.phase)
            phases[name] = phases.get(name, 0) + 1
            self.rates.after_batch()
            progress(self._standing(epoch, loss))
        return loss

    def _step(self, batch):
        def compute(batch=batch):
            with self.autocast():
                return self.task.loss(self.network, batch)

        if isinstance(self.trainer, Idea):
            return self.trainer.step(compute, batch)
        if isinstance(self.trainer, Stale):
            return self.trainer.step(*batch)
        if isinstance(self.trainer, Dni):
            assert self.task.labels
            return self.trainer.step(compute, self.task.labels(batch))
        return self.trainer.step(compute)

    def _standing(self, epoch: int, loss: float) -> Standing:
        done = sum(self.history.phases.values())
        score = self.history.validations[-1] if self.history.validations else math.nan
        return Standing(done, self.epochs * self.n_batches, epoch + 1, self.epochs, loss, score)

    def _finite(self) -> bool:
        return all(parameter.isfinite().all() for parameter in self.network.parameters())

    def _evaluate(self) -> None:
        if not self._follow:
            return
        here = self.task.score_and_loss(self.network, self.data.validation) if self._finite() else (math.nan, math.nan)
        self.history.validations.append(here[0])
        self.history.validation_losses.append(here[1])
        self.rates.after_epoch(here[1])

    def outcome(self, follow: bool) -> Outcome:
        """At the end."""
        network, task, history, data = self.network, self.task, self.history, self.data
        device = torch.device(self.run.device)
        first = moved(next(iter(self._batches(0, shuffle=False))), device)
        costs = batch_costs(network, lambda net: task.loss(net, first), self.method.predictor)
        if self.method.source == "coarse":
            costs = replace(costs, halved=self._halved(first))
        finite = self._finite()
        validation, test = (
            task.score(network, part) if finite else math.nan for part in (data.validation, data.test)
        )  # fmt: skip
        phases = history.phases if finite else self.method.planned(self.epochs, self.n_batches)
        rows = self.trainer.metrics.rows if isinstance(self.trainer, AdaGP) and self.trainer.metrics else []
        return Outcome(
            self.run, validation, test, _macs(costs, self.method, phases), phases, history.losses, rows,
            costs.bp * self.run.epochs * self.n_batches, history.validations, history.validation_losses,
            task.measures(network, data.test) if follow and finite else {},
        )  # fmt: skip

    def _halved(self, batch) -> int:
        """MACs of a batch of plain training, with halved images."""
        assert isinstance(self.trainer, Idea)
        small = halved(batch[0]), *batch[1:]
        with self.trainer.halving:
            return batch_costs(self.network, lambda net: self.task.loss(net, small), self.method.predictor).bp


def _macs(costs: BatchCosts, method: Method, phases: dict[str, int]) -> int:
    if not method.entries:
        return costs.bp * sum(phases.values())
    whole = sum(costs.of(phase, method.source) * count for phase, count in phases.items())
    true = sum(count for phase, count in phases.items() if phase != "gp")
    untaught = true - -(-true // method.every)
    return whole - untaught * (costs.of("bp", method.source) - costs.bp)
