"""The measured figures in README.md: one table, the verdict on the method, and the age of the proofs.

``python -m adagp.evaluation.report.readme`` writes that section from ``results/``. Ages are as of the
hardware that ``docs/figures.md`` names.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ...spec.config import VARIANTS
from ..checkout import require_checkout
from . import figures
from .accuracy.findings import Findings
from .accuracy.verdicts import count_of_verdicts
from .reference import table

__all__ = ["PATH", "document", "main", "proofs", "section"]

MODULE = "adagp.evaluation.report.readme"
PATH = Path(__file__).parents[2] / "README.md"
"""The committed copy."""
BEGIN, END = f"<!-- Written by python -m {MODULE}: -->", "<!-- until here -->"
TITLES = {"baseline": "baseline", "low": "LOW", "efficient": "Efficient", "max": "MAX"}
DESIGNS = ("variants_vgg13", "variants_digits", "ecp5")
"""Results that the table of designs is made of."""
Read = Mapping[str, Mapping[str, Any]]
"""Figures of the results by their file's name."""


def _read(folder: Path) -> Read:
    """Figures of all results, by the name of their file."""
    return {path.stem: json.loads(path.read_text())["figures"] for path in folder.glob("*.json")}


def _by_design(found: Mapping[str, Any], name: str) -> list[float]:
    return [found[f"{name}_{variant}"] for variant in VARIANTS]


def _designs(read: Read, ages: Mapping[str, str], target_mhz: float) -> str:
    """The table of the four designs; ``ages`` are those of the results."""
    vgg13, digits, ecp5 = (read[name] for name in DESIGNS)
    clocks, luts = _by_design(ecp5, "fmax_median_mhz"), _by_design(ecp5, "lut")
    cycles = _by_design(digits, "speedup")
    in_time = [speedup * clock / clocks[0] for speedup, clock in zip(cycles, clocks, strict=True)]
    rows = (
        (f"speed-up in cycles: VGG13, preset `paper` (the paper: {vgg13['paper_speedup']:.2f})",
         *(f"{value:.2f}" for value in _by_design(vgg13, "speedup"))),
        ("speed-up in cycles: digits CNN, preset `ecp5`", *(f"{value:.2f}" for value in cycles)),
        ("the same at each design's own clock on ECP5", *(f"**{value:.2f}**" for value in in_time)),
        (f"clock on ECP5, median of seeds, MHz (target {target_mhz:g})", *(f"{value:.1f}" for value in clocks)),
        ("LUTs on ECP5, preset `ecp5`", *(f"{value:,}" for value in luts)),
    )  # fmt: skip
    of_vgg13, of_digits, of_ecp5 = (ages[name] for name in DESIGNS)
    row_ages = (of_vgg13, of_digits, "; ".join(sorted({of_digits, of_ecp5})), of_ecp5, of_ecp5)
    aged = [(*row, age) for row, age in zip(rows, row_ages, strict=True)]
    return table(("", *(TITLES[variant] for variant in VARIANTS), "age"), aged)


def _mutants(found: Mapping[str, Any], prefix: str) -> str:
    """The outcomes of a campaign of mutants."""
    caught = found[f"{prefix}mutants_caught_by_block"] + found[f"{prefix}mutants_caught_by_top"]
    return (
        f"{found[f'{prefix}mutants']:,}: {caught:,} caught, {found[f'{prefix}mutants_survived']:,} survived,"
        f" {found[f'{prefix}mutants_unproved']:,} argued harmless, the others proved equivalent"
    )


@cache
def formal_jobs() -> list[str]:
    """Formal jobs that the checkout has, with or without a recorded outcome."""
    code = "from formal.properties import JOBS; print(*JOBS)"
    path = os.pathsep.join(str(PATH.parent / folder) for folder in ("tb", "tb/support"))
    found = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    return found.stdout.split()


def proofs(folder: Path, now: Any) -> str:
    """A table of what holds the hardware to its contract, with the age of each result."""
    read = json.loads((folder / "robustness.json").read_text())
    found, origins, details = read["figures"], read["provenance"], read["details"]
    cases = ("random_networks", "random_predicting_networks", "random_commands", "random_predicting_commands",
             "axi_faults", "predicted_axi_faults", "resets", "predicted_resets")  # fmt: skip
    failures = sum(
        value for name, value in found.items()
        if name.endswith(("_mismatches", "_failures")) and not name.startswith("formal")
    )  # fmt: skip
    ages = sorted({figures.age(origins[name], now) for name in cases})
    switched = origins.get("mutation_switched")
    jobs = formal_jobs()
    outcomes = [
        result["outcome"] for name, job in details["formal"]["details"].items() if name in jobs
        for result in job["results"] if result["kind"] == "assert"
    ]  # fmt: skip
    known = sum(name in jobs for name in details["formal"]["details"])
    searched = outcomes.count("bounded")
    to_a_depth = f", {searched} more only up to a number of cycles" if searched else ""
    ages_of_switched = figures.age(switched, now) if switched else "-"
    rows = [
        ("random networks and commands, faults, resets", "`bench_robustness`",
         f"{sum(found[name] for name in cases):,} cases, {failures:,} failures", "; ".join(ages)),
        ("formal proofs", "`formal`", f"{outcomes.count('proved'):,} of {len(outcomes):,} properties"
         f" of {known} of {len(jobs)} jobs{to_a_depth}", figures.age(origins["formal"], now)),
        ("mutants of the baseline", "`mutate`", _mutants(found, ""), figures.age(origins["mutation"], now)),
        ("mutants of the predicting designs", "`mutate -- --predicting`", _mutants(found, "predicting_"),
         figures.age(origins["mutation_predicting"], now)),
        ("mutants of what the switches add", "`mutate -- --switched`",
         _mutants(found, "switched_") if "switched_mutants" in found else "not run to the end", ages_of_switched),
        ("coverage of the Verilog", "`coverage`", f"lines {found['line_coverage']:.4g} %, branches"
         f" {found['branch_coverage']:.4g} %, toggles {found['toggle_coverage']:.3g} %",
         figures.age(origins["coverage"], now)),
    ]  # fmt: skip
    return table(("proof", "session", "result", "age"), rows)


def _test_time(folder: Path) -> str:
    """A sentence on the time of all tests, if it was measured."""
    path = folder / "house.json"
    seconds = json.loads(path.read_text())["figures"].get("test_seconds") if path.exists() else None
    return f"\n`./adagp test` took {seconds / 60:.0f} minutes on two cores that did nothing else." if seconds else ""


def section(folder: Path, now: Any) -> str:
    """The section in Markdown; ``now``: the hardware that is current, as :func:`.figures.age` takes it."""
    read = _read(folder)
    origins = {name: json.loads((folder / f"{name}.json").read_text())["provenance"] for name in DESIGNS}
    ages = {name: figures.age(origin, now) for name, origin in origins.items()}
    below, above, undecided = count_of_verdicts(Findings.read(folder / "accuracy.json"))
    run = json.loads((folder / "train.json").read_text())["figures"]
    claim = "isn't confirmed" if below > above else "is open" if not above else "holds in some regimes"
    n_regimes = below + above + undecided
    return f"""**ADA-GP's claim on accuracy {claim}.** In {below} of {n_regimes} regimes plain training of no
higher cost is clearly more accurate than ADA-GP, in {above} it is less accurate, and {undecided} are undecided
([accuracy](docs/accuracy.md)). Speed-ups follow the paper's schedule of 90 epochs, and are in cycles. The row in bold
is in time: each design at its own clock. *Of earlier hardware* means measured before the last change of the hardware.

{_designs(read, ages, origins["ecp5"]["clock_hz"] / 1e6)}

The default run reaches {100 * run["sim_test_accuracy"]:.1f} % on test images in {run["training_cycles"]:,} cycles,
which took {run["command_seconds_warm"]:.0f} s on two cores, {run["command_seconds_cold"]:.0f} s with its simulator's
build.{_test_time(folder)}
Simulated hardware and golden model end with {"equal" if run["hash_equal"] else "different"} weights, bit for bit.
[All figures](docs/figures.md) say where they come from.

The proofs and their ages:

{proofs(folder, now)}"""


def document(text: str, folder: Path = figures.RESULTS, now: Any = None) -> str:
    """``text`` with its section written anew; raises ValueError where it has no marks for it."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the section goes between the lines {BEGIN} and {END}")
    now = now or figures.named(figures.PATH.read_text())
    return f"{before}{BEGIN}\n\n{section(folder, now)}\n\n{END}{after}"


def main() -> None:
    """Write the section."""
    PATH.write_text(document(PATH.read_text()))


if __name__ == "__main__":
    require_checkout()
    main()
