"""Parts of a tensor joined by the host, in the batch that calibrates: of a concatenation, or of a group of channels."""

from collections.abc import Mapping

from ..compiler.islands import Stop
from ..compiler.quantise import quantise
from ..compiler.tensors import Tensor, joining
from ..devices.device import Device
from .tensor_access import read_tensor, write_tensor

__all__ = ["join"]


def join(stop: Stop, tensors: Mapping[str, Tensor], device: Device) -> None:
    """Bring a new part and the earlier ones of its whole to one exponent, the largest that any of them needs.

    Earlier parts that are all zeros need none: the machine's for them says nothing about the others. It gives later
    ones an exponent below that of the part before.
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
