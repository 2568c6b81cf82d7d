"""Formal verification of the blocks at preset ``tiny``: part ``formal`` of ``results/robustness.json``.

Each job (``--list``) is a block of ``rtl/`` with all inputs and the reset free. Its assertions are proved for good, by
k-induction or property directed reachability. If neither settles an assertion, a bounded search looks for a failure up
to the job's depth. All covers must be reached. A job's results stay in ``build/formal`` while its netlist is the same.
"""

import argparse
import hashlib
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from adagp.evaluation.instruments.results import FOLDER, merge_results
from adagp.gen.files import write_atomically
from adagp.gen.provenance import commit, provenance
from adagp.host.console import at_least_one
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .netlist import build, gates_between
from .properties import JOBS
from .registry import CONFIG
from .solver import Result, solve
from .touched import digests

__all__ = ["check", "details", "figures", "main"]

COMMAND = "python -m tb.formal"
WORK = Path("build/formal")
SOURCES = ("harness.py", "netlist.py", "solver.py")
"""Modules on which results depend, besides the netlist."""


def check(name: str, work: Path = WORK, limit: int | None = None) -> dict:
    """Results of a job: those of an earlier run if its netlist and the solver haven't changed."""
    job, begin = JOBS[name], time.monotonic()
    limit = job.limit if limit is None else limit
    harness = job.harness()
    rtlil, folder = harness.rtlil(), work / name
    sources = [(Path(__file__).parent / source).read_text() for source in SOURCES]
    digest = hashlib.sha256(
        "\0".join([rtlil, str((job.depth, limit, job.cut, job.far)), *sources]).encode()
    ).hexdigest()
    path, far = folder / "results.json", [name for name in harness.names if any(part in name for part in job.far)]
    if path.exists() and (record := json.loads(path.read_text()))["digest"] == digest:
        return record | _left_out(far, record["results"])
    results = [
        Result(check, "assert", "failed" if paths else "proved", "structure", None, 0.0)
        for check, paths in gates_between(rtlil, folder, harness.independent).items()
    ]
    registers = 0

    def netlist(doubtful):
        nonlocal registers
        found = build(rtlil, folder, job.cut, doubtful)
        registers = found.registers
        return found

    results += solve(netlist, job.depth, limit, job.far)
    record = {
        "digest": digest, "registers": registers, "seconds": round(time.monotonic() - begin, 1),
        "results": [result.to_dict() for result in results],
    }  # fmt: skip
    write_atomically(path, (json.dumps(record, indent=1) + "\n").encode())
    return record | _left_out(far, record["results"])


def _left_out(far: list[str], results: list[dict]) -> dict[str, list[str]]:
    """Covers that are too far to be searched for."""
    return {"left_out": sorted(set(far) - {result["name"] for result in results})}


def figures(records: dict[str, dict]) -> dict[str, int]:
    """Counts over all jobs. A failure is an assertion that fails, or whose search ended before the depth it needs.

    Two jobs of a block, one with full and one with smaller chunks, prove the same rules, and both count.
    """
    results = [result for record in records.values() for result in record["results"]]
    asserts = [result["outcome"] for result in results if result["kind"] == "assert"]
    constant = [result["kind"] == "assert" and result["method"] == "constant" for result in results]
    covers = [result["outcome"] for result in results if result["kind"] == "cover"]
    return {
        "formal_properties": len(asserts),
        "formal_failures": sum(outcome in ("failed", "open") for outcome in asserts),
        "formal_proved": asserts.count("proved"),
        "formal_proved_by_widths": sum(constant),
        "formal_bounded": asserts.count("bounded"),
        "formal_covers": len(covers),
        "formal_unreached": covers.count("unreached"),
        "formal_covers_left_out": sum(len(record["left_out"]) for record in records.values()),
    }


def details(records: dict[str, dict], sources: dict[str, str]) -> dict[str, dict]:
    """Records as the results have them, in the order of jobs: with the digest of the job's sources, not of its netlist.

    The former is known without a netlist, so that a test can tell which jobs a change touches.
    """
    return {
        name: {key: value for key, value in records[name].items() if key != "digest"} | {"sources": sources[name]}
        for name in JOBS if name in records
    }  # fmt: skip


def _silence():
    """Discard standard output: Yosys writes each command there, and no option stops it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _line(name, record):
    found = figures({name: record})
    text = (
        f"{name:18} {record['registers']:5} registers  {found['formal_proved']:3} proved  "
        f"{found['formal_bounded']:2} bounded  {found['formal_covers']:3} covers  {record['seconds']:6.1f} s"
    )
    bad = [r for r in record["results"] if r["outcome"] in ("failed", "open", "unreached")]
    return "\n".join([text, *(f"    {r['outcome']}: {r['name']} (depth {r['depth']})" for r in bad)])


def main() -> None:
    """Entry point of ``nox -s formal``."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", metavar="NAME", nargs="+", choices=JOBS, help="these jobs; writes no results")
    parser.add_argument("--jobs", type=at_least_one, default=2, metavar="N", help="jobs at the same time (default 2)")
    parser.add_argument("--limit", type=int, metavar="S", help="seconds for one search, instead of the job's own")
    parser.add_argument("--list", action="store_true", help="list the jobs")
    parser.add_argument("--output", type=Path, default=FOLDER / "robustness.json")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(JOBS))
        return
    names, source, records, sources = arguments.only or list(JOBS), commit(), {}, digests()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as progress, ProcessPoolExecutor(arguments.jobs, initializer=_silence) as pool:
        task = progress.add_task("jobs", total=len(names))
        running = {pool.submit(check, name, WORK, arguments.limit): name for name in names}
        for future in as_completed(running):
            name = running[future]
            records[name] = future.result()
            progress.advance(task)
            progress.print(_line(name, records[name]), markup=False, highlight=False)
    found = figures(records)
    if not arguments.only:
        written = details(records, sources)
        merge_results(arguments.output, "formal", found, written, provenance(COMMAND, CONFIG, 0, source))
    for name, value in found.items():
        print(f"{name}: {value}")
    if found["formal_failures"] or found["formal_unreached"]:
        raise SystemExit(1)
