"""int16 block floating point against fp32 PyTorch on equal terms: writes ``results/numerics.json``.

With ``--graphs`` it is networks with branches and batch norm (``results/numerics_graphs.json``). With ``--control``
these run in fp32 alone, from their weights and from weights ``MOVED`` a little: how far runs part that hardly differ.
int16's noise is larger, as it rounds in every batch (``results/numerics_control.json``).

Each pair of runs has the same initial weights, order of images, schedule and SGD. The learning rate is the one with
which fp32 does best on validation images, other seeds than those of the comparison: test images choose nothing.
A finished run is kept in ``build/bench_numerics``: a bench that was stopped goes on after the last one. A finished
case of ``--graphs`` or ``--control`` is in the results. ``--seeds 5-14`` makes a part of its own of other seeds, with
the learning rate that the results have.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path

import torch
from rich.progress import Progress

from ...gen.files import write_atomically
from ...gen.provenance import commit, provenance
from ...host.console import at_least_one, writable
from ...host.training.data import Dataset, load_dataset
from ...host.training.settings import TrainSettings
from ...host.training.sources import model_sources, training_sources
from ...spec.presets import preset
from ..instruments.paired_runs import digest, run_float, run_integer, validation
from ..instruments.results import FOLDER, merge_results, write_results

__all__ = ["CASES", "GRAPHS", "Case", "best_rate", "figures", "main"]

SEEDS = range(5)
TUNING_SEEDS = range(100, 103)
LEARNING_RATES = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2)
KINDS = ("fp32", "int16")
CONTROL = ("fp32", "moved")
MOVED = 2.0**-16
"""Part of each initial weight by which it is moved up or down, at random."""
WORK = Path("build/bench_numerics")
COMMAND = "python -m adagp.evaluation.benches.numerics --data-dir FOLDER_OF_DATA"


@dataclass(frozen=True)
class Case:
    """A comparison: its name, the settings of its runs but for seed and learning rate, and the rates to choose from."""

    name: str
    settings: dict = field(default_factory=dict)
    rates: tuple[float, ...] = LEARNING_RATES


CASES = (
    Case("digits", {"epochs": 8}),
    Case("fashion_lenet", {
        "model": "lenet", "data": "fashion-mnist", "epochs": 3, "train_images": 12_000,
    }),
    Case("fashion_vgg", {
        "model": "vgg-small", "data": "fashion-mnist", "epochs": 2, "train_images": 8_000,
    }),
)  # fmt: skip

GRAPHS = (
    Case("cifar_resnet20", {
        "model": "resnet20", "data": "cifar10", "epochs": 5, "train_images": 5_000, "batch": 64, "preset": "paper",
        "switches": "all",
    }, (0.05, 0.1, 0.2)),
    Case("cifar_mobilenet", {
        "model": "mobilenet-small", "data": "cifar10", "epochs": 5, "train_images": 2_500, "batch": 64,
        "preset": "paper", "switches": "all",
    }, (0.05, 0.1, 0.2)),
)  # fmt: skip


def best_rate(accuracies: dict[float, list[float]]) -> float:
    """The learning rate of the best mean accuracy, the smallest of them if there are several."""
    return max(sorted(accuracies), key=lambda rate: statistics.mean(accuracies[rate]))


def _run(name: str, kind: str, settings: TrainSettings, dataset: Dataset, source: str) -> dict:
    """The result of one run: that in its work file if sources and settings are the same, else a new one."""
    path = WORK / f"{name}-{kind}-{settings.seed}-{settings.learning_rate}.json"
    known = {**settings.to_dict(), "data_dir": None, "data": digest(dataset)}
    known |= {} if kind == "int16" else {"torch": torch.__version__}  # which computes nothing in int16
    known |= {"moved": MOVED} if kind == "moved" else {}
    sources = training_sources() if kind == "int16" else model_sources()
    if path.exists():
        record = json.loads(path.read_text())
        if record["settings"] == known and record["sources"] == sources:
            return record
    began = time.perf_counter()
    result = (
        run_integer(settings, dataset) if kind == "int16" else run_float(settings, dataset, known.get("moved", 0.0))
    )
    seconds = round(time.perf_counter() - began, 1)
    images = {"train_images": len(dataset.train_y_N[: settings.train_images]), "test_images": len(dataset.test_y_N)}
    record = {"settings": known, "sources": sources, "commit": source, "seconds": seconds, **images, **result}
    write_atomically(path, (json.dumps(record, indent=1) + "\n").encode())
    return record


def figures(runs: dict[str, dict[str, list[dict]]]) -> tuple[dict, dict]:
    """Figures and details of finished runs, given as lists over the seeds by case and its two kinds."""
    found: dict[str, float] = {}
    details: dict[str, dict] = {}
    for name, by_kind in runs.items():
        points = {kind: [100 * run["test_accuracy"] for run in given] for kind, given in by_kind.items()}
        deltas = [second - first for first, second in zip(*points.values(), strict=True)]
        found[f"{name}_delta_points"] = round(statistics.mean(deltas), 4)
        found[f"{name}_delta_std_points"] = round(statistics.stdev(deltas), 4)
        found[f"{name}_delta_sem_points"] = round(statistics.stdev(deltas) / math.sqrt(len(deltas)), 4)
        if "int16" in by_kind:
            found[f"{name}_saturated_fraction"] = _saturated(by_kind["int16"])
        for setting in ("train_images", "epochs", "learning_rate"):
            run = by_kind["fp32"][0]
            found[f"{name}_{setting}"] = run[setting] if setting in run else run["settings"][setting]
        details[name] = {
            "delta_points": [round(delta, 4) for delta in deltas],
            "std_points": {kind: round(statistics.stdev(each), 4) for kind, each in points.items()}, "runs": by_kind,
        }  # fmt: skip
        for kind, each in points.items():
            found[f"{name}_{kind}_accuracy"] = round(statistics.mean(each) / 100, 6)
    return found, details


def _saturated(runs: list[dict]) -> float:
    """Share of a case's results that saturated."""
    return sum(run["saturations"] for run in runs) / sum(run["results"] for run in runs)


def _tune(case: Case, settings: TrainSettings, dataset: Dataset, source: str, progress: Progress) -> dict:
    """Validation accuracies of fp32 by learning rate."""
    aside = validation(dataset, settings.train_images)
    accuracies: dict[float, list[float]] = {rate: [] for rate in case.rates}
    for rate in case.rates:
        for seed in TUNING_SEEDS:
            chosen = replace(settings, seed=seed, learning_rate=rate)
            accuracies[rate].append(_run(case.name, "validation", chosen, aside, source)["test_accuracy"])
            progress.advance(progress.task_ids[0])
    return accuracies


_held: list[Dataset] = []
"""The data set of a process that runs some of the runs."""


def _run_held(name: str, kind: str, settings: TrainSettings, source: str) -> None:
    torch.set_num_threads(1)
    _run(name, kind, settings, _held[0], source)


def _run_ahead(wanted: list[tuple], dataset: Dataset, jobs: int, progress: Progress) -> None:
    """Do the runs in ``jobs`` processes, which share the data set; each is kept when it is finished."""
    with ProcessPoolExecutor(jobs, get_context("fork"), _held.append, (dataset,)) as pool:
        futures = {pool.submit(_run_held, *one): one for one in wanted}
        for future in as_completed(futures):
            future.result()
            name, kind, settings, _ = futures[future]
            progress.print(f"{name} seed {settings.seed} {kind} is finished")


def compare(
    case: Case, kinds: tuple, folder: Path | None, source: str, progress: Progress, seeds: Sequence[int] = SEEDS,
    jobs: int = 1, tuning: dict | None = None,
) -> tuple[dict, dict]:  # fmt: skip
    """The runs of a case by kind; how its learning rate was found, as ``tuning`` says if it is given."""
    settings = TrainSettings(data_dir=None if folder is None else str(folder), **case.settings)
    dataset = load_dataset(settings.data, settings.data_path)
    if tuning is None:
        accuracies = _tune(case, settings, dataset, source, progress)
        tuning = {"learning_rate": best_rate(accuracies),
                  "validation_accuracies": {str(r): a for r, a in accuracies.items()}}  # fmt: skip
    rate = tuning["learning_rate"]
    progress.print(f"{case.name}: learning rate {rate}")
    if jobs > 1:
        longest_first = [(case.name, kind, replace(settings, seed=seed, learning_rate=rate), source)
                         for kind in reversed(kinds) for seed in seeds]  # fmt: skip
        _run_ahead(longest_first, dataset, jobs, progress)
    runs: dict[str, list[dict]] = {kind: [] for kind in kinds}
    for seed in seeds:
        for kind in kinds:
            chosen = replace(settings, seed=seed, learning_rate=rate)
            record = _run(case.name, kind, chosen, dataset, source)
            runs[kind].append(record)
            accuracy, seconds = 100 * record["test_accuracy"], record["seconds"]
            progress.print(f"{case.name} seed {seed} {kind}: {accuracy:.2f} % in {seconds} s")
            progress.advance(progress.task_ids[0])
    return runs, tuning


def _seeds(text: str) -> range:
    """The seeds of ``FIRST-LAST``, two at least."""
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal() and int(first) < int(last)):
        raise argparse.ArgumentTypeError(f"{text!r} isn't FIRST-LAST with two seeds at least, as 5-14")
    return range(int(first), int(last) + 1)


def _tuned(path: Path, name: str) -> dict | None:
    """The tuning of a case's learning rate in the results; None if they don't have the case."""
    known = json.loads(path.read_text())["details"] if path.exists() else {}
    return known[name]["details"]["tuning"] if name in known else None


def main() -> None:
    """Entry point of ``nox -s bench_numerics``."""
    parser = argparse.ArgumentParser(prog="python -m adagp.evaluation.benches.numerics", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder with Fashion-MNIST's or CIFAR-10's files")
    parser.add_argument("--graphs", action="store_true", help="networks with branches and batch norm, on CIFAR-10")
    parser.add_argument("--control", action="store_true", help="these networks in fp32, from weights hardly moved")
    parser.add_argument("--output", type=writable, help="default: results/numerics.json, numerics_graphs.json, ...")
    parser.add_argument("--fresh", action="store_true", help="forget the runs of a bench that was stopped")
    parser.add_argument("--cases", nargs="+", choices=[case.name for case in GRAPHS], metavar="NAME",
                        help="with --graphs or --control: of %(choices)s (default: all)")  # fmt: skip
    parser.add_argument("--seeds", type=_seeds, default=SEEDS, metavar="FIRST-LAST",
                        help="with --graphs or --control (default: 0-4)")  # fmt: skip
    parser.add_argument("--jobs", type=at_least_one, default=1, help="processes (default: %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.fresh:
        for path in WORK.glob("*.json"):
            path.unlink()
    option = "control" if arguments.control else "graphs" if arguments.graphs else ""
    seeds = arguments.seeds
    if not option and (arguments.cases or seeds != SEEDS):
        parser.error("--cases and --seeds need --graphs or --control")
    cases = [case for case in GRAPHS if case.name in (arguments.cases or case.name)] if option else CASES
    kinds, source = CONTROL if arguments.control else KINDS, commit()
    path = arguments.output or FOLDER / f"numerics{f'_{option}' * bool(option)}.json"
    config = preset(TrainSettings(**cases[0].settings).preset)
    other = "" if seeds == SEEDS else f"{seeds[0]}-{seeds[-1]}"
    said = f" --{option}" * bool(option) + f" --seeds {other}" * bool(other)
    origin = provenance(COMMAND + said, config, list(seeds), source)
    found: dict[str, float] = {}
    details: dict[str, dict] = {}
    with Progress() as progress:
        total = sum(len(case.rates) * len(TUNING_SEEDS) * (not other) + len(seeds) * len(kinds) for case in cases)
        progress.add_task("runs", total=total)
        for case in cases:
            known = _tuned(path, case.name) if other else None
            if other and known is None:
                parser.error(f"--seeds: {path} doesn't have {case.name} with the usual seeds, nor a learning rate")
            runs, tuning = compare(case, kinds, arguments.data_dir, source, progress, seeds, arguments.jobs, known)
            part = case.name + f"_seeds_{other}".replace("-", "_") * bool(other)
            of_case, about = figures({part: runs})
            found, details = found | of_case, details | {part: about[part] | {"tuning": tuning}}
            if option:
                merge_results(path, part, of_case, details[part], origin)
    if not option:
        found["saturated_fraction"] = max(found[f"{case.name}_saturated_fraction"] for case in cases)
        write_results(path, found, details, origin)
    for figure, value in found.items():
        print(f"{figure}: {value}")


if __name__ == "__main__":
    main()
