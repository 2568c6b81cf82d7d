"""Training of the predictor by batches of true gradients, and measures of its predictions."""

from collections.abc import Mapping

import torch
from torch import Tensor

from ..spec.commands import Phase
from .finite import not_finite
from .metrics import MEASURES, Metrics
from .predictor import Predictor
from .schedules import phase_name

__all__ = ["Teacher"]


class Teacher:
    """Measures predictions of ``predictor``, then trains it by one step of Adam a batch.

    The gate is open after a batch in which predictions for more than half of the weights had the cosine ``gate``.
    """

    def __init__(self, predictor: Predictor, metrics: Metrics | None, gate: float | None):
        self._predictor, self._metrics, self._gate = predictor, metrics, gate
        self._optimizer = torch.optim.Adam(predictor.parameters(), predictor.settings.lr)
        self._open = torch.tensor(False)

    def stay_on_device(self) -> None:
        """Count Adam's steps on the device, as a CUDA graph needs it; for before the first batch."""
        for group in self._optimizer.param_groups:
            group["capturable"] = True

    def is_open(self) -> bool:
        """Return whether GP batches may begin; without a gate they always may."""
        return self._gate is None or bool(self._open)

    def teach(
        self, phase: Phase, reorganised: Mapping[str, Tensor], true: Mapping[str, Tensor], checks: bool = True
    ) -> bool:  # fmt: skip
        """Learn from reorganised outputs [filters, P, P] and true gradients [filters, elements], by layer.

        With ``checks`` it returns False, and leaves the predictor as it was, if the step of Adam would not be finite.
        """
        normalised = self._predictor.normalised(reorganised)
        self._measure(phase, normalised, true)
        scales = self._predictor.scales.clone()
        self._predictor.observe(true)
        self._optimizer.zero_grad(set_to_none=True)
        with torch.enable_grad():
            self._predictor.loss(normalised, true).backward()
        gradients = {name: p.grad for name, p in self._predictor.named_parameters() if p.grad is not None}
        if checks and not_finite({"scales": self._predictor.scales, **gradients}, squares=True):  # Adam squares them
            self._predictor.scales.copy_(scales)
            return False
        self._optimizer.step()
        return True

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
        """End ``epoch``; the next may have another learning rate."""
        if self._metrics:
            self._metrics.end_epoch(epoch)
        for group in self._optimizer.param_groups:
            group["lr"] = self._predictor.settings.rate(epoch + 1)

    def state_dict(self) -> dict:
        """The state, without the predictor's weights and scales."""
        return {"optimizer": self._optimizer.state_dict(), "open": self._open.clone(),
                "metrics": self._metrics.state_dict() if self._metrics else None}  # fmt: skip

    def load_state_dict(self, state: dict) -> None:
        """Go on from a state that :meth:`state_dict` gave."""
        self._optimizer.load_state_dict(state["optimizer"])
        self._open = state["open"].clone()
        if self._metrics and state["metrics"]:
            self._metrics.load_state_dict(state["metrics"])
