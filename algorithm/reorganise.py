"""Reorganisation of a layer's output for the predictor (paper, section 3.6), of floats in PyTorch's layouts."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["channels_first", "joined", "reorganise"]


def channels_first(output: Tensor) -> Tensor:
    """Output [batch, channels, *places] from a linear layer's [batch, *places, channels]."""
    return output.movedim(-1, 1) if output.dim() > 1 else output.unsqueeze(0)


def joined(parts: Sequence[Tensor]) -> Tensor:
    """One tensor of the outputs of several layers, or of parts of one: filters after filters."""
    return torch.cat(tuple(parts)) if len(parts) > 1 else parts[0]


def _whole(mean: Tensor, dim: int, windows: int) -> Tensor:
    """Cut off the places of a dimension that are left over by windows of equal size; too few places are all kept."""
    places = mean.shape[dim]
    rest = places % windows if places > windows else 0
    return mean.narrow(dim, 0, places - rest) if rest else mean


def reorganise(output: Tensor, windows: int) -> Tensor:
    """Means [channels, windows, windows], in float32, over the batch and over windows of [batch, channels, *places].

    Windows are of equal size, the rest is in none, as in the machine. Places in a row, as tokens are, are cut into
    windows² windows in order; where there are none, or fewer than windows, they are repeated. More than two dimensions
    of places are taken as one.
    """
    mean = output.detach().mean(0, dtype=torch.float32)
    if mean.dim() == 3:
        return F.adaptive_avg_pool2d(_whole(_whole(mean, 1, windows), 2, windows), windows)
    if mean.dim() == 1:
        return mean[:, None, None].repeat(1, windows, windows)
    row, count = mean.flatten(1), windows * windows
    return F.adaptive_avg_pool1d(_whole(row, 1, count), count).unflatten(1, (windows, windows))
