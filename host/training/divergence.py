"""Divergence: a training run whose loss has become meaningless is stopped."""

import math

__all__ = ["DivergenceError", "check_loss"]

HOPELESS = 1000
"""A loss this many times that of guessing counts as divergence."""


class DivergenceError(RuntimeError):
    """A training run that has diverged; the message says in which batch."""


def check_loss(loss: float | None, n_classes: int, place: str) -> None:
    """Raise DivergenceError for a loss beyond all sense; ``place`` is the batch or test that it was measured in.

    Weights can't become NaN in fixed point: they saturate, or their exponents grow without end, and the loss with
    them. None, an unknown loss, passes.
    """
    guessing = math.log(max(2, n_classes))
    if loss is not None and not loss <= HOPELESS * guessing:
        raise DivergenceError(
            f"training has diverged: the loss of {place} is {loss:.3g}, that of guessing {guessing:.3g};"
            " try a lower --learning-rate with --fresh"
        )
