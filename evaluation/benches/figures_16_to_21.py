"""The paper's figures 16 to 19 and 21, estimated: goes on with ``results/figures_16_to_21.json``.

Each of the fifteen networks is compiled for the four designs of preset ``paper`` with all that the switches build and
4 GiB of memory, and the estimator runs a batch of each phase: thirteen CNNs in the forms for CIFAR and ImageNet (there
Inception at 299 pixels), the Transformer on sentences as long as Multi30k's, YOLO-v3 on images of 416. A batch whose
program doesn't fit in memory is halved until it does, and is told with the batches of that size.

``speedup_*``: over the baseline in the paper's 90 epochs; ``limit_*``: of a prediction that costs nothing;
``dram_energy_saving_*``: of a mean batch; ``ideal_saving_*``: if a GP batch moved the bytes of a forward pass alone.
``mean``, ``most``: over the networks of a data set. Neither time nor traffic of operators that the host computes is in
them: ``islands`` names these. ``*_useful_utilisation``: without products of padding's zeros, which ``*_utilisation``
counts. ``known_error_worst``: by what part cycles differ if nothing is left out (see ``host/estimate/repeats.py``).
``layers_*``: the least and the most, over layers, of a design's cycles in a phase over the baseline's.
``minutes_on_two_cores``: time of a core that all rows take, by the mean of those of their data set, over two.

Each estimate is kept in ``build/figures_16_to_21``: a bench that was stopped goes on after the last one.
"""

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean

from ...gen.files import write_atomically
from ...gen.provenance import SWITCHED, commit, provenance
from ...host.compiler.dataflow import DATAFLOWS, MODELLED
from ...host.compiler.lowering import LoweringError
from ...host.compiler.mapping import MappingError
from ...host.compiler.memory_plan import PlanError
from ...host.console import at_least_one, writable
from ...spec.config import VARIANTS
from ...spec.presets import preset
from ..instruments.paper_batches import (
    DATA,
    NETWORKS,
    SMALL,
    Case,
    Rows,
    errors,
    estimate,
    figures_of,
    layer_figures,
    layers,
    sources,
)  # fmt: skip
from ..instruments.results import FOLDER, merge_results
from ..instruments.single_command import bars

__all__ = ["ERRORS", "LAYERS", "TIME", "figures", "main"]

COMMAND = "python -m adagp.evaluation.benches.figures_16_to_21"
WORK = Path("build/figures_16_to_21")
PRESET, SEED = "paper", 1
BATCHES = (32, 128)
ERRORS, LAYERS, TIME = "errors", "layers", "time"
"""Parts of the results that aren't rows: what leaving out changes, cycles by layer, how long estimates take."""
MEANS = ("backward_to_forward", "limit", "baseline_useful_utilisation", "baseline_utilisation", "ideal_saving")
"""Figures that all designs share, of which means are taken."""


@dataclass(frozen=True)
class Job:
    """A network's row of a data set, dataflow and batch."""

    case: Case
    batch: int

    @property
    def part(self) -> str:
        """The part of the results that it belongs to."""
        return f"{self.case.data}_{self.case.dataflow}_{self.batch}"


def kept(case: Case, batch: int) -> dict | None:
    """A case's batch, from those that are kept or estimated; None if its program doesn't fit in memory."""
    record = WORK / f"{case.data}-{case.model}-{case.dataflow}-{batch}.json"
    if record.exists() and (found := json.loads(record.read_text()))["sources"] == sources():
        return found["row"]
    began = time.process_time()
    row = estimate(case, batch, PRESET, SEED)
    if row is not None:
        row |= {"commit": commit(), "cpu_seconds": round(time.process_time() - began, 1)}
    WORK.mkdir(parents=True, exist_ok=True)
    write_atomically(record, json.dumps({"sources": sources(), "row": row}).encode())
    return row


def row_of(job: Job) -> tuple[Job, dict | str]:
    """The row of a job, or of the largest half of its batch that fits in memory; or why the machine can't run it."""
    batch = job.batch
    try:
        while batch:
            if (row := kept(job.case, batch)) is not None:
                return Job(job.case, batch), row
            batch //= 2
    except (LoweringError, MappingError) as error:
        return Job(job.case, batch), str(error)
    return job, "doesn't fit in memory at any batch"


def _rows_of(jobs: list[Job]) -> list[tuple[Job, dict | str]]:
    return [row_of(job) for job in jobs]


def figures(rows: Mapping[str, Rows], part: str) -> dict[str, float | int]:
    """Means and maxima of a part's rows by network."""
    each = [figures_of(row) for row in rows.values()]
    found: dict[str, float | int] = {f"networks_{part}": len(each)}
    for what in MEANS:
        found[f"{what}_mean_{part}"] = round(mean(one[what] for one in each), 4)
    found[f"limit_most_{part}"] = round(max(one["limit"] for one in each), 4)
    for what in ("speedup", "dram_energy_saving"):
        for variant in VARIANTS[1:]:
            values = [one[f"{what}_{variant}"] for one in each]
            found[f"{what}_mean_{part}_{variant}"] = round(mean(values), 4)
            found[f"{what}_most_{part}_{variant}"] = round(max(values), 4)
    return found


@contextmanager
def _done(jobs: list[Job], processes: int) -> Iterator[Iterator[tuple[Job, dict | str]]]:
    """Rows as they are done, in this process if it is to be one."""
    if processes == 1:
        yield (row_of(job) for job in jobs)
        return
    groups: dict[tuple[str, str], list[Job]] = {}  # of rows that share a network's graph and commands
    for job in jobs:
        groups.setdefault((job.case.data, job.case.model), []).append(job)
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        coming = [pool.submit(_rows_of, group) for group in groups.values()]
        yield (pair for each in as_completed(coming) for pair in each.result())


def _jobs(models: Iterable[str], data: Iterable[str], dataflows: Iterable[str], batches: Iterable[int]) -> list[Job]:
    """Rows to make, those of a network's dataflows after each other, as they share its graph."""
    names = list(models)
    cases = [
        Case(name, each, dataflow) for each in data for name in names for dataflow in dataflows
        if name in SMALL or each in NETWORKS[name]
    ]  # fmt: skip
    return [Job(case, batch) for batch in batches for case in cases]


def main(arguments: Iterable[str] | None = None) -> None:
    """Entry point of ``nox -s bench_figures_16_to_21``."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = partial(parser.add_argument, nargs="+")
    add("--models", choices=(*NETWORKS, *SMALL), default=tuple(NETWORKS), metavar="NAME",
        help=f"of {', '.join(NETWORKS)} (default: all of these), {', '.join(SMALL)}")  # fmt: skip
    add("--data", choices=tuple(DATA), default=tuple(DATA), help="(default: all)")
    dataflows = (*DATAFLOWS, *MODELLED)
    add("--dataflows", choices=dataflows, default=dataflows, help="(default: all; rs: a model, no RTL)")
    add("--batches", type=at_least_one, metavar="N",
        help=f"(default: {' '.join(map(str, BATCHES))}, {BATCHES[0]} with --errors)")  # fmt: skip
    parser.add_argument("--jobs", type=at_least_one, default=1, help="processes (default: %(default)s)")
    parser.add_argument("--json", type=writable, default=FOLDER / "figures_16_to_21.json", metavar="PATH")
    parser.add_argument("--errors", action="store_true", help="only say what leaving out changes")
    parser.add_argument("--layers", action="store_true", help="only say cycles by layer; of one network, for figure 16")
    given = parser.parse_args(None if arguments is None else list(arguments))
    batches = given.batches or BATCHES[: 1 if given.errors else None]
    jobs = _jobs(given.models, given.data, given.dataflows, batches)
    if given.errors or given.layers:
        if given.layers and len(jobs) > 1:
            parser.error(f"--layers takes one network, data set, dataflow and batch, not {len(jobs)} of them")
        _apart(Path(given.json), jobs, *((LAYERS, layers) if given.layers else (ERRORS, errors)))
        return
    rows: dict[str, dict[str, dict]] = {}
    mistakes: list[str] = []
    with bars() as progress, _done(jobs, given.jobs) as done:
        task = progress.add_task("networks", total=len(jobs))
        for job, row in done:
            progress.advance(task)
            name = f"{job.case.model} on {job.case.data}, {job.case.dataflow}, batch {job.batch}"
            if isinstance(row, str):
                mistakes.append(f"{name}: {row}")
                continue
            found = figures_of(row)
            time_of = f"MAX {found['speedup_max']:.3f} of {found['limit']:.3f}"
            saved = f"{100 * found['dram_energy_saving_max']:.1f} % of {100 * found['ideal_saving']:.1f} %"
            progress.console.print(f"{name}: {time_of}, {saved} of the energy saved")
            part = rows.setdefault(job.part, {})
            part[job.case.model] = row
            _merge(Path(given.json), job.part, part)
    if mistakes:
        raise SystemExit("\n".join(mistakes))


def _apart(path: Path, jobs: list[Job], part: str, measure: Callable[[Case, int, str, int], dict]) -> None:
    """Measure what isn't a row, and put it into the results as a part, which has all that is done so far."""
    source, found, mistakes = commit(), dict[str, dict](), list[str]()
    with bars() as progress:
        for job in progress.track(jobs, description="networks"):
            name = f"{job.case.model} on {job.case.data}, {job.case.dataflow}, batch {job.batch}"
            try:
                found[name] = measure(job.case, job.batch, PRESET, SEED)
            except (LoweringError, MappingError, PlanError) as error:
                mistakes.append(f"{name}: {error}")
                continue
            if part == LAYERS:
                told = layer_figures(found[name])
            else:
                told = {f"{kind}_error_worst": max(row[kind] for row in found.values()) for kind in found[name]}
            progress.console.print(f"{name}: {told if part == LAYERS else found[name]}")
            merge_results(path, part, told, found, provenance(COMMAND, preset(PRESET), SEED, source, SWITCHED))
    if mistakes:
        raise SystemExit("\n".join(mistakes))


def _merge(path: Path, part: str, rows: dict[str, dict]) -> None:
    """Add rows to a part of the results, in the networks' order."""
    results = json.loads(path.read_text()) if path.exists() else {"details": {}}
    there = results["details"].get(part, {"details": {}})["details"] | rows
    order = [*NETWORKS, *SMALL]
    ordered = {name: there[name] for name in sorted(there, key=order.index)}
    origin = provenance(COMMAND, preset(PRESET), SEED, list(rows.values())[-1]["commit"], SWITCHED)
    merge_results(path, part, figures(ordered, part), ordered, origin)
    _time(path, origin)


def _time(path: Path, origin: dict) -> None:
    """Say how long rows take, by those whose time was taken; those of a data set without any take the mean of all."""
    seconds: dict[str, list[float]] = {}
    for part, found in json.loads(path.read_text())["details"].items():
        if part not in (ERRORS, LAYERS, TIME):
            taken = [row["cpu_seconds"] for row in found["details"].values() if "cpu_seconds" in row]
            seconds.setdefault(part.split("_")[0], []).extend(taken)
    if not (every := [one for taken in seconds.values() for one in taken]):
        return
    jobs = _jobs(NETWORKS, DATA, (*DATAFLOWS, *MODELLED), BATCHES)
    found = {
        "rows_timed": len(every), "cpu_seconds_mean": round(mean(every), 1), "cpu_seconds_most": max(every),
        "rows_all": len(jobs),
        "minutes_on_two_cores": round(sum(mean(seconds.get(job.case.data) or every) for job in jobs) / 120),
    }  # fmt: skip
    merge_results(path, TIME, found, {}, origin)


if __name__ == "__main__":
    main()
