"""Parts of a tensor joined by the host, in the batch that calibrates: of a concatenation, or of a group of channels."""

from collections.abc import Mapping

import numpy as np

from ...spec.channel_tables import pack_rows
from ...spec.norm import FORWARD_ROW
from ..compiler.islands import Stop
from ..compiler.quantise import quantise
from ..compiler.tensors import Tensor, joining
from ..devices.device import Device
from .tensor_access import read_tensor, write_tensor

__all__ = ["join"]


def join(stop: Stop, tensors: Mapping[str, Tensor], device: Device) -> None:
    """Bring a new part and the earlier ones of its whole to one exponent, the largest that any of them needs.

    Earlier parts that are all zeros need none: the machine's for them says nothing about the others. It gives later
    ones an exponent below that of the part before. A batch norm that has read an earlier part gets the sum of its new
    mantissas.
    """
    (name, *earlier), (whole,) = stop.reads, stop.writes
    number = tensors[whole].number
    mine, _ = device.exponents(tensors[joining(whole)].number)
    theirs = device.exponents(number)[0] if earlier else mine

    if theirs > mine and not any(read_tensor(device, tensors[part]).any() for part in earlier):
        theirs = mine
    exponent = max(mine, theirs)
    for each, now in ((name, mine), *((other, theirs) for other in earlier)):
        if now < exponent:
            stored = read_tensor(device, tensors[each])
            width = 8 * stored.dtype.itemsize
            write_tensor(device, tensors[each], quantise(stored, exponent - now, width))
    device.set_exponents(number, exponent)
    if theirs < exponent:
        for value, constants in stop.normed:
            _sum_anew(device, tensors[value], tensors[constants])


def _sum_anew(device: Device, value: Tensor, constants: Tensor) -> None:
    """Put the sums of a value's channels into the constants of the batch norm that has read it."""
    sums = read_tensor(device, value).reshape(-1, value.shape[-1]).sum(0, np.int64)
    first, digits = FORWARD_ROW["sum"]
    table = read_tensor(device, constants)
    table[first : first + digits] = pack_rows({"sum": (0, digits)}, [{"sum": each} for each in sums.tolist()])
    write_tensor(device, constants, table)
