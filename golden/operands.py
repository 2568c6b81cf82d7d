"""A command's operands as arrays of the memory that they lie in."""

import numpy as np

from ..spec.operands import Operand

__all__ = ["load"]


def load(operand: Operand, memory: np.ndarray, kind: str = "i") -> np.ndarray:
    """The operand's elements, little-endian integers (``kind``: signed or not), sharing ``memory`` (bytes).

    Raises IndexError where it doesn't lie inside.
    """
    dtype = np.dtype(f"<{kind}{operand.element_bytes}")
    if operand.address + operand.n_bytes > memory.size:
        raise IndexError(f"bytes {operand.address}..{operand.address + operand.n_bytes} of {memory.size}")
    flat = memory[operand.address : operand.address + operand.n_bytes].view(dtype)
    if not operand.pitch:
        return flat.reshape(operand.shape)
    strides = np.cumprod([1, *operand.shape[-2:0:-1]])[::-1] * operand.pitch * operand.element_bytes
    return np.lib.stride_tricks.as_strided(flat, operand.shape, (*strides, operand.element_bytes))
