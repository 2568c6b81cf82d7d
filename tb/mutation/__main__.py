"""Mutation testing of the accelerator: part ``mutation`` of results/robustness.json.

Yosys chooses breaks of the netlist of preset tiny, so many for every file of rtl/. Each is run against its block's
bench (if the block has one on Verilog), then against the top's; survivors are put to Yosys' SAT solver. What was found
is kept in build/mutation: a campaign that was stopped goes on after the last mutant it finished.
"""

import argparse
import sys
from pathlib import Path

import torch
from adagp.host.results import FOLDER, commit, merge_results, provenance

from .blocks import ORDER
from .campaign import WORK, Campaign
from .seen import CONFIG
from .table import figures, table

COMMAND = "python -m tb.mutation"
COUNT, SEED = 250, 1


def _arguments():
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=COUNT, help="mutants, at least (default: %(default)s)")
    parser.add_argument("--first", type=int, metavar="N", help="only the first N, for a sample")
    parser.add_argument("--seed", type=int, default=SEED, help="what chooses them (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: %(default)s)")
    parser.add_argument(
        "--order",
        nargs="+",
        choices=ORDER,
        default=ORDER,
        help="benches to run, in order; what they say is kept apart, and a later run asks only those that it must",
    )
    parser.add_argument(
        "--keep", action="store_true", help="believe in what earlier benches have caught, after a change of benches"
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="run nothing, report on what is known; with --keep, from other benches too",
    )
    parser.add_argument("--no-proofs", action="store_true", help="don't try to prove survivors equivalent")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="run one mutant alone, and keep nothing")
    parser.add_argument("--work", type=Path, default=WORK, help="where findings are kept (default: %(default)s)")
    parser.add_argument(
        "--output", type=Path, metavar="PATH", help="result file (default: results/robustness.json for a whole run)"
    )
    return parser.parse_args()


def main() -> int:
    """Entry point of ``nox -s mutate``; returns the exit status: 0 if no mutant survived."""
    arguments, source = _arguments(), commit()
    torch.set_num_threads(1)
    campaign = Campaign(arguments.count, arguments.seed, arguments.work, order=arguments.order)
    if arguments.only is not None:
        print(campaign.mutants[arguments.only - 1], campaign.alone(arguments.only), sep="\n")
        return 0
    chosen = campaign.mutants[: arguments.first]
    findings = campaign.run([] if arguments.report else chosen, arguments.jobs, arguments.keep)
    proofs = campaign.proofs if arguments.report or arguments.no_proofs else campaign.prove(chosen, findings)
    found, details = figures(chosen, findings, proofs)
    print(table(details["blocks"]))
    for row in details["mutants"]:
        if row["result"] == "survived":
            print("SURVIVED", {name: value for name, value in row.items() if value is not None})
    print(*(f"{name}: {value}" for name, value in found.items()), sep="\n")
    whole = len(chosen) == len(campaign.mutants) and set(arguments.order) == set(ORDER) and not arguments.no_proofs
    command = " ".join([COMMAND, *sys.argv[1:]])
    output = arguments.output or (FOLDER / "robustness.json" if whole else None)
    if output is not None:
        merge_results(output, "mutation", found, details, provenance(command, CONFIG, arguments.seed, source))
    return int(found["mutants_survived"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
