"""A learning rate that falls where the loss stands still: torch's ReduceLROnPlateau, with its other defaults."""

import math
from dataclasses import dataclass

__all__ = ["Plateau"]

THRESHOLD = 1e-4
"""A loss counts as better if it is so much lower, as a share of the best."""
LEAST_STEP = 1e-8
"""Rates aren't reduced by less."""


@dataclass(frozen=True)
class Plateau:
    """The rate times ``factor`` once the loss hasn't got better for more than ``patience`` epochs.

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
