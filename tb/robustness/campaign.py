"""Campaigns of numbered random cases: run on several processes, go on where they were stopped, replay one alone."""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from adagp.gen.files import write_atomically
from adagp.sim.build import library
from adagp.spec.config import Config
from adagp.spec.presets import preset
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

__all__ = ["PREDICTING_DESIGNS", "WORK", "Campaign", "Case", "Kind", "Record", "configured", "random_numbers"]

WORK = Path("build/robustness")
ROOT = Path(__file__).parents[2]
SOURCES = ("golden", "host", "sim", "spec", "tb/robustness")
"""Folders whose sources affect outcomes, besides the simulator."""

WIDE = replace(
    preset("tiny"), name="wide", port_width=256, update_lanes=2, a_depth=128, b_depth=128, c_depth=64, predictor_depth=8
)
"""A small accelerator whose predictor's core has a narrower memory port than the main one, and a queue in memory."""

PREDICTING_DESIGNS = ("tiny max", "tiny low", "tiny efficient", "wide max")

Case = Callable[[int, np.random.Generator], str]
"""A case: takes its index and random numbers, returns a label of its outcome, and raises if the outcome is wrong."""


@dataclass(frozen=True)
class Kind:
    """A kind of campaign.

    Parameters
    ----------
    name: also that of its figure, the number of cases
    open: returns the case function, with a simulator of its own, in the process that calls it. Its argument is another
        ``top.v`` to simulate, or None. It is called anew after a failed case.
    count: cases of the full campaign
    failures: name of the figure that counts failed cases
    presets: the configurations that are simulated, see :func:`configured`; with another ``top.v`` only the first
    shares: further figures, from the number of cases by outcome; their names follow the kind's
    """

    name: str
    open: Callable[[Path | None], Case]
    count: int
    failures: str
    presets: tuple[str, ...] = ("tiny",)
    shares: Callable[[Mapping[str, int]], dict[str, float]] = lambda outcomes: {}


@dataclass(frozen=True)
class Record:
    """The outcome of a case: a label or the reason of its failure, and the CPU seconds that it took."""

    index: int
    outcome: str
    failed: bool
    seconds: float


def configured(name: str) -> Config:
    """A configuration by its name: a preset or WIDE, then a variant, then what else it has."""
    first, *rest = name.split()
    config = WIDE if first == WIDE.name else preset(first)
    words = {"random_signs": "signs", "depthwise": "depthwise", "streamed_predictions": "streamed"}
    switches = {switch: word in rest[1:] for switch, word in words.items()}
    return replace(config, variant=rest[0], **switches) if rest else config


def random_numbers(seed: int, name: str, index: int) -> np.random.Generator:
    """The random numbers of case ``index`` of campaign ``name``."""
    return np.random.default_rng([seed, int.from_bytes(name.encode(), "little"), index])


class _Runner:
    """Runs cases one after the other in its process."""

    def __init__(self, kind: Kind, seed: int, top: Path | None):
        self.kind, self.seed, self.top = kind, seed, top
        self.case: Case | None = None

    def __call__(self, index: int) -> Record:
        if self.case is None:
            self.case = self.kind.open(self.top)
        start, failed = time.process_time(), False
        try:
            outcome = self.case(index, random_numbers(self.seed, self.kind.name, index))
        except Exception as error:  # any error is the case's outcome
            outcome, failed = f"{type(error).__name__}: {error}", True
            self.case = None
        return Record(index, outcome, failed, round(time.process_time() - start, 4))


_runner: _Runner | None = None


def _prepare(*arguments):
    global _runner
    _runner = _Runner(*arguments)


def _one(index: int) -> Record:
    assert _runner is not None
    return _runner(index)


def _digest(folders: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:24]


class Campaign:
    """The cases 0, 1, ... of a ``kind`` with ``seed``; outcomes are kept in ``work/NAME-SEED.jsonl``.

    The file's first line names the campaign, the seed and digests of simulators and sources. If one of them differs,
    the file is begun anew.
    ``top`` is another ``top.v`` with the accelerator's ports.
    """

    def __init__(self, kind: Kind, seed: int, work: Path = WORK, top: Path | None = None):
        self.kind, self.seed, self.top = kind, seed, top
        self.path = work / f"{kind.name}-{seed}.jsonl"

    def replay(self, index: int) -> str:
        """Run one case alone and keep nothing; raises the case's own error."""
        return self.kind.open(self.top)(index, random_numbers(self.seed, self.kind.name, index))

    def run(self, count: int, jobs: int = 1, quiet: bool = False) -> list[Record]:
        """Run the cases 0 .. count - 1 that aren't on file; returns the records of all, by index."""
        records = {record.index: record for record in self._load()}
        missing = [index for index in range(count) if index not in records]
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TimeRemainingColumn(), TextColumn("{task.fields[rate]:.2f}/s  {task.fields[failed]} failed"),
        )  # fmt: skip
        with open(self.path, "a") as file, Progress(*columns, disable=quiet) as progress:
            failed = sum(record.failed for record in records.values())
            task = progress.add_task(
                self.kind.name, total=count, completed=count - len(missing), failed=failed, rate=0.0
            )
            start = time.perf_counter()
            for done, record in enumerate(self._records(missing, jobs), 1):
                records[record.index] = record
                file.write(json.dumps(vars(record)) + "\n")
                file.flush()
                failed += record.failed
                rate = done / (time.perf_counter() - start)
                progress.update(task, advance=1, failed=failed, rate=rate)
                if record.failed:
                    progress.print(f"{self.kind.name} {record.index}: {record.outcome}", markup=False)
        return [records[index] for index in range(count)]

    def _records(self, indices: list[int], jobs: int) -> Iterator[Record]:
        """Records of cases as they come."""
        if jobs == 1:
            yield from map(_Runner(self.kind, self.seed, self.top), indices)
            return
        context = get_context("fork")  # simulators are opened in the children
        with ProcessPoolExecutor(jobs, context, _prepare, (self.kind, self.seed, self.top)) as pool:
            try:
                for future in as_completed([pool.submit(_one, index) for index in indices]):
                    yield future.result()
            finally:
                pool.shutdown(cancel_futures=True)

    def _head(self) -> dict:
        presets = self.kind.presets[:1] if self.top else self.kind.presets
        simulators = [library(configured(name), top=self.top).name for name in presets]  # builds them, once
        return {"campaign": self.kind.name, "seed": self.seed, "simulators": simulators, "sources": _digest(SOURCES)}

    def _load(self) -> list[Record]:
        """The records on file, whole lines only; leaves a file to append to."""
        head = self._head()
        lines = self.path.read_bytes().splitlines(keepends=True) if self.path.exists() else []
        lines = [line for line in lines if line.endswith(b"\n")]
        if not lines or json.loads(lines[0]) != head:
            lines = [json.dumps(head).encode() + b"\n"]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path, b"".join(lines))
        return [Record(**json.loads(line)) for line in lines[1:]]

    def figures(self, records: list[Record]) -> tuple[dict, dict]:
        """Figures of finished cases with shares of outcomes; and details: outcomes, failures, cases per core-second."""
        failures = [record for record in records if record.failed]
        seconds = sum(record.seconds for record in records)
        outcomes = dict(sorted(Counter(record.outcome for record in records if not record.failed).items()))
        details = {
            "outcomes": outcomes,
            "failures": [{"index": record.index, "reason": record.outcome} for record in failures],
            "cases_per_core_second": round(len(records) / max(seconds, 1e-9), 3),
        }
        shares = {f"{self.kind.name}_{name}": share for name, share in self.kind.shares(outcomes).items()}
        return {self.kind.name: len(records), self.kind.failures: len(failures), **shares}, details
