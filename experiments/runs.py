"""One training run: a network, a data set, a method, a seed; it can stop behind any epoch and go on."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn

from ..gen.cache import digest
from ..golden.training import AdaGP
from .costs import BatchCosts, batch_costs
from .data import Batches, Splits
from .dni import Dni
from .methods import METHODS, Method
from .models import build
from .tasks import CLASSIFICATION, Task

__all__ = ["Outcome", "Run", "execute"]

Progress = Callable[[int, int, float], None]
"""Told batches that are over, batches in all, and the last loss."""


@dataclass(frozen=True)
class Run:
    """What decides how a run ends; ``epochs`` are those of a method with the whole share.

    The learning rate falls from ``lr`` to 0 along half a cosine, over the batches of the run.
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
    momentum: float = 0.9
    weight_decay: float = 5e-4

    @property
    def identity(self) -> str:
        """What tells it from others."""
        return f"{self.regime}-{self.method}-{self.lr:g}-{self.seed}-{digest(repr(asdict(self)))[:8]}"


@dataclass(frozen=True)
class Outcome:
    """``validation`` and ``test``: in percent, at the end (nan where training diverged: chance, then).

    ``macs``: of all batches, see :mod:`.costs`; ``batches``: by phase; ``quality``: rows of predictions' metrics.
    """

    run: Run
    validation: float
    test: float
    macs: int
    batches: dict[str, int]
    losses: list[float]
    quality: list[dict]


def _trainer(run: Run, method: Method, network, optimizer, n_classes: int):
    epochs = max(1, round(run.epochs * method.share))
    table = method.schedule(epochs)
    if method.source == "dni":
        return epochs, Dni(network, optimizer, table, n_classes, seed=run.seed)
    return epochs, AdaGP(network, optimizer, table, predictor=method.predictor, source=method.source, gate=method.gate,
                         metrics=bool(method.entries), seed=run.seed)  # fmt: skip


def execute(
    run: Run, data: Splits, progress: Progress = lambda *_: None, task: Task = CLASSIFICATION,
    folder: Path | None = None,
) -> Outcome:  # fmt: skip
    """Train and evaluate; with a ``folder`` every epoch leaves a state in it, from which the next call goes on."""
    method = METHODS[run.method]
    network = build(run.model, data.n_classes, run.image_size, run.seed, channels=run.channels)
    optimizer = torch.optim.SGD(network.parameters(), run.lr, momentum=run.momentum, weight_decay=run.weight_decay)
    epochs, trainer = _trainer(run, method, network, optimizer, data.n_classes)
    n_batches = len(Batches(data.train, run.batch_size, run.seed, 0))
    total = epochs * n_batches
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: (1 + math.cos(math.pi * n / total)) / 2)
    parts = {"network": network, "optimizer": optimizer, "rates": rates, "trainer": trainer}
    state = folder / f"{run.identity}.pt" if folder else None
    begun, phases, losses = _restore(state, parts)
    network.train()
    for epoch in range(begun, epochs):
        loss = losses[-1] if losses else math.nan
        for batch in trainer.epoch(Batches(data.train, run.batch_size, run.seed, epoch)):
            made = _step(trainer, task, network, batch)
            loss = float(made) if made is not None else loss
            name = trainer.phase.name.lower()
            phases[name] = phases.get(name, 0) + 1
            if rates.last_epoch + 1 < total:
                rates.step()
            progress(sum(phases.values()), total, loss)
        losses.append(loss)
        if state:
            _save(state, parts, epoch + 1, phases, losses)
        if not math.isfinite(loss):
            break
    costs = batch_costs(network, lambda net: task.loss(net, next(iter(_first(data, run)))), method.predictor)
    finite = all(parameter.isfinite().all() for parameter in network.parameters())
    score = (lambda examples: task.score(network, examples)) if finite else (lambda _: math.nan)
    rows = trainer.metrics.rows if isinstance(trainer, AdaGP) and trainer.metrics else []
    return Outcome(run, score(data.validation), score(data.test), _macs(costs, method, phases), phases, losses, rows)


def _first(data: Splits, run: Run) -> Batches:
    return Batches(data.train, run.batch_size, run.seed, 0, shuffle=False)


def _step(trainer, task: Task, network: nn.Module, batch):
    if isinstance(trainer, Dni):
        return trainer.step(lambda: task.loss(network, batch), task.labels(batch))
    return trainer.step(lambda: task.loss(network, batch))


def _macs(costs: BatchCosts, method: Method, phases: dict[str, int]) -> int:
    if not method.entries:
        return costs.bp * sum(phases.values())
    source = method.source
    return sum(costs.of(phase, source) * count for phase, count in phases.items())


def _save(path: Path, parts: dict, epoch: int, phases: dict, losses: list) -> None:
    scratch = path.with_suffix(".new")
    torch.save({"epoch": epoch, "phases": phases, "losses": losses,
                "parts": {name: part.state_dict() for name, part in parts.items()}}, scratch)  # fmt: skip
    scratch.replace(path)


def _restore(path: Path | None, parts: dict) -> tuple[int, dict[str, int], list[float]]:
    if path is None or not path.exists():
        return 0, {}, []
    saved = torch.load(path)
    for name, part in parts.items():
        part.load_state_dict(saved["parts"][name])
    return saved["epoch"], saved["phases"], saved["losses"]
