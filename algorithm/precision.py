"""What is computed as float32 says, whatever the caller's autocast."""

from contextlib import AbstractContextManager, nullcontext

import torch

__all__ = ["full_precision"]


def full_precision(device: torch.device) -> AbstractContextManager:
    """Without the caller's autocast; where there is none, without the time that its context takes."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()
