"""The comparison: learning rates tuned for each method on validation images, then new seeds, on test images."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean

from .data import Splits
from .experiment_folder import ExperimentFolder
from .methods.methods import METHODS
from .regimes import Regime
from .runs import Run
from .workers import Ended, Told, data_of, run_all

__all__ = ["SEEDS", "TUNING_SEED", "Comparison", "Tuned", "tuned"]

TUNING_SEED = 1000
"""The first of those that learning rates are chosen by; none of them is reported."""
BEYOND = 4
"""So many learning rates at most are tried beyond a regime's."""
STEP = 3
"""Between a learning rate and the next."""
SEEDS = (0, 1, 2, 3, 4)
"""Seeds of the runs that are reported."""


@dataclass(frozen=True)
class Tuned:
    """A method's learning rate, whether it is the first or last of those that were tried, and how many these are."""

    lr: float
    validation: float
    at_edge: bool
    tried: int


def tuned(outcomes: Iterable[dict]) -> Tuned:
    """The learning rate with the best mean validation accuracy, of those with most runs; the lowest of equal ones."""
    by_lr = _validations(outcomes)
    most = max(map(len, by_lr.values()))
    best = _ranked({lr: found for lr, found in by_lr.items() if len(found) == most})[0]
    return Tuned(best, fmean(by_lr[best]), best in (min(by_lr), max(by_lr)), len(by_lr))


def _validations(outcomes: Iterable[dict]) -> dict[float, list[float]]:
    """Accuracies by learning rate; a run that diverged, which has none, counts as 0."""
    by_lr: dict[float, list[float]] = {}
    for outcome in outcomes:
        by_lr.setdefault(outcome["run"]["lr"], []).append(outcome["validation"] or 0)
    return by_lr


def _ranked(by_lr: Mapping[float, Sequence[float]]) -> list[float]:
    """Learning rates, the best first."""
    return sorted(sorted(by_lr), key=lambda lr: -fmean(by_lr[lr]))


@dataclass(frozen=True)
class Comparison:
    """Runs of a regime, kept in ``folder`` as they end: what is there isn't run again.

    ``data_folder``: of the data set's files, None for one that needs none.
    """

    regime: Regime
    data_folder: Path | None
    folder: ExperimentFolder
    methods: tuple[str, ...] = tuple(METHODS)
    seeds: tuple[int, ...] = SEEDS

    @cached_property
    def data(self) -> Splits:
        """The examples; raises DataError."""
        return data_of(self.regime, self.data_folder)

    def run(self, method: str, seed: int, lr: float) -> Run:
        """One of them."""
        r = self.regime
        return Run(r.name, r.model, method, seed, lr, r.epochs, r.batch_size, r.image_size, r.channels, device=r.device)

    @property
    def tuning_seeds(self) -> tuple[int, ...]:
        """Seeds of the runs that choose the learning rates."""
        return tuple(range(TUNING_SEED, TUNING_SEED + 2 * self.regime.tuning))

    def _tried(self, method: str) -> list[Run]:
        """With the regime's learning rates, and if the best of these is the first or last, with one beyond too, and so
        on; then the two best with as many seeds again: which is the better shows among seeds."""
        runs = self._first_look(method)
        if not all(map(self.folder.has, runs)):
            return runs
        finalists = _ranked(_validations(map(self.folder.read, runs)))[:2]
        return runs + [
            self.run(method, seed, lr) for lr in sorted(finalists) for seed in self.tuning_seeds[self.regime.tuning :]
        ]

    def _first_look(self, method: str) -> list[Run]:
        lrs = sorted(self.regime.lrs)
        while True:
            runs = [self.run(method, seed, lr) for lr in lrs for seed in self.tuning_seeds[: self.regime.tuning]]
            if len(lrs) == len(self.regime.lrs) + BEYOND or not all(map(self.folder.has, runs)):
                return runs
            best = tuned(map(self.folder.read, runs))
            if not best.at_edge:
                return runs
            beyond = best.lr / STEP if best.lr == lrs[0] else best.lr * STEP
            lrs = sorted([*lrs, float(f"{beyond:.2g}")])

    def tuning(self) -> list[Run]:
        """Every method with its learning rates, as far as they are known; when all have ended there can be more."""
        return [run for method in self.methods for run in self._tried(method)]

    def chosen(self) -> dict[str, Tuned]:
        """Learning rates, of runs that have ended."""
        return {method: tuned(map(self.folder.read, self._tried(method))) for method in self.methods}

    def reported(self) -> list[Run]:
        """Every method with its learning rate, of new seeds."""
        return [self.run(method, seed, choice.lr) for method, choice in self.chosen().items() for seed in self.seeds]

    def finish(self, runs: Sequence[Run], jobs: int, told: Told, ended: Ended = lambda *_: None) -> None:
        """Run those that haven't ended, see :func:`.workers.run_all`; RunError for a folder of another regime.

        Where all have, nothing of what they were run with is needed, nor looked at.
        """
        if all(map(self.folder.has, runs)):
            return
        with self.folder.in_use(self.regime):
            run_all(runs, self.regime, self.data, self.data_folder, self.folder, jobs, told, ended)
