"""The results of an experiment's outcomes: a table, files of metrics, TensorBoard's events."""

import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from ..algorithm.metrics import csv_text, scalars
from ..gen.files import write_atomically
from ..host.training.events import events_writer
from .experiment_folder import ExperimentFolder
from .methods.methods import ALL_METHODS
from .pareto import Point, compare
from .tasks import Task

__all__ = ["MethodResult", "macs", "remarks", "results", "table", "write_events", "write_metrics"]


@dataclass(frozen=True)
class MethodResult:
    """A method's :class:`.pareto.Point`; further measures, means."""

    point: Point
    measures: dict[str, float]
    by_seed: dict[int, float]
    """The test part's score."""


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def macs(outcome: dict) -> float:
    """The MACs of a run, as a share of plain training's for all epochs."""
    share: float = outcome["macs"] / outcome["whole"]
    return share


def results(outcomes: Sequence[dict], cost_of: Callable[[dict], float] = macs) -> list[MethodResult]:
    """Results of all runs, method by method; without two shares of plain training nothing is compared with."""
    by_method: dict[str, list[dict]] = {}
    for outcome in outcomes:
        by_method.setdefault(outcome["run"]["method"], []).append(outcome)
    accuracy = {
        method: {o["run"]["seed"]: _number(o["test"]) for o in found} for method, found in by_method.items()
    }  # fmt: skip
    cost = {method: float(np.mean([cost_of(o) for o in found])) for method, found in by_method.items()}
    plain = [method for method in by_method if ALL_METHODS[method].plain]
    points = compare(accuracy, cost, plain if len(plain) > 1 else ())
    return [MethodResult(point, _means(by_method[point.method]), accuracy[point.method]) for point in points]


def _means(outcomes: Sequence[dict]) -> dict[str, float]:
    names = dict.fromkeys(name for outcome in outcomes for name in outcome["measures"])
    return {name: float(np.mean([_number(o["measures"].get(name)) for o in outcomes])) for name in names}


def _with_error(value: float | None, error: float | None, sign: str = "") -> str:
    if value is None or math.isnan(value):
        return "-"
    tail = "" if error is None or math.isnan(error) else f" ± {error:.2f}"
    return f"{value:{sign}.2f}{tail}"


def table(found: Sequence[MethodResult], task: Task, title: str) -> Table:
    """A row for each method."""
    further = list(dict.fromkeys(name for one in found for name in one.measures))
    made = Table(
        "method", f"{task.score_name}, %", "cost, % of BP", "over BP that costs no more",
        *(name.replace("_", " ") for name in further), title=title,
    )  # fmt: skip
    for column in made.columns[1:]:
        column.justify = "right"
    for one in found:
        point = one.point
        plain = ALL_METHODS[point.method].plain
        above = "on its line" if plain and point.above == 0 else _with_error(point.above, point.error, "+")
        more = [_with_error(one.measures.get(name), None) for name in further]
        made.add_row(
            point.method, _with_error(point.accuracy, point.sd), f"{100 * point.cost:.1f}", above, *more
        )  # fmt: skip
    return made


def remarks(outcomes: Sequence[dict]) -> list[str]:
    """Remarks beside the table: methods that did not do what they are named for: few epochs, or a shut gate."""
    batches: dict[str, dict[str, int]] = {}
    for outcome in outcomes:
        of = batches.setdefault(outcome["run"]["method"], {})
        for phase, count in outcome["batches"].items():
            of[phase] = of.get(phase, 0) + count
    idle = [name for name, of in batches.items() if ALL_METHODS[name].entries and not of.get("gp")]
    by_length: dict[int, list[str]] = {}
    for name, of in batches.items():
        if ALL_METHODS[name].plain:
            by_length.setdefault(sum(of.values()), []).append(name)
    same = [" and ".join(names) for names in by_length.values() if len(names) > 1]
    return [
        *([f"no GP batches, so plain training: {', '.join(idle)}"] if idle else []),
        *(f"of as many epochs, so the same: {names}" for names in same),
    ]


def metric_rows(outcomes: Sequence[dict]) -> list[dict]:
    """A row for each run, epoch, phase and layer."""
    return [
        {"method": o["run"]["method"], "seed": o["run"]["seed"], **row} for o in outcomes for row in o["quality"]
    ]  # fmt: skip


def write_metrics(folder: ExperimentFolder, outcomes: Sequence[dict]) -> None:
    """``metrics.csv`` and ``metrics.json``: predictions of gradients in batches with true ones."""
    rows = metric_rows(outcomes)
    write_atomically(folder.path / "metrics.csv", csv_text(rows, ("method", "seed")).encode())
    folder.write_json("metrics.json", rows)


def _scalars(outcome: dict) -> Iterator[tuple[str, float | None, int]]:
    for tag in ("losses", "validations", "validation_losses"):
        for epoch, value in enumerate(outcome[tag]):
            yield tag, value, epoch
    yield from scalars(outcome["quality"])


def write_events(folder: Path, outcomes: Sequence[dict]) -> None:
    """A folder for each run, in place of what there was: losses and scores by epoch, and all metrics."""
    writer_class = events_writer()
    for outcome in outcomes:
        place = folder / f"{outcome['run']['method']}-{outcome['run']['seed']}"
        shutil.rmtree(place, ignore_errors=True)
        with writer_class(str(place)) as writer:
            for tag, value, epoch in _scalars(outcome):
                writer.add_scalar(tag, _number(value), epoch)
