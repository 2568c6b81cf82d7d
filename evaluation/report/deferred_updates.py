"""The part of ``docs/ada-gp.md`` on updates that wait for true gradients: an estimate by count, and accuracy.

``python -m adagp.evaluation.report.deferred_updates`` writes it from ``results/deferred_traffic.json``,
``results/prediction_traffic.json``, ``results/accuracy_deferred.json`` and ``results/accuracy_options.json``.
"""

import json
from collections.abc import Mapping
from statistics import fmean
from textwrap import fill

from ..benches.deferred_traffic import OPTIONS
from ..checkout import require_checkout
from .accuracy.findings import Findings
from .prediction_traffic import ACCURACY as OTHER_ACCURACY
from .prediction_traffic import END, ENERGY, PATH, ROOT, groups_of
from .reference import table

__all__ = ["accuracy", "document", "energy", "main"]

MODULE = "adagp.evaluation.report.deferred_updates"
COUNTED, ACCURACY = (ROOT / "results" / name for name in ("deferred_traffic.json", "accuracy_deferred.json"))
BEGIN = f"<!-- Written by python -m {MODULE}: -->"
SHOWN = ("vgg13", "resnet50")
"""Networks with rows of their own."""
OTHERS = ("ada-gp", "ada-gp-keep")
METHODS = {"ada-gp-deferred": "deferred", "ada-gp-every-4-deferred": "deferred, every 4"}
ENERGY_TEXT = """DRAM energy saved over the baseline, as above: the predictor learns every 4 batches or every 1, GP
batches `keep` momentum, and predictions are streamed. *Deferred* is an estimate without RTL or program: the bytes of
streamed predictions without those that a GP batch's UPDATE moves of the weights themselves."""
ACCURACY_TEXT = """Test accuracy in percent, and differences in points, seed by seed, with 95 % intervals. (lost): one
of the runs diverged and counts as 0, so these cells claim nothing. Each method has the learning rate that validation
chose: {}. A difference is therefore one of methods with their rates, not of deferring alone. Deferred updates were run
apart from the other methods, with the same seeds. Plain training was run both times; a seed's accuracy differs by up to
{} points. Savings of *the same, deferred* are with `predictor_every` = 4{}."""


def energy(counted: Mapping, results: Mapping) -> str:
    """A table of savings: of some networks, and means of all with the same data and batch."""
    figures, ideals, rows = counted["figures"], results["figures"], []
    for data, parts in groups_of(counted["details"]).items():
        own = [(name, [part]) for part in parts if (name := part.split("_")[0]) in SHOWN]
        for label, names in (*own, (f"mean of {len(parts)}", parts)):
            cells = [fmean(figures[f"dram_energy_saving_{name}_{option}"] for name in names) for option in OPTIONS]
            cells.append(fmean(ideals[f"ideal_saving_{name}"] for name in names))
            rows.append((f"{label}, {data}", *(f"{100 * cell:.1f} %" for cell in cells)))
    heads = ("network, data", "every 4, `keep`, streamed", "the same, deferred", "deferred, every 1", "ideal")
    return f"{ENERGY_TEXT}\n\n{table(heads, rows)}"


def accuracy(by_regime: Mapping[str, Findings], others: Mapping[str, Findings]) -> str:
    """A table of accuracies by regime, and what deferring makes of those of ``others``."""
    rows, apart, rates, lacking = [], [0.0], list[str](), list[str]()
    for name in (name for name in by_regime if name in others):
        found, there = by_regime[name], others[name]
        before = there.tests("bp-1")
        used = {
            "ADA-GP": (there, "ada-gp"), "`keep`": (there, "ada-gp-keep"),
            **{METHODS[one]: (found, one) for one in METHODS if one in found.details["methods"]},
        }  # fmt: skip
        told_rates = (f"{title} {of.details['methods'][one]['chosen']['lr']:g}" for title, (of, one) in used.items())
        rates.append(f"{name} {', '.join(told_rates)}")
        lacking += [name] * ("ada-gp-every-4-deferred" not in found.details["methods"])
        apart += [abs(test - before[seed]) for seed, test in found.tests("bp-1").items() if seed in before]
        for method in (one for one in METHODS if one in found.details["methods"]):
            pairs = ((found, "bp-1"), *((there, other) for other in OTHERS), (found, method))
            cells = (f"{of.of('accuracy', one):.2f} ± {of.of('sd', one):.2f}" for of, one in pairs)
            gaps = (found.against(method, other, there) for other in OTHERS)
            told = ("" if gap is None else f"{gap}" + " (lost)" * gap.lost for gap in gaps)
            rows.append((name, METHODS[method], *cells, *told))
    heads = ("regime", "updates", "backpropagation", "ADA-GP", "`gp_momentum` = `keep`", "deferred", "over ADA-GP",
             "over `keep`")  # fmt: skip
    untried = f", whose accuracy isn't measured in {' and '.join(lacking)}" * bool(lacking)
    text = ACCURACY_TEXT.format("; ".join(rates), f"{max(apart):.2f}", untried)
    return f"{fill(text, 120, break_on_hyphens=False)}\n\n{table(heads, rows)}"


def document(
    text: str, counted: Mapping, results: Mapping, by_regime: Mapping[str, Findings], others: Mapping[str, Findings]
) -> str:  # fmt: skip
    """The page with its part anew."""
    before, rest = text.split(BEGIN)
    made = f"{energy(counted, results)}\n\n{accuracy(by_regime, others)}"
    return f"{before}{BEGIN}\n\n{made}\n\n{END}{rest.split(END, 1)[1]}"


def main() -> None:
    """Write the part, if there are results."""
    if all(path.exists() for path in (COUNTED, ENERGY, ACCURACY, OTHER_ACCURACY)):
        counted, results = (json.loads(path.read_text()) for path in (COUNTED, ENERGY))
        regimes = map(Findings.read, (ACCURACY, OTHER_ACCURACY))
        PATH.write_text(document(PATH.read_text(), counted, results, *regimes))


if __name__ == "__main__":
    require_checkout()
    main()
