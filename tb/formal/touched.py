"""Jobs whose proofs a change may have spoilt, and a few of them that are proved quickly.

A record of ``results/robustness.json`` carries a digest of the definitions that its job leads to: rules, block, and
the blocks inside. A job is touched if its record has another digest, or none.
"""

import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from math import inf
from pathlib import Path

from .definitions import Definitions
from .properties import JOBS
from .registry import Job

__all__ = ["BUDGET", "ROOT", "digests", "failures", "sample", "summary", "touched"]

ROOT = Path(__file__).parents[2]
BUDGET = 30
"""Recorded seconds of a sample; a slow core takes twice as long."""
FOLDER = "tb/formal"
MEANS = ("harness.py", "netlist.py", "solver.py")
"""Files of that folder that all results depend on."""
TOOLS = ("amaranth", "pyosys")


def digests(jobs: Iterable[Job] = (), root: Path = ROOT) -> dict[str, str]:
    """Digest of all that a job's results depend on, by name; of all jobs unless ``jobs`` are given."""
    definitions, folder = Definitions(root), root / FOLDER
    tools = [(tool, version(tool)) for tool in TOOLS]
    means = [(folder / name, None) for name in MEANS]
    found = {}
    for job in jobs or JOBS.values():
        file = folder / Path(sys.modules[job.bind.__module__].__file__ or "").name
        found[job.name] = definitions.digest([(file, job.bind.__name__), *means], tools)
    return found


def touched(records: Mapping[str, Mapping], present: Mapping[str, str]) -> list[str]:
    """Jobs whose records have another digest than the present one, or none; the quickest first."""
    names = [name for name, digest in present.items() if records.get(name, {}).get("sources") != digest]
    return sorted(names, key=lambda name: (_seconds(records, name), name))


def _seconds(records: Mapping[str, Mapping], name: str) -> float:
    """Recorded seconds of a job; one without a record may take for ever."""
    return records.get(name, {}).get("seconds", inf)


def sample(names: list[str], records: Mapping[str, Mapping], budget: float = BUDGET) -> list[str]:
    """The first of ``names`` that take no longer than ``budget`` together; the first one in any case."""
    chosen, left = names[:1], budget - sum(_seconds(records, name) for name in names[:1])
    for name in names[1:]:
        left -= _seconds(records, name)
        if left < 0:
            break
        chosen.append(name)
    return chosen


def failures(record: Mapping) -> list[str]:
    """Checks of a job's record that its results must not have: failed, not settled, or not reached."""
    bad = ("failed", "open", "unreached")
    return [f"{result['name']}: {result['outcome']}" for result in record["results"] if result["outcome"] in bad]


def summary(names: list[str], found: Mapping[str, list[str] | None], all_jobs: int) -> str:
    """A text about the jobs that are touched, by what was ``found`` of some: failures, or None if time was up."""
    if not names:
        return f"formal: none of {all_jobs} jobs is touched"
    proved = [name for name, failed in found.items() if failed == []]
    failed = [name for name, failed in found.items() if failed]
    late = [name for name, failed in found.items() if failed is None]
    left = [name for name in names if name not in found]
    lists = {"proved": proved, "failed": failed, "stopped after their time": late, "left for nox -s formal": left}
    texts = [f"{what}: {', '.join(some)}" for what, some in lists.items() if some]
    return "; ".join([f"formal: {len(names)} of {all_jobs} jobs are touched", *texts])
