"""All ways to train, each with its best learning rate, at equal cost: writes ``results/accuracy.json``.

A regime is a network, images, and for how long it is trained with how many of them: of each data set a steep one, where
accuracy still grows quickly with more training, and a long one near saturation, as the paper's are. In each, every
method first tries learning rates and is judged by validation images: the same few with the same seeds, and as long as
the best is the first or the last, one beyond; then the two best with as many seeds again. Then it runs with the best,
from five other seeds, and test images are looked at. ``accuracy`` and ``sd``: of these, in percent. ``cost``:
MACs, 1 is plain training for all epochs. ``above``: accuracy over the best plain training of no higher cost, which has
fewer epochs, with its standard error ``error``, seed by seed. ``cycles``: the cost once more, of batches on the
simulated RTL: plain training and ``half`` on the baseline, others on MAX, which has more PEs; what is above plain
training of as many cycles is in details. The accelerator has no synthetic gradients and none of the other ``ideas``,
and larger networks aren't simulated. Cycles are measured after a regime's runs; that takes a C++ compiler, and minutes
for each source, or no time ``--without-cycles``. ``results/accuracy_options.json`` and
``results/accuracy_deferred.json``, on ways to spare traffic of predictions, are made so.

Runs that have ended are kept in ``build/bench_accuracy``, apart for other sources: a bench that was stopped goes on,
with the same PyTorch and on the same kind of GPU.
Each regime is written as soon as it is through, and leaves the others' figures as they are.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.progress import track

from ...algorithm.metrics import MEASURES
from ...experiments.comparison import SEEDS, Comparison, Tuned
from ...experiments.data import SHIPPED, DataError
from ...experiments.errors import ExperimentError, NetworkError
from ...experiments.experiment_folder import ExperimentFolder, without_nan
from ...experiments.methods.methods import METHODS
from ...experiments.methods.optimisation import DEVICES
from ...experiments.progress import RunsProgress
from ...experiments.regimes import REGIMES, Regime
from ...experiments.results import MethodResult, macs, results, table
from ...experiments.runs import Run
from ...experiments.settings import fitting
from ...experiments.tasks import CLASSIFICATION
from ...gen.cache import code, digest
from ...gen.provenance import commit, provenance
from ...host.console import at_least_one, screen, writable
from ...host.training.run_folder import RunError
from ...spec.presets import preset
from ...spec.schedule import PREDICTING
from ..instruments.results import FOLDER, merge_results
from .accelerator_cycles import PLAIN, SIMULATED, cycles_of, measured

__all__ = ["details_of", "figures_of", "main", "sources"]

COMMAND = "python -m adagp.evaluation.benches.accuracy"
WORK = Path("build/bench_accuracy")
USUAL = [name for name, regime in REGIMES.items() if not regime.wants_gpu]
REPORTING = ("pareto", "plots", "results", "progress")
"""Files of experiments/ that have no part in a run."""


def sources() -> str:
    """Digest of what decides how a run ends: this package's, the library's, the specification's."""
    root = Path(__file__).parents[2]
    files = [
        file for part in ("experiments", "algorithm", "spec") for file in sorted((root / part).rglob("*.py"))
        if part != "experiments" or not file.name.startswith(REPORTING)
    ]  # fmt: skip
    return digest(*(part for file in files for part in (file.relative_to(root), code(file))))[:8]


def figures_of(
    regime: str, by_macs: Sequence[MethodResult], by_cycles: Sequence[MethodResult]
) -> dict[str, float]:  # fmt: skip
    """Figures of each method, named ``WHAT_REGIME_METHOD``; missing ones are left out."""
    found: dict[str, float | None] = {}
    for one in by_macs:
        p, name = one.point, f"{regime}_{one.point.method}"
        found |= {f"accuracy_{name}": p.accuracy, f"sd_{name}": p.sd, f"cost_{name}": p.cost,
                  f"above_{name}": p.above, f"error_{name}": p.error}  # fmt: skip
    found |= {f"cycles_{regime}_{one.point.method}": one.point.cost for one in by_cycles}
    return {name: round(value, 4) for name, value in without_nan(found).items() if value is not None}


def details_of(
    regime: Regime, chosen: Mapping[str, Tuned], tuning: Sequence[dict], outcomes: Sequence[dict],
    cycles: Mapping[str, Mapping[str, int]], by_cycles: Sequence[MethodResult], trained_with: Mapping[str, Any],
) -> dict:  # fmt: skip
    """Details of the figures: learning rates tried, each run's accuracies and batches, predictions, cycles of a batch.

    ``trained_with``: the regime's settings with PyTorch's version and the GPU.
    """

    def kept(outcome: dict) -> dict:
        run = outcome["run"]
        names = ("validation", "test", "macs", "whole", "batches")
        return {"seed": run["seed"], "lr": run["lr"], **{name: outcome[name] for name in names}}

    def of(method: str) -> dict:
        choice = asdict(chosen[method])
        tried, runs = (
            [kept(o) for o in found if o["run"]["method"] == method] for found in (tuning, outcomes)
        )  # fmt: skip
        quality = _quality([o for o in outcomes if o["run"]["method"] == method])
        return {"chosen": choice, "tuning": tried, "runs": runs, "quality": quality}

    points = {one.point.method: {"cost": one.point.cost, "above": one.point.above, "error": one.point.error}
              for one in by_cycles}  # fmt: skip
    found = {"regime": {**asdict(regime), **trained_with}, "cycles_per_batch": cycles, "by_cycles": points,
             "methods": {method: of(method) for method in chosen}}  # fmt: skip
    return without_nan(found)


def _quality(outcomes: Sequence[dict]) -> dict[str, dict[str, float | None]]:
    """Quality of predictions by layer: means over seeds and BP batches after the warm-up; empty without predictions.

    ``cosine_end``: of the last epoch's alone.
    """
    by_layer: dict[str, list[dict]] = {}
    for outcome in outcomes:
        if METHODS[outcome["run"]["method"]].source in PREDICTING:
            for row in outcome["quality"]:
                if row["phase"] == "bp":
                    by_layer.setdefault(row["layer"], []).append(row)

    def mean(rows: Sequence[dict], name: str) -> float | None:
        known = [row[name] for row in rows if row[name] is not None]
        return fmean(known) if known else None

    def last(rows: Sequence[dict]) -> Sequence[dict]:
        return [row for row in rows if row["epoch"] == max(row["epoch"] for row in rows)]

    return {
        layer: {**{name: mean(rows, name) for name in MEASURES}, "cosine_end": mean(last(rows), "cosine")}
        for layer, rows in by_layer.items()
    }


def _cycles(regime: Regime, methods: Sequence[str], n_classes: int) -> dict[str, dict[str, int]]:
    if not regime.preset:
        return {}
    wanted = {METHODS[name].source if METHODS[name].entries else PLAIN for name in methods}
    order = [source for source in SIMULATED if source in wanted]
    return {
        source: measured(regime, source, n_classes, WORK)
        for source in track(order, f"{regime.name}: cycles", console=screen)
    }


def _finish(comparison: Comparison, runs: Sequence[Run], jobs: int, part: str) -> list[dict]:
    ended = sum(map(comparison.folder.has, runs))
    with RunsProgress(screen, ended, len(runs), part) as shown:
        comparison.finish(runs, jobs, shown.told, shown.ended)
    return [comparison.folder.read(run) for run in runs]


def measure(
    regime: Regime, data_folder: Path | None, methods: Sequence[str], seeds: Sequence[int], jobs: int, output: Path
) -> None:  # fmt: skip
    """Run what is left of a regime, and write it."""
    source = commit()
    asked, methods = methods, fitting(methods, regime.model, regime.data)
    if others := [name for name in asked if name not in methods]:
        screen.print(f"{regime.name}: not for {regime.model}: {', '.join(others)}")
    folder = ExperimentFolder(WORK / f"{regime.name}-{regime.device}-{sources()}")
    comparison = Comparison(regime, data_folder, folder, tuple(methods), tuple(seeds))
    screen.print(f"{regime.name}: learning rates, by validation images")
    while not all(map(folder.has, runs := comparison.tuning())):
        tuning = _finish(comparison, runs, jobs, "validation")
    tuning = [folder.read(run) for run in runs]
    screen.print(f"{regime.name}: new seeds, test images")
    outcomes = _finish(comparison, comparison.reported(), jobs, "test")
    cycles = _cycles(regime, methods, comparison.data.n_classes)
    on_chip = [outcome for outcome in outcomes if cycles_of(outcome, cycles) is not None]
    whole = max((cycles_of(o, cycles) or 0 for o in on_chip if o["run"]["method"] == "bp-1"), default=0)
    by_macs = results(outcomes, macs)
    by_cycles = results(on_chip, lambda outcome: (cycles_of(outcome, cycles) or 0) / whole)
    sizes = {"train": len(comparison.data.train), "validation": len(comparison.data.validation),
             "test": len(comparison.data.test)}  # fmt: skip
    origin = provenance(
        COMMAND,
        preset(regime.preset) if regime.preset else None,
        [*comparison.tuning_seeds, *seeds],
        source,
        "library",
    )
    merge_results(output, regime.name, figures_of(regime.name, by_macs, by_cycles),
                  {**details_of(regime, comparison.chosen(), tuning, outcomes, cycles, by_cycles, folder.settings),
                   "examples": sizes},
                  origin)  # fmt: skip
    for cost, found in (("MACs", by_macs), *([("cycles", by_cycles)] if cycles else [])):
        Console().print(table(found, CLASSIFICATION, f"{regime.name}: cost in {cost}"))


def _place(text: str) -> tuple[str, Path]:
    name, equals, folder = text.partition("=")
    if not equals or not Path(folder).exists():
        raise argparse.ArgumentTypeError(f"{text!r} must be DATASET=FOLDER, and the folder be there")
    return name, Path(folder)


def _of(known: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        names = tuple(text.split(","))
        if strangers := sorted(set(names) - set(known)):
            raise argparse.ArgumentTypeError(f"no {strangers[0]!r}; there are {', '.join(known)}")
        return names

    return parse


def main() -> None:
    """Entry point of ``nox -s bench_accuracy``."""
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )  # fmt: skip
    parser.add_argument("--regimes", type=_of(list(REGIMES)), default=",".join(USUAL),
                        help=f"of {', '.join(REGIMES)}; default: those for a CPU")  # fmt: skip
    parser.add_argument("--methods", type=_of(list(METHODS)), default=",".join(METHODS), help="default: %(default)s")
    parser.add_argument("--data", type=_place, action="append", default=[], metavar="DATASET=FOLDER",
                        help="where the files of fashion-mnist and cifar10 are; give it once for each")  # fmt: skip
    parser.add_argument("--seeds", type=at_least_one, default=len(SEEDS), help="runs reported (default: %(default)s)")
    parser.add_argument("--device", choices=DEVICES, default="cpu", help="default: %(default)s")
    parser.add_argument("--jobs", type=at_least_one, default=1, help="runs at a time (default: %(default)s)")
    parser.add_argument("--without-cycles", action="store_true", help="measure no cycles, so cost is in MACs alone")
    parser.add_argument("--output", type=writable, default=FOLDER / "accuracy.json", help="default: %(default)s")
    options = parser.parse_args()
    if "bp-1" not in options.methods:
        parser.error("--methods must have bp-1, whose cost is 1")
    places = dict(options.data)
    if missing := sorted({REGIMES[name].data for name in options.regimes} - {*places, *SHIPPED}):
        parser.error(f"{missing[0]}: give --data {missing[0]}=FOLDER, where its files are")
    try:
        for name in options.regimes:
            regime = replace(REGIMES[name], device=options.device)
            regime = replace(regime, preset="") if options.without_cycles else regime
            measure(regime, places.get(regime.data), options.methods, range(options.seeds), options.jobs,
                    options.output)  # fmt: skip
    except (DataError, RunError, NetworkError, ExperimentError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
