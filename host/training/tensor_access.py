"""Tensors in a device's memory, read and written as numpy arrays."""

import numpy as np

from ..compiler.tensors import Tensor
from ..devices.device import Device

__all__ = ["read_tensor", "write_tensor", "zero_tensor"]


def read_tensor(device: Device, tensor: Tensor) -> np.ndarray:
    """A tensor's mantissas."""
    return device.read(tensor.address, tensor.n_bytes).view(tensor.dtype).reshape(tensor.shape)


def write_tensor(device: Device, tensor: Tensor, array: np.ndarray) -> None:
    """Set a tensor's mantissas, which must have its shape and type."""
    assert array.shape == tensor.shape and array.dtype == tensor.dtype, tensor.name
    device.write(tensor.address, array)


def zero_tensor(device: Device, tensor: Tensor) -> None:
    """Set a tensor's mantissas to zero."""
    write_tensor(device, tensor, np.zeros(tensor.shape, tensor.dtype))
