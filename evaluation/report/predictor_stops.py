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
    found = [
        f"{title}: {_millions(figures[f'cycles_{name}'])}, of which"
        f" {_millions(figures.get(f'predictor_{name}', 0))} wait for the predictor"
        f" and {_millions(figures[f'update_{name}'])} for updates"
        for name, title in TITLES.items() if f"cycles_{name}" in figures
    ]  # fmt: skip
    if not found:
        return ""
    (count,) = {value for name, value in figures.items() if name.startswith("stops_")}
    return (
        f" A GP batch stops {count} times for the host. At each stop the machine waits for all its units, so a"
        " prediction and an update just before it hold up the main array. Million cycles of a batch, by"
        f" `python -m adagp.evaluation.benches.predictor_stops`: {'; '.join(found)}."
    )
