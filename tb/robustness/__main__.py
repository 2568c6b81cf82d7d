"""Robustness campaigns on the simulated RTL: results/robustness.json, a part per campaign.

Outcomes are kept in build/robustness: a campaign that was stopped goes on after the last case it finished.
"""

import argparse
from pathlib import Path

import torch
from adagp.evaluation.instruments.results import FOLDER, merge_results
from adagp.gen.provenance import commit, hardware_of, provenance
from adagp.host.console import at_least_one

from .campaign import WORK, Campaign, Kind, configured
from .kinds import KINDS

COMMAND = "python -m tb.robustness"


def _arguments():
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ", ".join(f"{kind.name} ({kind.count})" for kind in KINDS.values())
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"campaigns to run, default all; with their full size: {names}"
    )
    parser.add_argument("--count", type=int, metavar="N", help="run only the first N cases, instead of the full size")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="start of all random numbers (default: 1)")
    parser.add_argument(
        "--jobs", type=at_least_one, default=1, metavar="J", help="processes, each with a simulator of its own"
    )
    parser.add_argument("--only", type=int, metavar="INDEX", help="replay one case alone, and write nothing")
    parser.add_argument("--top", type=Path, metavar="V", help="simulate another top.v (of the only preset used)")
    parser.add_argument("--work", type=Path, default=WORK, help="where outcomes are kept (default: %(default)s)")
    parser.add_argument(
        "--output", type=Path, metavar="PATH", help="result file (default: results/robustness.json at full size)"
    )
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in KINDS]:
        parser.error(f"no campaign {unknown[0]!r}; there are: {', '.join(KINDS)}")
    for name in ("count", "only", "seed"):
        if (getattr(arguments, name) or 0) < 0:
            parser.error(f"--{name} {getattr(arguments, name)}: it must not be negative")
    return arguments


def _report(kind: Kind, arguments, source: str) -> int:
    """Run a campaign, print and write its figures; returns the number of failures."""
    campaign = Campaign(kind, arguments.seed, arguments.work, arguments.top)
    count = kind.count if arguments.count is None else arguments.count
    figures, details = campaign.figures(campaign.run(count, arguments.jobs))
    for outcome, number in details["outcomes"].items():
        print(f"{number:7}  {outcome}")
    for failure in details["failures"]:
        print(f"FAILED {kind.name} --only {failure['index']}: {failure['reason']}")
    print(", ".join(f"{name}: {value}" for name, value in figures.items()))
    print(f"{details['cases_per_core_second']} cases per core-second")
    whole = count == kind.count and arguments.top is None
    output = arguments.output or (FOLDER / "robustness.json" if whole else None)
    if output is not None:
        command = f"{COMMAND} {kind.name} --seed {arguments.seed}" + f" --count {count}" * (not whole)
        origin = provenance(command, configured(kind.presets[0]), arguments.seed, source)
        origin["config"] = ", ".join(kind.presets)
        origin["hardware"] = hardware_of(origin["config"])
        merge_results(output, kind.name, figures, details, origin)
    return len(details["failures"])


def main() -> int:
    """Entry point of ``nox -s bench_robustness``; returns the exit status."""
    arguments, source = _arguments(), commit()
    torch.set_num_threads(1)
    kinds = [KINDS[name] for name in arguments.names] or list(KINDS.values())
    if arguments.only is not None:
        for kind in kinds:
            print(kind.name, Campaign(kind, arguments.seed, arguments.work, arguments.top).replay(arguments.only))
        return 0
    return int(sum([_report(kind, arguments, source) for kind in kinds]) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
