"""Backward passes, with a GradScaler's factor where there is one."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

__all__ = ["backward"]


@contextmanager
def backward(
    loss: Tensor, scaler: torch.amp.GradScaler | None, optimizer: torch.optim.Optimizer
) -> Iterator[None]:  # fmt: skip
    """Run backward; inside, gradients are without the scaler's factor, which gets its next value at the end."""
    if scaler is None:
        loss.backward()
        yield
        return
    scaler.scale(loss).backward()
    try:
        scaler.unscale_(optimizer)
        yield
    except BaseException:
        scaler.update(scaler.get_scale())  # the same factor; without an update it refuses the next batch
        raise
    scaler.update()
