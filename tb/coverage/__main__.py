"""Coverage of the generated Verilog at preset tiny: part ``coverage`` of results/robustness.json.

Two kinds of tests run here: the workloads that mutants of the top meet (tests also compare these with the golden
model), and the cocotb benches, of blocks and of the whole. Their simulators count how often each line, each arm of a
branch and each edge of each bit is seen. A netlist's Verilog has few lines of more than one assignment, so most lines
are seen in any run. The arms show how much the tests reach. The counts of each workload and bench are kept in
build/coverage, so a run that was stopped goes on after the last one that finished.
"""

import argparse
from pathlib import Path

from adagp.evaluation.instruments.results import FOLDER, merge_results
from adagp.gen.provenance import commit, provenance
from adagp.host.console import at_least_one
from adagp.sim.coverage import TOGGLE

from ..mutation.observations import CONFIG, SEED
from .benches import Bench
from .collect import ALL, WORK, Collection
from .exclusions import EXCLUSIONS
from .figures import figures, holes, sources, table, toggles

COMMAND = "python -m tb.coverage"
RESULTS = FOLDER / "robustness.json"


def _arguments():
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to run, default all (see --list)")
    parser.add_argument("--list", action="store_true", help="list workloads and benches and run nothing")
    parser.add_argument("--jobs", type=at_least_one, default=1, help="processes (default: %(default)s)")
    parser.add_argument(
        "--keep",
        action="store_true",
        help="believe in what earlier workloads have covered, after a change of them; not for the results",
    )
    parser.add_argument("--toggles", action="store_true", help="list holes of toggles too: there are thousands")
    parser.add_argument("--work", type=Path, default=WORK, help="where counts are kept (default: %(default)s)")
    parser.add_argument(
        "--output", type=Path, metavar="PATH", help="result file (default: results/robustness.json for a whole run)"
    )
    arguments = parser.parse_args()
    names = [piece.name for piece in ALL]
    if unknown := [name for name in arguments.names if name not in names]:
        parser.error(f"no workload {unknown[0]!r}; there are: {', '.join(names)}")
    arguments.whole = set(names) <= set(arguments.names or names)
    arguments.output = arguments.output or (RESULTS if arguments.whole else None)
    if arguments.keep and arguments.output is not None and arguments.output.resolve() == RESULTS.resolve():
        parser.error("--keep counts what no present test may cover, which isn't for the results: give another --output")
    return arguments


def main() -> int:
    """Entry point of ``nox -s coverage``; returns the exit status: 0 if no line or branch is left uncovered."""
    arguments, source = _arguments(), commit()
    if arguments.list:
        print(*(piece.name for piece in ALL), sep="\n")
        return 0
    collection = Collection(arguments.work, keep=arguments.keep)
    chosen = [piece for piece in ALL if not arguments.names or piece.name in arguments.names]
    by_source = collection.run(chosen, arguments.jobs)
    counts, blocks = sum(by_source.values()), collection.blocks()
    found, totals = holes(collection.points, counts, blocks, collection.text)
    values, details, left = figures(found, totals, EXCLUSIONS if arguments.whole else [])
    details["sources"] = sources(collection.points, by_source)
    for bench in (piece for piece in chosen if isinstance(piece, Bench)):
        details["sources"][bench.source] |= collection.found(bench)
    details["toggle_holes"] = toggles(collection.points, counts, blocks)
    print(table(details))
    for hole in left:
        if arguments.toggles or hole.kind != TOGGLE:
            print(hole)
    for title in ("excluded", "sources", "toggle_holes"):
        print(title, *(f"{name}: {value}" for name, value in details[title].items()), sep="\n  ")
    print(*(f"{name}: {value}" for name, value in values.items()), sep="\n")
    if arguments.output is not None:
        merge_results(arguments.output, "coverage", values, details, provenance(COMMAND, CONFIG, SEED, source))
    return int(any(hole.kind != TOGGLE for hole in left))


if __name__ == "__main__":
    raise SystemExit(main())
