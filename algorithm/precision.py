"""Computation in full precision, whatever the caller's autocast."""

from contextlib import AbstractContextManager, nullcontext

import torch

__all__ = ["full_precision"]


def full_precision(device: torch.device) -> AbstractContextManager:
    """Context without the caller's autocast. Where there is none, it takes no time."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()
