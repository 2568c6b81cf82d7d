"""Sections of ``docs/accuracy.md`` on the quality of predictions."""

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

from ....algorithm.paper_numbers import EPOCHS
from ...benches.predictor import BATCH, IMAGES, paper_batches
from ..provenance import details, fold, session
from ..reference import table
from .findings import Findings

__all__ = ["learning", "predictions"]


def predictions(by_regime: Mapping[str, Findings]) -> str:
    """Distances of predictions from true gradients, by regime and layer."""
    rows = []
    for name, found in by_regime.items():
        methods = found.details["methods"]
        for method in ("ada-gp-1:1" if "ada-gp-1:1" in methods else "ada-gp", "ada-gp-raw"):
            layers = methods.get(method, {}).get("quality") or {}
            for layer, q in layers.items():
                rows.append((name, f"`{method}`", f"`{layer}`", *(
                    "" if q[measure] is None else f"{q[measure]:.3g}"
                    for measure in ("mape", "cosine", "cosine_end", "sign_agreement", "norm_ratio")
                )))  # fmt: skip
    heads = (
        "regime",
        "method",
        "weight",
        "MAPE (equation 1)",
        "cosine",
        "cosine, last epoch",
        "equal signs",
        "norm, predicted over true",
    )
    return f"""## Quality of predictions

The table has means over BP batches after the warm-up, over epochs and seeds. A prediction of 0 has a MAPE of 1 (100 %);
a random prediction has a cosine near 0 and half of the signs. For VGG13's layers 2 to 10 the paper gives less than
0.16 % (section 6.1.2).

{table(heads, rows)}"""


def learning(folder: Path) -> str:
    """Distances after long training of the predictor; empty if ``folder`` hasn't the results."""
    path = folder / "predictor.json"
    if not path.exists():
        return ""
    written = json.loads(path.read_text())
    rows, origins = [], []
    for data, origin in written["provenance"].items():
        detail = written["details"][data]["details"]
        summary = f"{data}: {detail['batches']:,} batches, by <code>{session(origin['command'])}</code>"
        origins.append(fold(summary, details(origin)))
        for kind, runs in detail["tenths"].items():
            for layer in runs[0][0]:
                cosines = [fmean(run[tenth][layer]["cosine"] for run in runs) for tenth in (0, 1, 4, 9)]
                signs = fmean(run[-1][layer]["signs"] for run in runs)
                rows.append(
                    (f"{data}, {kind}", f"`{layer}`", *(f"{cosine:+.3f}" for cosine in cosines), f"{signs:.3f}")
                )
    told = "\n\n".join(origins)
    answer = "".join(
        f" {row[0]}: over all weights {row[3]} in the second tenth, {row[5]} in the last."
        for row in rows if row[1] == "`all`"
    )  # fmt: skip
    heads = ("network", "weight", "cosine in the first tenth", "second", "fifth", "last", "equal signs, last tenth")
    return f"""## Longer training of the predictor

This measurement shows whether the predictor would only have to learn for longer. The small CNN is trained with true
gradients alone, and its predictor beside it. Both see as many batches as the paper's trainings have with true
gradients: {paper_batches():,}, in {EPOCHS} epochs of {IMAGES:,} images in batches of {BATCH}. The network never uses a
prediction. *held* is a second run in which the network stays as it begins, so the predictor learns an unchanging
target. Figures are means over seeds; `all` is over layers, each by its number of weights. A cosine is between a
batch's true gradient and the prediction made before the batch was learned from.{answer}

{told}

{table(heads, rows)}"""
