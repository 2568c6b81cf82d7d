"""Tensors in a device's memory, read and written as numpy arrays."""

import numpy as np

from ..compiler.tensors import Tensor
from ..devices.device import Device

__all__ = ["read_tensor", "write_tensor", "zero_tensor"]


def read_tensor(device: Device, tensor: Tensor) -> np.ndarray:
    """A tensor's mantissas."""
    found = device.read(tensor.address, tensor.n_bytes).view(tensor.dtype)
    if not tensor.pitch:
        return found.reshape(tensor.shape)
    whole = np.zeros(tensor.rows * tensor.pitch, tensor.dtype)
    whole[: len(found)] = found
    return whole.reshape(tensor.rows, tensor.pitch)[:, : tensor.shape[-1]].reshape(tensor.shape)


def write_tensor(device: Device, tensor: Tensor, array: np.ndarray) -> None:
    """Set a tensor's mantissas, which must have its shape and type."""
    assert array.shape == tensor.shape and array.dtype == tensor.dtype, tensor.name
    if tensor.pitch:
        whole = np.zeros(tensor.rows * tensor.pitch, tensor.dtype)
        used = tensor.n_bytes // tensor.dtype.itemsize
        whole[:used] = device.read(tensor.address, tensor.n_bytes).view(tensor.dtype)
        whole.reshape(tensor.rows, tensor.pitch)[:, : tensor.shape[-1]] = array.reshape(tensor.rows, -1)
        array = whole[:used]
    device.write(tensor.address, array)


def zero_tensor(device: Device, tensor: Tensor) -> None:
    """Set a tensor's mantissas to zero."""
    write_tensor(device, tensor, np.zeros(tensor.shape, tensor.dtype))
