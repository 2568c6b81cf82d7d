"""The schedule ``plateau``: a learning rate that falls when the loss stands still, as torch's ReduceLROnPlateau."""

import math
from dataclasses import dataclass

__all__ = ["Plateau"]

THRESHOLD = 1e-4
"""Share of the best loss by which a loss must be lower to count as better."""
LEAST_STEP = 1e-8
"""Smallest reduction of the rate that is made."""


@dataclass(frozen=True)
class Plateau:
    """A rate that is multiplied by ``factor`` after more than ``patience`` epochs without a better loss.

    Its state is plain data, as a checkpoint holds it: ``rate``, the ``best`` loss (before the first: none), and how
    many epochs were ``bad`` since.
    """

    factor: float
    patience: int

    def begin(self, rate: float) -> dict[str, float]:
        """The state before the first epoch."""
        return {"rate": rate, "bad": 0}

    def after(self, state: dict[str, float], loss: float) -> dict[str, float]:
        """The state after an epoch with this loss."""
        if loss < state.get("best", math.inf) * (1 - THRESHOLD):
            return {"rate": state["rate"], "bad": 0, "best": loss}
        if state["bad"] < self.patience:
            return {**state, "bad": state["bad"] + 1}
        lower = state["rate"] * self.factor
        return {**state, "bad": 0, "rate": lower if state["rate"] - lower > LEAST_STEP else state["rate"]}
