"""The section of ``docs/ada-gp.md`` on options that spare traffic: energy saved, and what they do to accuracy.

``python -m adagp.evaluation.report.prediction_traffic`` writes it from ``results/prediction_traffic.json`` and
``results/accuracy_options.json``.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from ..benches.prediction_traffic import BATCH, EVERY, OPTIONS
from ..checkout import require_checkout
from ..instruments.paper_batches import DATA
from .accuracy.findings import Findings, clear
from .reference import table

__all__ = ["ACCURACY", "END", "ENERGY", "PATH", "ROOT", "accuracy", "document", "energy", "groups_of", "main"]

MODULE = "adagp.evaluation.report.prediction_traffic"
ROOT = Path(__file__).parents[2]
PATH = ROOT / "docs" / "ada-gp.md"
"""The committed copy."""
ENERGY, ACCURACY = (ROOT / "results" / name for name in ("prediction_traffic.json", "accuracy_options.json"))
BEGIN, END = f"<!-- Written by python -m {MODULE}: -->", "<!-- until here -->"
TITLES = {
    "built": "neither", "every": f"`predictor_every` = {EVERY}", "keep": "`gp_momentum` = `keep`", "both": "both",
    "both_8": "8, `keep`", "both_16": "16, `keep`", "stream": "both, and streamed",
}  # fmt: skip
"""Columns, by option."""
METHODS = {
    "ada-gp-every-4": "every", "ada-gp-keep": "keep", "ada-gp-every-4-keep": "both", "ada-gp-every-16-keep": "both_16",
}  # fmt: skip
"""Options by the method of a comparison."""
ENERGY_TEXT = """MAX over the baseline, estimated, at batch 32 if no other is named: DRAM energy saved in a mean batch
of the paper's 90 epochs. *Ideal*: a GP batch moves the bytes of a forward pass alone. *Streamed*: with `predictions` =
`stream`. A column with a number is `predictor_every` of it; an empty cell wasn't measured."""
SPEED_TEXT = "Speed-ups over the baseline:"
ACCURACY_TEXT = """Test accuracy in percent, and differences to ADA-GP without these options in points, with 95 %
intervals, by the protocol of [accuracy.md](accuracy.md). An asterisk marks a difference that is clear among all of its
regime. (lost): one of the runs diverged and counts as 0, so the cell claims nothing."""


def _data(part: str) -> str:
    """Data of a part of the results, and its batch if it isn't the usual one."""
    _, data, *batch = part.split("_")
    return DATA[data].title + "".join(f", batch {size}" for size in batch if int(size) != BATCH)


def groups_of(parts: Iterable[str]) -> dict[str, list[str]]:
    """Parts by their data and batch."""
    groups: dict[str, list[str]] = {}
    for part in parts:
        groups.setdefault(_data(part), []).append(part)
    return groups


def _mean(figures: Mapping[str, float], figure: str, parts: Sequence[str]) -> float | None:
    """The mean of a figure over parts; None where one lacks it."""
    found = [figures.get(figure.format(part)) for part in parts]
    return None if None in found else fmean(each for each in found if each is not None)


def energy(results: Mapping) -> str:
    """Tables of savings and of speed-ups by network and option."""
    figures, saved, fast = results["figures"], [], []
    for data, parts in groups_of(results["details"]).items():
        rows = [(part.split("_")[0], [part]) for part in parts]
        for label, names in [*rows, *[(f"mean of {len(parts)}", parts)] * (len(parts) > 2)]:
            savings = (_mean(figures, "dram_energy_saving_{}_" + option, names) for option in OPTIONS)
            cells = ("" if saving is None else f"{100 * saving:.1f} %" for saving in savings)
            ideal = fmean(figures[f"ideal_saving_{name}"] for name in names)
            saved.append((f"{label}, {data}", *cells, f"{100 * ideal:.1f} %"))
            speeds = (_mean(figures, "speedup_{}_" + option, names) for option in OPTIONS)
            fast.append((f"{label}, {data}", *("" if speed is None else f"{speed:.3f}" for speed in speeds)))
    heads = ("network, data", *(TITLES[option] for option in OPTIONS))
    return "\n\n".join((
        ENERGY_TEXT, table((*heads, "ideal"), saved), SPEED_TEXT, table(heads, fast),
    ))  # fmt: skip


def accuracy(by_regime: Mapping[str, Findings]) -> str:
    """A table of accuracies by regime, and the differences that the options make."""
    rows = []
    for name, found in by_regime.items():
        gaps = {method: gap for method in METHODS if (gap := found.against(method, "ada-gp"))}
        sure = clear(gaps)
        plain = (f"{found.of('accuracy', method):.2f} ± {found.of('sd', method):.2f}" for method in ("bp-1", "ada-gp"))
        told = {
            method: f"{gap}" + " *" * (method in sure) + " (lost)" * gap.lost for method, gap in gaps.items()
        }  # fmt: skip
        rows.append((name, *plain, *(told.get(method, "") for method in METHODS)))
    heads = ("regime", "backpropagation", "ADA-GP", *(TITLES[option] for option in METHODS.values()))
    return f"{ACCURACY_TEXT}\n\n{table(heads, rows)}"


def document(text: str, results: Mapping, by_regime: Mapping[str, Findings]) -> str:
    """The page with its section anew."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{energy(results)}\n\n{accuracy(by_regime)}\n\n{END}{rest.split(END, 1)[1]}"


def main() -> None:
    """Write the section, if there are results."""
    if not (ENERGY.exists() and ACCURACY.exists()):
        return
    PATH.write_text(document(PATH.read_text(), json.loads(ENERGY.read_text()), Findings.read(ACCURACY)))


if __name__ == "__main__":
    require_checkout()
    main()
