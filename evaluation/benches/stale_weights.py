"""Accuracy with stale weights beside undelayed training, and their memory: writes ``results/stale_weights.json``.

Small networks are trained undelayed (``bp-1``) and pipelined without a flush: cut after the first layer
(``stale-early``), before each layer of the first half (``stale-half``), before every layer or block (``stale-deep``),
the last also by 1F1B (``stale-1f1b``), with old weights kept as in PipeDream (``stale-stash``), and for the first half
of the epochs alone (``stale-hybrid``). Each has the learning rate with which it does best on validation images with a
seed of its own; test accuracies are of other seeds. ``drop_METHOD_NETWORK``: points below ``bp-1``, seed by seed, with
the standard error ``drop_error_``. A run that diverged counts as 0. ``diverged_``: such runs.

``memory_SCHEME_NETWORK``: bytes of weights and activations that all stages of ``stale-deep`` hold at once, by formula;
``counted_``: the same counted in a short run.

A finished run is kept in ``build/bench_stale_weights``: a bench that was stopped goes on, by epochs.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from rich.table import Table

from ...algorithm.stale_weights import StageMemory
from ...experiments.data import Batches, DataError, Splits
from ...experiments.experiment_folder import ExperimentFolder
from ...experiments.methods.methods import STALE_METHODS, Pipelining
from ...experiments.methods.stale import Stale, expected_memory
from ...experiments.networks.models import build
from ...experiments.preparation import prepared, some
from ...experiments.progress import RunsProgress
from ...experiments.runs import Run
from ...experiments.workers import run_all
from ...gen.provenance import commit, provenance
from ...host.console import at_least_one, screen, writable
from ..instruments.results import FOLDER, merge_results

__all__ = ["CASES", "Case", "chosen", "counted", "figures_of", "main", "memory_figures"]

COMMAND = "python -m adagp.evaluation.benches.stale_weights"
WORK = Path("build/bench_stale_weights")
UNDELAYED, DEEP = "bp-1", "stale-deep"
METHODS = (UNDELAYED, *STALE_METHODS)
TUNING_SEED = 1000
"""Chooses the learning rates, and is not reported."""
HELD_BACK = 2000
"""Images to validate and to test with."""


@dataclass(frozen=True)
class Case:
    """A network, its images and its training."""

    model: str
    data: str
    folder: str
    image_size: int
    channels: int
    images: int
    epochs: int
    lrs: tuple[float, ...]
    methods: tuple[str, ...] = METHODS
    batch: int = 32
    augment: bool = False
    threads: int = 1
    follow: bool = False

    def deciding(self) -> dict[str, Any]:
        """Settings that outcomes share, PyTorch included; methods and learning rates may be added."""
        mine = {name: value for name, value in asdict(self).items() if name not in ("methods", "lrs", "folder")}
        return {**mine, "held_back": HELD_BACK, "torch": torch.__version__}

    def run(self, method: str, seed: int, lr: float) -> Run:
        """One training."""
        return Run("stale", self.model, method, seed, lr, self.epochs, self.batch, self.image_size, self.channels)

    def examples(self, data_dir: Path) -> Splits:
        """The images; raises DataError."""
        splits = prepared(self.data, data_dir / self.folder, size=self.image_size, images=self.images)
        parts = {name: getattr(splits, name) for name in ("validation", "test")}
        return replace(splits, **{
            name: some(part, min(HELD_BACK, len(part)), 0) for name, part in parts.items()
        })  # fmt: skip


RATES = (0.0007, 0.002, 0.007, 0.02, 0.06)
FEW = (UNDELAYED, "stale-early", DEEP, "stale-hybrid")
CASES = {case.model: case for case in (
    Case("lenet5", "fashion-mnist", "fashion", 28, 1, 2000, 6, RATES),
    Case("small-vgg", "cifar10", "", 16, 3, 2000, 5, RATES, FEW),
    Case("resnet20", "cifar10", "", 16, 3, 1500, 4, RATES, FEW),
)}  # fmt: skip
"""By network. Learning rates with momentum 0.9; the seed's own aren't known."""


def chosen(outcomes: Sequence[dict]) -> float:
    """The learning rate with the best validation accuracy, the lowest of equal ones; divergence counts as 0."""
    best = max(outcomes, key=lambda one: (one["validation"] or 0, -one["run"]["lr"]))
    lr: float = best["run"]["lr"]
    return lr


def figures_of(name: str, outcomes: dict[str, Sequence[dict]]) -> dict[str, float | int]:
    """Accuracies in percent and drops in points of a network, from runs of the same seeds by method."""
    tests = {method: [one["test"] or 0.0 for one in found] for method, found in outcomes.items()}
    figures: dict[str, float | int] = {f"seeds_{name}": len(tests[UNDELAYED])}
    for method, values in tests.items():
        end = f"{method}_{name}"
        figures[f"accuracy_{end}"] = round(fmean(values), 3)
        figures[f"diverged_{end}"] = sum(one["test"] is None for one in outcomes[method])
        figures[f"lr_{end}"] = outcomes[method][0]["run"]["lr"]
        if method == UNDELAYED:
            continue
        drops = [plain - value for plain, value in zip(tests[UNDELAYED], values, strict=True)]
        figures[f"drop_{end}"] = round(fmean(drops), 3)
        if len(drops) > 1:
            figures[f"drop_error_{end}"] = round(stdev(drops) / sqrt(len(drops)), 3)
    return figures


def counted(case: Case, pipelining: Pipelining, splits: Splits, lr: float = 1e-3) -> list[tuple[int, int]]:
    """By stage, the most bytes of activations and versions of weights in a run that fills the pipeline."""
    network = build(case.model, splits.n_classes, case.image_size, channels=case.channels)
    trainer = Stale(pipelining, network, torch.optim.SGD(network.parameters(), lr), 1)
    batch = next(iter(Batches(splits.train, case.batch, 0, 0)))
    for _ in range(2 * trainer.delays[0] + 1):
        trainer.step(*batch)
    trainer.drain()
    return trainer.peaks


def memory_figures(name: str, rows: Sequence[StageMemory], peaks: dict[str, list[tuple[int, int]]]) -> dict[str, int]:
    """Bytes of all stages, by formula and counted; ``peaks``: of a run with stale weights and of one with a stash."""
    weights, held, stashed = (sum(getattr(row, what) for row in rows) for what in ("weights", "held", "stashed"))
    figures = {
        f"missed_most_{name}": max(row.missed for row in rows),
        f"memory_stale_{name}": weights + held,
        f"memory_pipedream_{name}": weights + held + stashed,
    }
    for scheme, found in peaks.items():
        figures[f"counted_{scheme}_{name}"] = sum(
            activations + versions * row.weights for row, (activations, versions) in zip(rows, found, strict=True)
        )
    return figures


def _memory(case: Case, splits: Splits) -> tuple[dict[str, int], list[dict]]:
    """Figures and rows of the deep cut, also shown."""
    network = build(case.model, splits.n_classes, case.image_size, channels=case.channels)
    pipelining = STALE_METHODS[DEEP].pipelining
    assert pipelining
    images, _ = next(iter(Batches(splits.train, case.batch, 0, 0)))
    rows = expected_memory(network, pipelining, images)
    shown = Table("stage", "updates missed", "weights, bytes", "activations held, bytes", "PipeDream's old weights",
                  title=f"{case.model}, {DEEP}")  # fmt: skip
    for number, row in enumerate(rows):
        shown.add_row(str(number), *(f"{value:,}" for value in (row.missed, row.weights, row.held, row.stashed)))
    screen.print(shown)
    peaks = {scheme: counted(case, replace(pipelining, stash=scheme == "pipedream"), splits)
             for scheme in ("stale", "pipedream")}  # fmt: skip
    return memory_figures(case.model, rows, peaks), [asdict(row) for row in rows]


def _trained(
    case: Case, seeds: int, splits: Splits, data_dir: Path, work: Path
) -> tuple[dict[str, Sequence[dict]], list]:
    """Outcomes of the seeds by method, and of the runs that chose the learning rates."""
    folder = ExperimentFolder(work / case.model)
    tuning = {m: [case.run(m, TUNING_SEED, lr) for lr in case.lrs] for m in case.methods}
    n_runs = sum(len(runs) for runs in tuning.values()) + seeds * len(case.methods)

    def run(runs: list[Run]) -> None:
        ended = sum(folder.has(one) for one in every)
        with RunsProgress(screen, ended, n_runs) as shown:
            run_all(runs, case, splits, data_dir, folder, 1, shown.told, shown.ended)

    with folder.in_use(case):
        every = [one for runs in tuning.values() for one in runs]
        run(list(every))
        lrs = {method: chosen([folder.read(one) for one in runs]) for method, runs in tuning.items()}
        reported = {m: [case.run(m, seed, lrs[m]) for seed in range(seeds)] for m in case.methods}
        every += [runs[seed] for seed in range(seeds) for runs in reported.values()]
        run(every[-seeds * len(case.methods) :])
        found: dict[str, Sequence[dict]] = {m: [folder.read(one) for one in runs] for m, runs in reported.items()}
        return found, [folder.read(one) for runs in tuning.values() for one in runs]


def _short(outcomes: Sequence[dict]) -> list[dict]:
    return [{"method": one["run"]["method"], "seed": one["run"]["seed"], "lr": one["run"]["lr"],
             **{name: one[name] for name in ("validation", "test", "losses")}} for one in outcomes]  # fmt: skip


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )  # fmt: skip
    parser.add_argument("--data-dir", type=Path, required=True, metavar="FOLDER",
                        help="CIFAR-10's files, and in its folder fashion those of Fashion-MNIST")  # fmt: skip
    parser.add_argument("--networks", nargs="+", choices=CASES, default=list(CASES), help="default: all")
    parser.add_argument("--seeds", type=at_least_one, default=5, help="reported (default: %(default)s)")
    parser.add_argument("-o", "--output", type=writable, default=FOLDER / "stale_weights.json")
    return parser


def main(
    argv: Sequence[str] | None = None, work: Path = WORK, cases: dict[str, Case] = CASES,
    told: Callable[[str], object] = print,
) -> None:  # fmt: skip
    """Entry point of ``nox -s bench_stale_weights``."""
    parser = _parser()
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    source = commit()
    for name in options.networks:
        case = cases[name]
        try:
            splits = case.examples(options.data_dir)
        except DataError as error:
            parser.exit(2, f"error: {error}\n")
        memory, rows = _memory(case, splits)
        outcomes, tuning = _trained(case, options.seeds, splits, options.data_dir, work)
        figures = {**figures_of(name, outcomes), **memory}
        details = {"case": asdict(case), "memory": rows, "tuning": _short(tuning),
                   "runs": [one for found in outcomes.values() for one in _short(found)]}  # fmt: skip
        seeds = list(range(options.seeds))
        origin = provenance(f"{COMMAND} --data-dir FOLDER", None, seeds, source, "library")
        merge_results(options.output, name, figures, details, origin)
        for figure, value in figures.items():
            told(f"{figure}: {value}")


if __name__ == "__main__":
    main()
