"""A table of the methods."""

from collections.abc import Iterable

from ....algorithm.paper_numbers import EPOCHS, PHASES, WARMUP_EPOCHS
from ....experiments.methods.ideas import IDEAS
from ....experiments.methods.methods import METHODS, Method
from ....spec.schedule import KEEP
from ..reference import table

__all__ = ["legend"]

GRADIENTS = {
    "predicted": "predicted from each layer's output", "random": "predicted, each sign at random",
    "zero": "none: momentum and weight decay go on", "last": "of the last batch with true ones",
    "mean": "exponential mean of true ones", "skip": "the batch is left out",
    "dni": "from a guess of each output's gradient, by another predictor (DNI)", **IDEAS,
}  # fmt: skip
"""Texts on GP batches, by source."""


def _phases(method: Method) -> str:
    entries = PHASES if isinstance(method.entries, str) else method.entries
    return ", ".join(f"{gp}:{bp}" for _, gp, bp in entries)


def _gradients(method: Method) -> str:
    if not method.entries:
        return f"plain training for {method.share:.0%} of the epochs, rounded to whole ones"
    raw = ", with the paper's predictor as it is: its targets not normalised" * method.raw
    gate = "" if method.gate is None else f", only while most had a cosine of {method.gate:g} at least"
    every = "" if method.every == 1 else f"; the predictor learns in one of {method.every} batches with true gradients"
    kept = "; the step is without momentum, which stays as it is" * (method.gp_momentum == KEEP)
    waits = "; the step waits for the next batch with true gradients" * method.deferred
    return GRADIENTS[method.source] + raw + gate + every + kept + waits


def legend(names: Iterable[str]) -> str:
    """The table of the methods that were run."""
    there = {name: METHODS[name] for name in METHODS if name in set(names)}
    rows = [(f"`{name}`", _phases(method), _gradients(method)) for name, method in there.items()]
    return f"""## Methods

The second column has the number of GP batches for each batch with true gradients (BP), after the warm-up. The warm-up
is {WARMUP_EPOCHS / EPOCHS:.0%} of the epochs and at least one. {len(PHASES)} ratios, one after the other, are the
paper's schedule. Predictions have normalised targets; training here doesn't work without them (`docs/pytorch.md`).

{table(("method", "GP:BP", "gradients of a GP batch"), rows)}"""
