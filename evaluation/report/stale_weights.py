"""The measured section of ``docs/stale-weights.md``, from ``results/stale_weights.json``.

``python -m adagp.evaluation.report.stale_weights`` writes it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...algorithm import paper_numbers as paper
from ...gen.provenance import NOW
from ..checkout import require_checkout
from .figures import RESULTS, where
from .reference import table

__all__ = ["PATH", "document", "main", "section"]

MODULE = "adagp.evaluation.report.stale_weights"
PATH = Path(__file__).parents[2] / "docs" / "stale-weights.md"
"""The committed copy."""
BEGIN, END = f"<!-- Written by python -m {MODULE}: -->", "<!-- until here -->"
FAMILIES = {"lenet5": "lenet5", "small-vgg": "vgg", "resnet20": "resnet"}
"""The paper's network that is nearest to each."""


def _drop(figures: Mapping[str, Any], method: str, name: str) -> str:
    value, error = figures.get(f"drop_{method}_{name}"), figures.get(f"drop_error_{method}_{name}")
    return "" if value is None else f"{value:.2f}" + ("" if error is None else f" ± {error:.2f}")


def _said(method: str, name: str) -> str:
    family = FAMILIES[name]
    if method == "stale-early":
        return f"{paper.STALE_EARLY_DROP[family]:g}"
    deep = paper.STALE_DEEP_DROP.get(family)
    return f"up to {deep:g}" if method == "stale-deep" and deep is not None else ""


def _accuracies(name: str, case: Mapping[str, Any], figures: Mapping[str, Any]) -> str:
    rows = []
    for method in case["methods"]:
        end = f"{method}_{name}"
        rate, tried = figures[f"lr_{end}"], case["lrs"]
        edge = " (edge)" if rate in (min(tried), max(tried)) else ""
        rows.append((
            f"`{method}`", f"{rate:g}{edge}", f"{figures[f'accuracy_{end}']:.2f}", _drop(figures, method, name),
            _said(method, name), figures[f"diverged_{end}"],
        ))  # fmt: skip
    head = ("method", "learning rate", "accuracy, %", "drop, points", "the paper's drop", "diverged")
    return table(head, rows)


def _memory(name: str, rows: list[dict[str, int]], figures: Mapping[str, Any]) -> str:
    cells = [(number, row["missed"], f"{row['weights']:,}", f"{row['activations']:,}", f"{row['held']:,}",
              f"{row['stashed']:,}") for number, row in enumerate(rows)]  # fmt: skip
    head = (
        "stage",
        "updates missed",
        "weights",
        "activations of a batch",
        "activations held",
        "PipeDream's old weights",
    )
    stale, stash = (figures[f"memory_{scheme}_{name}"] for scheme in ("stale", "pipedream"))
    counted = [figures[f"counted_{scheme}_{name}"] for scheme in ("stale", "pipedream")]
    agree = "A run held as many." if counted == [stale, stash] else f"A run held {counted[0]:,} and {counted[1]:,}."
    words = (
        f"In bytes, for `stale-deep`. All stages: {stale:,} with stale weights, {stash:,} with PipeDream's old weights,"
        f"\n{100 * (stash / stale - 1):.1f} % more. {agree}"
    )
    return f"{words}\n\n{table(head, cells)}"


def section(results: Mapping[str, Any]) -> str:
    """All networks that were measured: accuracies and memory."""
    figures, parts = results["figures"], []
    for name, part in results["details"].items():
        case = part["details"]["case"]
        head = (
            f"`{name}` on {case['images']:,} images of {case['data']}, {case['image_size']} pixels wide:"
            f" {case['epochs']} epochs in batches of {case['batch']},\n{figures[f'seeds_{name}']} seeds."
        )
        origin = where(results["provenance"][name], NOW)
        body = (_accuracies(name, case, figures), _memory(name, part["details"]["memory"], figures))
        parts.append("\n\n".join((f"### {name}", head, origin, *body)))
    return "\n\n".join(parts)


def document(text: str, results: Mapping[str, Any]) -> str:
    """The page with its section anew."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{section(results)}\n\n{END}{rest.split(END, 1)[1]}"


def main() -> None:
    """Write the section."""
    PATH.write_text(document(PATH.read_text(), json.loads((RESULTS / "stale_weights.json").read_text())))


if __name__ == "__main__":
    require_checkout()
    main()
