"""The comparison: learning rates tuned for each method on validation images, then new seeds, on test images."""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import torch

from .methods import METHODS
from .regimes import REGIMES, Regime
from .runs import Outcome, Run, execute

__all__ = ["SEEDS", "TUNING_SEEDS", "Protocol", "Tuned", "tuned"]

TUNING_SEEDS = (1000, 1001)
"""Of the runs that learning rates are chosen by."""
SEEDS = (0, 1, 2, 3, 4)
"""Of the runs that are reported."""


@dataclass(frozen=True)
class Tuned:
    """A method's learning rate, and whether it is the first or last of those that were tried."""

    lr: float
    validation: float
    at_edge: bool


def tuned(outcomes: Iterable[dict], lrs: Sequence[float]) -> Tuned:
    """The learning rate with the best mean validation accuracy; a run that diverged counts as 0."""
    by_lr: dict[float, list[float]] = {}
    for outcome in outcomes:
        value = outcome["validation"]
        by_lr.setdefault(outcome["run"]["lr"], []).append(value if math.isfinite(value) else 0)
    best = max(by_lr, key=lambda lr: sum(by_lr[lr]) / len(by_lr[lr]))
    return Tuned(best, sum(by_lr[best]) / len(by_lr[best]), best in (min(lrs), max(lrs)))


@dataclass(frozen=True)
class Protocol:
    """Runs of a regime, kept in ``folder`` as they end: what is there isn't run again."""

    regime: Regime
    data_folder: Path | None
    folder: Path
    methods: tuple[str, ...] = tuple(METHODS)
    seeds: tuple[int, ...] = SEEDS

    def run(self, method: str, seed: int, lr: float) -> Run:
        """One of them."""
        r = self.regime
        return Run(r.name, r.model, method, seed, lr, r.epochs, r.batch_size, r.size, r.channels)

    def tuning(self) -> list[Run]:
        """Every method with every learning rate."""
        return [self.run(m, seed, lr) for m in self.methods for lr in self.regime.lrs for seed in TUNING_SEEDS]

    def chosen(self) -> dict[str, Tuned]:
        """Learning rates, of runs that have ended."""
        return {
            method: tuned(
                [self.read(self.run(method, seed, lr)) for lr in self.regime.lrs for seed in TUNING_SEEDS],
                self.regime.lrs,
            )
            for method in self.methods
        }

    def reported(self) -> list[Run]:
        """Every method with its learning rate, of new seeds."""
        return [self.run(method, seed, choice.lr) for method, choice in self.chosen().items() for seed in self.seeds]

    def _path(self, run: Run) -> Path:
        return self.folder / run.regime / f"{run.identity}.json"

    def read(self, run: Run) -> dict:
        """The outcome of a run that has ended."""
        found: dict = json.loads(self._path(run).read_text())
        return found

    def finish(self, runs: Sequence[Run], jobs: int, told: Callable[[int, int], None]) -> None:
        """Run those that haven't ended, ``jobs`` at a time; ``told`` is given how many have, and how many there are."""
        left = [run for run in runs if not self._path(run).exists()]
        told(len(runs) - len(left), len(runs))
        if not left:
            return
        with ProcessPoolExecutor(jobs, get_context("spawn"), _prepare, (self.regime.name, self.data_folder)) as pool:
            futures = {pool.submit(_execute, run): run for run in left}
            for number, future in enumerate(as_completed(futures), 1):
                self._write(futures[future], future.result())
                told(len(runs) - len(left) + number, len(runs))

    def _write(self, run: Run, outcome: Outcome) -> None:
        path = self._path(run)
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(".new")
        scratch.write_text(json.dumps(asdict(outcome)) + "\n")
        scratch.replace(path)


_data: dict = {}


def _prepare(regime: str, folder: Path | None) -> None:
    torch.set_num_threads(1)
    _data["splits"] = REGIMES[regime].prepare(folder)


def _execute(run: Run) -> Outcome:
    return execute(run, _data["splits"])
