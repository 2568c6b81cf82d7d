"""Sentences of ``docs/paper-figures.md`` on a GP batch's waits at the host's stops, from a bench's figures."""

from collections.abc import Mapping

__all__ = ["told"]

TITLES = {
    "low": "LOW, which has one array",
    "max_at_once": "MAX, predicting each layer at once",
    "max_at_once_8x8": "the same with 8x8 PEs for predictions",
    "max": "MAX as compiled now, predicting a layer while the main array computes later ones",
    "max_streamed": "MAX with `--predictions stream`",
}
"""Designs of the bench in words."""


def _millions(count: float) -> str:
    return f"{count / 1e6:.2f}"


def told(figures: Mapping[str, float]) -> str:
    """The cycles and waits of each design that was estimated; empty without any."""
    found = [_design(title, name, figures) for name, title in TITLES.items() if f"cycles_{name}" in figures]
    if not found:
        return ""
    counts = sorted({value for name, value in figures.items() if name.startswith("stops_")})
    return (
        f" A GP batch stops {' or '.join(map(str, counts))} times for the host. At each stop the machine waits for all"
        " its units, so a prediction and an update just before it hold up the main array. `python -m"
        " adagp.evaluation.benches.predictor_stops` counts the million cycles of a batch, and the waits for updates"
        f" after those for the predictor. {' '.join(found)}"
    )


def _design(title, name, figures):
    """A sentence on one design."""
    predictor = figures.get(f"predictor_{name}", 0)
    waits = f" {_millions(predictor)} wait for the predictor and" * bool(predictor)
    return (
        f"{title}: {_millions(figures[f'cycles_{name}'])}, of which{waits} {_millions(figures[f'update_{name}'])}"
        + (" for updates." if predictor else " wait for updates.")
    )
