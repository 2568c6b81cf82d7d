"""Optimizers, courses of the learning rate, and number formats of a run."""

import math
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau

__all__ = [
    "AUTOCASTS", "DEVICES", "LR_SCHEDULES", "MOMENTUM", "OPTIMIZERS", "WEIGHT_DECAY", "Rates", "autocast", "optimizer",
    "scaler",
]  # fmt: skip

MOMENTUM, WEIGHT_DECAY = 0.9, 5e-4
"""Momentum and weight decay of SGD unless others are given."""

OPTIMIZERS = ("sgd", "adam", "adamw")
LR_SCHEDULES = ("cosine", "plateau", "constant")
DEVICES = ("cpu", "cuda")
AUTOCASTS = ("off", "bf16", "fp16")
_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def optimizer(
    kind: str, parameters: Iterable[nn.Parameter], lr: float, momentum: float, weight_decay: float
) -> torch.optim.Optimizer:
    """One of OPTIMIZERS; ``momentum`` is SGD's, the others have PyTorch's betas."""
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr, momentum=momentum, weight_decay=weight_decay)
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind](parameters, lr, weight_decay=weight_decay)


class Rates:
    """The learning rate's course, one of LR_SCHEDULES.

    ``cosine``: from what the optimizer has to 0 along half a cosine, over ``total`` batches. ``plateau``: PyTorch's
    ReduceLROnPlateau with its defaults, by the validation loss. ``constant``: as it is.
    """

    def __init__(self, kind: str, trained: torch.optim.Optimizer, total: int):
        self._total = total
        self._scheduler: LambdaLR | ReduceLROnPlateau | None = None
        if kind == "cosine":
            self._scheduler = LambdaLR(trained, lambda n: (1 + math.cos(math.pi * n / total)) / 2)
        elif kind == "plateau":
            self._scheduler = ReduceLROnPlateau(trained)

    def after_batch(self) -> None:
        """To be called behind each batch."""
        if isinstance(self._scheduler, LambdaLR) and self._scheduler.last_epoch + 1 < self._total:
            self._scheduler.step()

    def after_epoch(self, validation_loss: float) -> None:
        """To be called behind each epoch."""
        if isinstance(self._scheduler, ReduceLROnPlateau):
            self._scheduler.step(validation_loss)

    def state_dict(self) -> dict:
        """To go on from."""
        return self._scheduler.state_dict() if self._scheduler else {}

    def load_state_dict(self, state: dict) -> None:
        """Go on from what :meth:`state_dict` gave."""
        if self._scheduler:
            self._scheduler.load_state_dict(state)


def autocast(kind: str, device: str) -> Callable[[], AbstractContextManager]:
    """A function that makes the context of a forward pass, for one of AUTOCASTS."""
    return nullcontext if kind == "off" else lambda: torch.autocast(device, _DTYPES[kind])


def scaler(kind: str, device: str) -> torch.amp.GradScaler | None:
    """A scaler of the loss for fp16, whose small gradients would be 0 without it."""
    return torch.amp.GradScaler(device) if kind == "fp16" else None
