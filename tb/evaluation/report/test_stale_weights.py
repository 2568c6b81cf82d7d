"""The page of stale weights: its section is what the results give."""

import json

from adagp.evaluation.report import stale_weights
from adagp.evaluation.report.figures import RESULTS


def test_the_committed_page_has_the_results():
    text, results = stale_weights.PATH.read_text(), json.loads((RESULTS / "stale_weights.json").read_text())
    made = stale_weights.document(text, results)
    same = [a == b for a, b in zip(made.splitlines(), text.splitlines(), strict=True) if "<details>" not in a]
    assert all(same) and len(same) > 40, "run python -m adagp.evaluation.report.stale_weights"


def test_drops_stand_beside_the_papers():
    """Made-up figures; the rate is an edge of those tried, and the paper has a drop of early and of deep cuts."""
    case = {"methods": ["bp-1", "stale-early", "stale-deep"], "lrs": [0.1, 0.2, 0.3]}
    figures = {"drop_stale-early_small-vgg": 1.5, "drop_error_stale-early_small-vgg": 0.25}
    figures |= {"drop_stale-deep_small-vgg": -2.0}
    for method, rate in zip(case["methods"], (0.2, 0.2, 0.1), strict=True):
        end = f"{method}_small-vgg"
        figures |= {f"accuracy_{end}": 50.0, f"lr_{end}": rate, f"diverged_{end}": 0}
    rows = stale_weights._accuracies("small-vgg", case, figures).splitlines()[2:]
    assert rows == [
        "| `bp-1` | 0.2 | 50.00 |  |  | 0 |", "| `stale-early` | 0.2 | 50.00 | 1.50 ± 0.25 | 0.83 | 0 |",
        "| `stale-deep` | 0.1 (edge) | 50.00 | -2.00 | up to 12 | 0 |",
    ]  # fmt: skip
