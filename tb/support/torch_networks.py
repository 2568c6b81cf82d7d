"""Small networks and batches for tests of the library."""

import torch
from torch import nn


def conv_network() -> nn.Sequential:
    """Plain, grouped and depthwise convolutions, a normalisation, a linear layer."""
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 12, 3, groups=4), nn.ReLU(),
        nn.Conv2d(12, 12, 3, groups=12), nn.ReLU(), nn.Flatten(), nn.Linear(12 * 16, 10),
    )  # fmt: skip


def image_batches(count: int, size: int = 6, seed: int = 0) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Images of 8 x 8 and labels, both random."""
    generator = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(size, 3, 8, 8, generator=generator), torch.randint(0, 10, (size,), generator=generator))
        for _ in range(count)
    ]


def weights_of(network: nn.Module) -> dict[str, torch.Tensor]:
    """Copies of all that a network has."""
    return {name: value.clone() for name, value in network.state_dict().items()}
