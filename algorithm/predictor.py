"""The predictor network (paper, section 3.6): one for all layers, whose filters are its batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import skip_init

from ..spec.numerics import CHANNELS, KERNEL, WINDOWS
from .paper_numbers import PREDICTOR_LR
from .reorganise import joined

__all__ = ["Predictor", "PredictorSettings"]


@dataclass(frozen=True)
class PredictorSettings:
    """Settings of the predictor: its shape and its training.

    ``windows``: P, a filter's output is reorganised to P x P values; ``channels``: C, of the convolution, so that there
    are C·P² hidden values. ``lr``: Adam's, one step a batch. ``normalise``: targets are gradients over the running RMS
    of their layer's, of which a batch has ``1 - decay``. The paper says nothing of it. Without it predictions are so
    large that training diverges, except at learning rates too low to be of use. ``milestones``: epochs after which
    ``lr`` is multiplied by ``gamma``.
    """

    windows: int = WINDOWS
    channels: int = CHANNELS
    lr: float = 1e-3
    normalise: bool = True
    decay: float = 0.9
    milestones: tuple[int, ...] = ()
    gamma: float = 0.1

    def __post_init__(self):
        for name in ("windows", "channels"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, and must be at least 1")
        if not 0 <= self.decay < 1:
            raise ValueError(f"decay is {self.decay}, and must be at least 0 and less than 1")
        if self.lr <= 0:
            raise ValueError(f"lr is {self.lr}, and must be greater than 0")

    def rate(self, epoch: int) -> float:
        """The learning rate in an epoch."""
        return self.lr * self.gamma ** sum(milestone <= epoch for milestone in self.milestones)

    @classmethod
    def paper(cls) -> "PredictorSettings":
        """The paper's settings (section 5.2): gradients as they are, and its rate. It doesn't say its milestones."""
        return cls(lr=PREDICTOR_LR, normalise=False)


class Predictor(nn.Module):
    """Network from reorganised outputs to gradients: convolution, ReLU, a linear layer with a row for each weight of a
    filter.

    ``elements``: weights of each layer's filters. The largest decides the linear layer's rows; a layer uses the first
    ones, as many as it needs.
    """

    scales: Tensor

    def __init__(self, elements: Mapping[str, int], settings: PredictorSettings, generator: torch.Generator):
        super().__init__()
        self.elements, self.settings = dict(elements), settings
        self.places = {name: place for place, name in enumerate(elements)}
        hidden = settings.channels * settings.windows**2
        self.conv = skip_init(nn.Conv2d, 1, settings.channels, KERNEL, padding=KERNEL // 2)
        self.fc = skip_init(nn.Linear, hidden, max(elements.values()))
        for layer in (self.conv, self.fc):  # as PyTorch does, but out of a generator of its own
            bound = layer.weight[0].numel() ** -0.5
            for parameter in layer.parameters():
                nn.init.uniform_(parameter, -bound, bound, generator=generator)
        self._last: tuple[tuple[str, ...], Tensor] = (), torch.empty(0, dtype=torch.long)
        self.register_buffer("scales", torch.zeros(len(elements)))
        """Running mean square of each layer's true gradient; 0 before the first."""

    def _rows(self, hidden: Tensor, name: str) -> Tensor:
        elements = self.elements[name]
        return F.linear(hidden, self.fc.weight[:elements], self.fc.bias[:elements])

    def _hidden(self, reorganised: Tensor) -> Tensor:
        return F.relu(self.conv(reorganised.unsqueeze(1))).flatten(1)

    def normalised(self, reorganised: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Gradients [filters, elements] over their layers' scales, from reorganised outputs [filters, P, P]."""
        outputs = list(reorganised.values())
        hidden = self._hidden(joined(outputs)).split([len(output) for output in outputs])
        return {name: self._rows(h, name) for name, h in zip(reorganised, hidden, strict=True)}

    def _indexes(self, names: tuple[str, ...]) -> Tensor:
        """Places of layers as a tensor. The last is kept, as the device would be waited for."""
        if self._last[0] != names or self._last[1].device != self.scales.device:
            self._last = names, torch.tensor([self.places[name] for name in names], device=self.scales.device)
        return self._last[1]

    def scale(self, name: str) -> Tensor:
        """Factor from a layer's normalised gradients to its gradients."""
        scale = self.scales[self.places[name]]
        return scale.sqrt() if self.settings.normalise else torch.ones_like(scale)

    @torch.no_grad()
    def gradients(self, reorganised: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Predicted gradients [filters, elements] from layers' reorganised outputs [filters, P, P]."""
        return {name: gradient.mul_(self.scale(name)) for name, gradient in self.normalised(reorganised).items()}

    @torch.no_grad()
    def observe(self, gradients: Mapping[str, Tensor]) -> None:
        """Take true gradients into the layers' scales."""
        places = self._indexes(tuple(gradients))
        now = torch.stack([gradient.float().square().mean() for gradient in gradients.values()])
        before = self.scales[places]
        decay = self.settings.decay
        self.scales[places] = torch.where(before > 0, decay * before + (1 - decay) * now, now)

    def loss(self, predicted: Mapping[str, Tensor], gradients: Mapping[str, Tensor]) -> Tensor:
        """Sum over layers of the mean squared error, of normalised gradients."""
        errors: Sequence[Tensor] = [
            F.mse_loss(predicted[name], gradient.float() / self.scale(name).clamp_min(torch.finfo(torch.float32).tiny))
            for name, gradient in gradients.items()
        ]
        return torch.stack(list(errors)).sum()
