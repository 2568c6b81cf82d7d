"""Exponents of products' results, found by the host in the batch that calibrates.

Several commands write a product's result, and several products may write one gradient. The machine finds an exponent
from one command; so the host computes the products of the mantissas, which float64 holds exactly.
"""

import math
from collections.abc import Mapping

import numpy as np

from ...spec.numerics import EXP_MIN, HEADROOM_BITS, ZERO_STEP
from ..compiler.islands import Stop
from ..compiler.quantise import exponent_for, quantise
from ..compiler.tensors import Tensor
from ..devices.device import Device
from .tensor_access import read_tensor, write_tensor, zero_tensor

__all__ = ["settle"]


def settle(stop: Stop, tensors: Mapping[str, Tensor], device: Device) -> None:
    """Set the exponent of a product's result before it is computed; what earlier ones wrote there is adjusted to it.

    A result of zeros gets the machine's own rule, if none was written there before it.
    """
    product, result = stop.product, tensors[stop.writes[0]]
    assert product is not None
    matrices, exponent = [], 0
    for each, rows, columns in (
        (product.a, product.rows, product.inner), (product.b, product.inner, product.columns),
    ):  # fmt: skip
        tensor = tensors[each.tensor]
        mantissas = read_tensor(device, tensor).astype(np.float64).ravel()
        matrices.append(mantissas[each.places.elements(rows, columns)])
        exponent += device.exponents(tensor.number)[0]
    largest = float(np.abs(matrices[0] @ matrices[1]).max())
    width = 8 * result.dtype.itemsize
    theirs, _ = device.exponents(result.number)
    if not largest:
        if len(stop.reads) == 2:
            zero_tensor(device, result)  # a later product of the same tensor sees that nothing is in it yet
            device.set_exponents(result.number, max(theirs - ZERO_STEP, EXP_MIN))
        return
    mine = exponent_for(math.ldexp(largest, exponent), width, HEADROOM_BITS)
    if len(stop.reads) > 2 and (written := read_tensor(device, result)).any():
        if theirs < mine:
            write_tensor(device, result, quantise(written, mine - theirs, width))
        mine = max(mine, theirs)
    device.set_exponents(result.number, mine)
