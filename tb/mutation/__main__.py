"""Mutation testing of the accelerator: parts ``mutation``, with a suffix or none, of results/robustness.json.

Yosys breaks the netlist of preset tiny in a number of places for every file of rtl/. Each mutant meets its block's
bench first, if the block has one on Verilog. If that bench doesn't notice it, the top's bench is next. ABC then tries
to prove survivors equivalent. Answers are kept in build/mutation under a digest of everything they depend on. So a
campaign that was stopped goes on, and after a change only the answers that it may affect are sought anew. The result
file is written when no answer is missing.
"""

import argparse
import json
import tempfile
from pathlib import Path

import torch
from adagp.evaluation.instruments.results import FOLDER, merge_results
from adagp.gen.provenance import commit, provenance
from adagp.host.console import at_least_one

from .campaign import WORK, Campaign
from .parts import PARTS
from .records import Records
from .table import figures, table
from .touched import mutant_of
from .waivers import MOST_ARGUED

COMMAND = "python -m tb.mutation"
SEED = 1
RESULTS = FOLDER / "robustness.json"


def _arguments():
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    counts = ", ".join(str(part.count) for part in PARTS.values())
    parser.add_argument("--count", type=int, help=f"mutants, at least (default, by part: {counts})")
    parser.add_argument("--sample", type=int, metavar="N", help="only N of them, from all blocks")
    parser.add_argument("--seed", type=int, default=SEED, help="what chooses them (default: %(default)s)")
    parser.add_argument("--jobs", type=at_least_one, default=1, help="processes (default: %(default)s)")
    parser.add_argument("--report", action="store_true", help="run nothing, report on what is known and current")
    parser.add_argument(
        "--check", action="store_true", help="run nothing, say how many rows of the results are current"
    )
    parser.add_argument("--only", type=int, metavar="NUMBER", help="run one mutant alone, whatever is known of it")
    kinds = parser.add_mutually_exclusive_group()
    for kind, of in (("predicting", "variant max"), ("switched", "a design with all switches")):
        help = f"of {of}, what the baseline has nothing of: a part of its own"
        kinds.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind, help=help)
    parser.add_argument("--work", type=Path, default=WORK, help="where answers are kept (default: %(default)s)")
    parser.add_argument(
        "--output", type=Path, metavar="PATH", help=f"result file (default: {RESULTS}, but nothing for a sample)"
    )
    return parser.parse_args()


def _check(campaign: Campaign, path: Path, part: str) -> int:
    """Say how many rows of a result file the present sources would give again; returns the exit status."""
    details = json.loads(path.read_text())["details"].get(part, {}).get("details", {})
    rows = details.get("mutants", [])
    findings = [campaign.finding(mutant_of(row)) for row in rows]
    stale = sum(row.get("digests") != finding.digests for row, finding in zip(rows, findings, strict=True))
    print(f"{path}: {stale} of {len(rows)} rows are stale")
    return int(stale > 0)


def _alone(campaign: Campaign, number: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        campaign.records = Records(Path(folder) / "records.jsonl")
        campaign.run([campaign.mutants[number - 1]])
    print(json.dumps(campaign.finding(campaign.mutants[number - 1]).row(), indent=1))
    return 0


def main() -> int:
    """Entry point of ``nox -s mutate``; returns the exit status.

    The status is 0 if each mutant was caught, proved equivalent, or has a waiver. There may be MOST_ARGUED waivers at
    most, and each must be used.
    """
    arguments, source = _arguments(), commit()
    torch.set_num_threads(1)
    name, kind = (f"mutation_{arguments.kind}", [f"--{arguments.kind}"]) if arguments.kind else ("mutation", [])
    part = PARTS[name]
    count = arguments.count or part.count
    campaign = Campaign(count, arguments.seed, arguments.work, part)
    if arguments.check:
        return _check(campaign, arguments.output or RESULTS, name)
    if arguments.only is not None:
        if not 1 <= arguments.only <= len(campaign.mutants):
            raise SystemExit(f"there is no mutant {arguments.only}: they are 1 to {len(campaign.mutants)}")
        return _alone(campaign, arguments.only)
    chosen = campaign.mutants
    if arguments.sample:
        chosen = chosen[:: max(1, len(chosen) // arguments.sample)][: arguments.sample]
    if not arguments.report:
        campaign.run(chosen, arguments.jobs)
    findings = [campaign.finding(mutant) for mutant in chosen]
    if stale := sum(not finding.complete for finding in findings):
        print(f"nothing is written: answers are stale or missing for {stale} of {len(findings)} mutants")
        return 1
    found, details = figures(findings)
    print(table(details["blocks"]))
    again = " ".join([COMMAND, *kind])
    for row in details["mutants"]:
        if row["result"] == "survived":
            place = (
                f"rtl/{row['block'].replace('.', '/')}.py:{row['line']}, {row['module']}, {row['cell']} ({row['kind']})"
            )
            break_ = f"{row['mode']} of {row['port']}[{row['portbit']}]"
            print(f"SURVIVED {place}: {break_}; again: {again} --only {row['number']}")
    argued = {finding.mutant.command for finding in findings if finding.reason}
    unused = [] if arguments.sample else sorted(part.argued.keys() - argued)
    for command in unused:
        print(f"argued of no mutant of this netlist that is left: {command}")
    print(*(f"{name}: {value}" for name, value in found.items()), sep="\n")
    status = int(found["mutants_survived"] > 0 or found["mutants_unproved"] > MOST_ARGUED or bool(unused))
    output = arguments.output or (None if arguments.sample else RESULTS)
    if output is not None:
        command = " ".join([COMMAND, f"--count {count}", f"--seed {arguments.seed}", *kind])
        found = {f"{part.figures}{name}": value for name, value in found.items()}
        merge_results(output, name, found, details, provenance(command, part.config, arguments.seed, source))
    return status


if __name__ == "__main__":
    raise SystemExit(main())
