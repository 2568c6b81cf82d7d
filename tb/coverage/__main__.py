"""Coverage of the generated Verilog at preset tiny: part ``coverage`` of results/robustness.json.

The workloads of the top's tests run on simulators that count how often each line, each branch of a multiplexer and
each edge of each bit has been seen. What a workload has covered is kept in build/coverage: a run that was stopped goes
on after the last one it finished.
"""

import argparse
import sys
from pathlib import Path

from adagp.host.results import FOLDER, commit, merge_results, provenance
from adagp.sim.coverage import LINE, TOGGLE

from ..mutation.seen import CONFIG, SEED
from .collect import WORK, Collection
from .exclusions import EXCLUSIONS
from .figures import figures, holes, table
from .workloads import PIECES

COMMAND = "python -m tb.coverage"


def _arguments():
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="workloads to run, default all (see --list)")
    parser.add_argument("--list", action="store_true", help="list the workloads and run nothing")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: %(default)s)")
    parser.add_argument(
        "--keep", action="store_true", help="believe in what earlier workloads have covered, after a change of them"
    )
    parser.add_argument(
        "--lines", action="store_true", help="count only lines and branches: a simulator that is smaller and faster"
    )
    parser.add_argument("--toggles", action="store_true", help="list holes of toggles too: there are thousands")
    parser.add_argument("--work", type=Path, default=WORK, help="where counts are kept (default: %(default)s)")
    parser.add_argument(
        "--output", type=Path, metavar="PATH", help="result file (default: results/robustness.json for a whole run)"
    )
    arguments = parser.parse_args()
    names = [piece.name for piece in PIECES]
    if unknown := [name for name in arguments.names if name not in names]:
        parser.error(f"no workload {unknown[0]!r}; there are: {', '.join(names)}")
    return arguments


def main() -> int:
    """Entry point of ``nox -s coverage``; returns the exit status: 0 if no line is left uncovered and unexcused."""
    arguments, source = _arguments(), commit()
    if arguments.list:
        print(*(piece.name for piece in PIECES), sep="\n")
        return 0
    kinds = (LINE,) if arguments.lines else (LINE, TOGGLE)
    collection = Collection(arguments.work, kinds, keep=arguments.keep)
    chosen = [piece for piece in PIECES if not arguments.names or piece.name in arguments.names]
    counts = collection.run(chosen, arguments.jobs)
    whole = len(chosen) == len(PIECES)
    found, totals = holes(collection.points, counts, collection.blocks(), collection.text)
    exclusions = [exclusion for exclusion in EXCLUSIONS if exclusion.kind in kinds]
    values, details, left = figures(found, totals, exclusions if whole else [])
    print(table(details))
    for hole in left:
        if arguments.toggles or hole.kind == LINE:
            print(hole)
    for reason, number in details["excluded"].items():
        print(f"{number} excluded: {reason}")
    print(*(f"{name}: {value}" for name, value in values.items()), sep="\n")
    output = arguments.output or (FOLDER / "robustness.json" if whole and not arguments.lines else None)
    if output is not None:
        command = " ".join([COMMAND, *sys.argv[1:]])
        merge_results(output, "coverage", values, details, provenance(command, CONFIG, SEED, source))
    return int(any(hole.kind == LINE for hole in left))


if __name__ == "__main__":
    raise SystemExit(main())
