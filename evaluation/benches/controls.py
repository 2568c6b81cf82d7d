"""Predicted gradients against controls, at what each costs: writes ``results/controls.json``.

All methods train the same network on the same images by the golden model, and the schedule of phases is the same for
all that have one; they differ in what a GP batch does. ``bp`` has none. ``bp_fewer`` is ``bp`` for as many whole epochs
as cost no more than ``predicted`` does, ``bp_more`` for as many as cost no less: ``bp`` at equal cost lies between the
two. Each method has the learning rate with which it does best on validation images, one seed of its own choosing it:
test images choose nothing. ``details.methods.*.validation_accuracies`` tell whether that rate is one between others.

A method's cost is its number of batches by phase times the cycles of such a batch on the simulated RTL: of the
baseline where there are true gradients only, else of MAX, the fastest design, which has more PEs:
``cost_predicted_low`` and ``cost_predicted_efficient`` are of ``predicted`` on designs with as many as the baseline.

A finished run is kept in ``build/bench_controls``: a bench that was stopped goes on after the last one.
"""

import argparse
import json
import math
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ...gen.files import write_atomically
from ...gen.provenance import commit, provenance
from ...host.console import at_least_one, writable
from ...host.training.data import Dataset, load_dataset
from ...host.training.inference import evaluate
from ...host.training.session import open_session
from ...host.training.settings import TrainSettings, parse_phases
from ...host.training.sources import training_sources
from ...host.training.trainer import Trainer
from ...sim.build import library
from ...spec.phases import PHASE_NAMES
from ...spec.presets import preset
from ...spec.schedule import SOURCES, Schedule, State, following
from ..instruments.batch_cycles import batch_cycles
from ..instruments.paired_runs import digest, validation
from ..instruments.results import FOLDER, write_results
from .numerics import best_rate

__all__ = ["METHODS", "Run", "costs", "equal_epochs", "figures", "half_size", "main", "settings_of", "train"]

EQUAL = ("bp_fewer", "bp_more")
"""Backpropagation for other numbers of epochs."""
METHODS = ("bp", *EQUAL, *SOURCES)
RATES = (0.003, 0.01, 0.03, 0.1, 0.3)
TUNING_SEED = 100
PHASES = "1*4:1 1*3:1 1*2:1 1:1"
"""The paper's ratios, an epoch each, for eight epochs instead of ninety."""
WORK = Path("build/bench_controls")
COMMAND = "python -m adagp.evaluation.benches.controls --data-dir FOLDER_OF_FASHION_MNIST"


@dataclass(frozen=True)
class Run:
    """A run to be made: its method, whether it only chooses a learning rate, and its settings."""

    method: str
    tuning: bool
    settings: TrainSettings

    @property
    def path(self) -> Path:
        """Path of its record."""
        kind = "validation" if self.tuning else "test"
        return WORK / f"{self.method}-{kind}-{self.settings.seed}-{self.settings.learning_rate}.json"


def half_size(x_NCHW: np.ndarray) -> np.ndarray:
    """Images of half the height and width: means of 2x2 pixels."""
    n, c, h, w = x_NCHW.shape
    return x_NCHW.reshape(n, c, h // 2, 2, w // 2, 2).mean(axis=(3, 5), dtype=np.float32)


def batches(settings: TrainSettings, steps: int) -> dict[str, int]:
    """Batches by phase of a run with so many an epoch."""
    schedule, state = Schedule(settings.warmup_epochs, steps, parse_phases(settings.phases)), State()
    counts: Counter[str] = Counter()
    for _ in range(settings.epochs * steps):
        phase, state = following(state, schedule)
        counts[PHASE_NAMES[phase.bit_length() - 1]] += 1
    return dict(counts)


def equal_epochs(common: TrainSettings, cycles: dict[str, dict[str, int]]) -> dict[str, int]:
    """Whole epochs of backpropagation that take no more cycles than a run with predictions, and no fewer; by method."""
    steps = (common.train_images or 0) // common.batch
    cost = sum(count * cycles["predicted"][phase] for phase, count in batches(common, steps).items())
    epoch = steps * cycles["bp"]["warmup"]
    return dict(zip(EQUAL, (max(1, cost // epoch), -(-cost // epoch)), strict=True))


def settings_of(method: str, common: TrainSettings) -> TrainSettings:
    """The settings of a method, but for seed and learning rate, and the epochs of ``bp_fewer`` and ``bp_more``."""
    if method.startswith("bp"):
        return replace(common, variant="baseline")
    return replace(common, variant="low", gradient_source=method)


def train(settings: TrainSettings, dataset: Dataset) -> dict:
    """A run on the golden model: accuracy on all test images of ``dataset`` and batches by phase."""
    few = replace(dataset, test_x_NCHW=dataset.test_x_NCHW[:1], test_y_N=dataset.test_y_N[:1])
    with open_session(settings, "golden", dataset=few) as session:
        progress = Trainer(settings, session.network, session.device, few).run()  # tests only at the end
        _, accuracy = evaluate(session.network, session.device, dataset.test_x_NCHW, dataset.test_y_N)
    loss = progress.log[-1]["train_loss"]
    return {
        "accuracy": accuracy, "train_loss": loss if loss is not None and math.isfinite(loss) else None,
        "batches": dict(zip(PHASE_NAMES, progress.batches, strict=False)),
        "macs": progress.counters["macs"], "saturations": progress.counters["saturations"],
    }  # fmt: skip


# --- in the processes that train -------------------------------------------------------------------

_data: dict[bool, tuple[Dataset, str]] = {}
"""By whether it is for the choice of learning rates: images, and their digest."""


def load_small(folder: Path) -> Dataset:
    """Fashion-MNIST of half the size."""
    whole = load_dataset("fashion-mnist", folder)
    return replace(whole, train_x_NCHW=half_size(whole.train_x_NCHW), test_x_NCHW=half_size(whole.test_x_NCHW))


def _load(folder: Path, train_images: int) -> None:
    torch.set_num_threads(1)
    small = load_small(folder)
    for tuning, part in ((True, validation(small, train_images)), (False, small)):
        used = replace(
            part, train_x_NCHW=part.train_x_NCHW[:train_images].copy(), train_y_N=part.train_y_N[:train_images]
        )
        _data[tuning] = used, digest(used)


def _record(run: Run, source: str) -> dict:
    """The record of a run: that in its work file if sources, settings and images are the same, else a new one."""
    dataset, name = _data[run.tuning]
    known = {**run.settings.to_dict(), "data_dir": None, "data": name}
    if run.path.exists():
        record = json.loads(run.path.read_text())
        if record["settings"] == known and record["sources"] == source:
            return record
    began = time.perf_counter()
    result = train(run.settings, dataset)
    record = {"settings": known, "sources": source, **result, "seconds": round(time.perf_counter() - began, 1)}
    write_atomically(run.path, (json.dumps(record, indent=1) + "\n").encode())
    return record


# --- results ------------------------------------------------------------------------------------------


def costs(methods: dict[str, dict], cycles: dict[str, dict[str, int]]) -> dict[str, int]:
    """Cycles of a run by method, from those of a batch by method and phase; of ``predicted`` on all designs."""
    found = {}
    for name, known in {**cycles, **dict.fromkeys(EQUAL, cycles["bp"])}.items():
        detail = methods.get(name) or methods[name.partition("_")[0]]
        found[name] = sum(n * known[phase] for phase, n in detail["batches"].items() if n)
    return found


def measured(method: str, variant: str, common: TrainSettings, dataset: Dataset) -> dict[str, int]:
    """Cycles of a batch of ``method`` by phase on a design, kept in a work file for the same program and machine."""
    settings = replace(settings_of(method, common), variant=variant)
    path = WORK / f"{method}-{variant}-cycles.json"
    with open_session(settings, "golden", dataset=dataset) as session:
        network = session.network
    key = [settings.to_dict(), network.program.digest, library(network.config).name, training_sources()]
    if path.exists() and (kept := json.loads(path.read_text()))["key"] == key:
        return kept["cycles"]
    found = batch_cycles(settings, dataset)
    write_atomically(path, (json.dumps({"key": key, "cycles": found}, indent=1) + "\n").encode())
    return found


def all_measured(common: TrainSettings, dataset: Dataset) -> dict[str, dict[str, int]]:
    """Cycles of a batch by method, and of ``predicted`` by design."""
    found = {}
    for method in METHODS:
        if method not in EQUAL:
            found[method] = measured(method, "baseline" if method == "bp" else "max", common, dataset)
    for variant in ("low", "efficient"):
        found[f"predicted_{variant}"] = measured("predicted", variant, common, dataset)
    return found


def figures(methods: dict[str, dict], cost: dict[str, int]) -> dict[str, float | int]:
    """Mean and standard deviation of each method's test accuracy, and its cost."""
    found: dict[str, float | int] = {}
    for method, detail in methods.items():
        accuracies = [run["accuracy"] for run in detail["runs"]]
        found[f"accuracy_{method}"] = round(statistics.mean(accuracies), 6)
        found[f"sd_{method}"] = round(statistics.stdev(accuracies), 6)
        found[f"cost_{method}"] = cost[method]
    return found | {f"cost_{name}": value for name, value in cost.items() if name not in methods}


def detail(runs: list[dict], rates: dict[float, list[float]]) -> dict:
    """Details of a method's figures."""
    shared = {name: runs[0]["settings"][name] for name in ("epochs", "learning_rate")}
    accuracies = {str(rate): found for rate, found in rates.items()}
    return {
        **shared, "batches": runs[0]["batches"], "validation_accuracies": accuracies, "validation_seed": TUNING_SEED,
        "runs": runs,
    }  # fmt: skip


def made(runs: list[Run], pool: ProcessPoolExecutor, source: str, progress: Progress) -> Iterator[tuple[Run, dict]]:
    """Records of runs as they come in; the bar goes on by their epochs."""
    waiting = {pool.submit(_record, run, source): run for run in runs}
    for future in as_completed(waiting):
        run, record = waiting[future], future.result()
        kind = "validation" if run.tuning else "test"
        progress.print(
            f"{run.method} seed {run.settings.seed} rate {run.settings.learning_rate}: {kind} accuracy"
            f" {100 * record['accuracy']:.2f} % in {record['seconds']} s", highlight=False,
        )  # fmt: skip
        progress.advance(progress.task_ids[0], run.settings.epochs)
        yield run, record


def compare(
    common: TrainSettings, equal: dict[str, int], seeds: Iterable[int], pool: ProcessPoolExecutor, progress: Progress
) -> dict:
    """Details of all methods, some with ``equal`` epochs of their own: first learning rates, then runs to compare."""
    source, of = training_sources(), {method: settings_of(method, common) for method in METHODS}
    of |= {method: replace(of[method], epochs=epochs) for method, epochs in equal.items()}
    tuning = [Run(method, True, replace(of[method], seed=TUNING_SEED, learning_rate=rate))
              for method in METHODS for rate in RATES]  # fmt: skip
    total = sum(of[method].epochs for method in METHODS) * (len(RATES) + len(list(seeds)))
    progress.add_task("epochs", total=total)
    rates: dict[str, dict[float, list[float]]] = {method: {rate: [] for rate in RATES} for method in METHODS}
    for run, record in made(tuning, pool, source, progress):
        rates[run.method][run.settings.learning_rate].append(record["accuracy"])
    runs = [Run(method, False, replace(of[method], seed=seed, learning_rate=best_rate(rates[method])))
            for seed in seeds for method in METHODS]  # fmt: skip
    records = dict(made(runs, pool, source, progress))
    return {m: detail([records[run] for run in runs if run.method == m], rates[m]) for m in METHODS}


def main() -> None:
    """Entry point of ``nox -s bench_controls``."""
    parser = argparse.ArgumentParser(prog="python -m adagp.evaluation.benches.controls", description=__doc__)
    parser.add_argument("--data-dir", type=Path, help="folder with the files of Fashion-MNIST")
    parser.add_argument("--output", type=writable, default=FOLDER / "controls.json")
    parser.add_argument("--jobs", type=at_least_one, default=1, help="processes that train at a time")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each method, 2 at least")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--train-images", type=int, default=20_000)
    arguments = parser.parse_args()
    if arguments.data_dir is None or arguments.seeds < 2:
        parser.error("--data-dir is needed, and --seeds of 2 at least")
    common = TrainSettings(
        data="fashion-mnist", epochs=arguments.epochs, train_images=arguments.train_images, phases=PHASES,
    )  # fmt: skip
    seeds, began = range(arguments.seeds), commit()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TextColumn("<"), TimeRemainingColumn(elapsed_when_finished=True))  # fmt: skip
    pool = ProcessPoolExecutor(
        arguments.jobs, get_context("spawn"), _load, (arguments.data_dir, arguments.train_images)
    )  # fmt: skip
    cycles = all_measured(common, load_small(arguments.data_dir))
    try:
        with Progress(*columns, speed_estimate_period=3600) as progress:
            methods = compare(common, equal_epochs(common, cycles), seeds, pool, progress)
    finally:
        pool.shutdown(cancel_futures=True)
    found = figures(methods, costs(methods, cycles))
    details = {"methods": methods, "cycles_per_batch": cycles}
    write_results(arguments.output, found, details, provenance(COMMAND, preset(common.preset), list(seeds), began))
    for name, value in found.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
