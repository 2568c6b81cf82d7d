"""Reorganisation of a layer's output for the predictor (paper, section 3.6), of floats in PyTorch's layouts."""

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["channels_first", "reorganise"]


def channels_first(output: Tensor) -> Tensor:
    """Of a linear layer's output [batch, *places, channels]: [batch, channels, *places]."""
    return output.movedim(-1, 1) if output.dim() > 1 else output.unsqueeze(0)


def _whole(places: int, windows: int) -> int:
    """How many places are in windows of equal size; too few are all in some."""
    return places // windows * windows or places


def reorganise(output: Tensor, windows: int) -> Tensor:
    """Means [channels, windows, windows], in float32, over the batch and over windows of [batch, channels, *places].

    Windows are of equal size, the rest is in none, as in the machine. Places in a row, as tokens are, are cut into
    windows² windows in order; where there are none, or fewer than windows, they are repeated. More than two dimensions
    of places are taken as one.
    """
    mean = output.detach().mean(0, dtype=torch.float32)
    if mean.dim() == 3:
        _, height, width = mean.shape
        return F.adaptive_avg_pool2d(mean[:, : _whole(height, windows), : _whole(width, windows)], windows)
    if mean.dim() == 1:
        return mean[:, None, None].expand(-1, windows, windows)
    row, count = mean.flatten(1), windows * windows
    return F.adaptive_avg_pool1d(row[:, : _whole(row.shape[1], count)], count).unflatten(1, (windows, windows))
