"""What a batch of true gradients teaches the predictor, and says of it."""

from collections.abc import Mapping

import torch
from torch import Tensor

from ..spec.commands import Phase
from .metrics import MEASURES, Metrics
from .predictor import Predictor
from .schedules import phase_name

__all__ = ["Teacher"]


class Teacher:
    """Trains ``predictor``, one step of Adam a batch, and measures its predictions before.

    ``gate``: the cosine that predictions for more than half of the weights must have for the gate to be open.
    """

    def __init__(self, predictor: Predictor, metrics: Metrics | None, gate: float | None):
        self._predictor, self._metrics, self._gate = predictor, metrics, gate
        self._optimizer = torch.optim.Adam(predictor.parameters(), predictor.settings.lr)
        self._open = torch.tensor(False)

    def is_open(self) -> bool:
        """Whether GP batches may begin: without a gate, always."""
        return self._gate is None or bool(self._open)

    def teach(self, phase: Phase, reorganised: Mapping[str, Tensor], true: Mapping[str, Tensor]) -> None:
        """By layer, reorganised outputs [filters, P, P] and the true gradients [filters, elements]."""
        normalised = self._predictor.normalised(reorganised)
        self._measure(phase, normalised, true)
        self._predictor.observe(true)
        self._optimizer.zero_grad(set_to_none=True)
        with torch.enable_grad():
            self._predictor.loss(normalised, true).backward()
        self._optimizer.step()

    @torch.no_grad()
    def _measure(self, phase: Phase, normalised: Mapping[str, Tensor], true: Mapping[str, Tensor]) -> None:
        if not self._metrics and self._gate is None:
            return
        metrics = self._metrics or Metrics()
        votes = []
        for name, gradient in true.items():
            predicted = normalised[name] * self._predictor.scale(name)
            measures = metrics.add(phase_name(phase), name, predicted, gradient)
            if self._gate is not None:
                passes = measures[MEASURES.index("cosine")] >= self._gate
                votes.append(torch.where(passes, gradient.numel(), -gradient.numel()))
        if votes:
            self._open = torch.stack(votes).sum() > 0

    def end_epoch(self, epoch: int) -> None:
        """``epoch`` is over; the next may have another learning rate."""
        if self._metrics:
            self._metrics.end_epoch(epoch)
        for group in self._optimizer.param_groups:
            group["lr"] = self._predictor.settings.rate(epoch + 1)

    def state_dict(self) -> dict:
        """All but the predictor's weights and scales."""
        return {"optimizer": self._optimizer.state_dict(), "open": self._open.clone(),
                "metrics": self._metrics.state_dict() if self._metrics else None}  # fmt: skip

    def load_state_dict(self, state: dict) -> None:
        """Go on from what :meth:`state_dict` gave."""
        self._optimizer.load_state_dict(state["optimizer"])
        self._open = state["open"].clone()
        if self._metrics and state["metrics"]:
            self._metrics.load_state_dict(state["metrics"])
