"""Modules made of a function, for tests of what a network may do."""

import torch
from torch import nn

__all__ = ["Made"]


class Made(nn.Module):
    """A module whose forward pass is a function of it and its inputs; tensors among its parts are buffers."""

    def __init__(self, forward, **parts):
        super().__init__()
        self.function = forward
        for name, part in parts.items():
            self.register_buffer(name, part) if isinstance(part, torch.Tensor) else setattr(self, name, part)

    def forward(self, *args):
        return self.function(self, *args)
