"""Kernels as large as their map: a linear layer after a flatten, or a convolution with a single result.

A map lies in memory as [y][x][channel], and each filter's weights as [r][s][channel]. So a map of c x h x w is also a
single pixel of c * h * w channels, with a filter of 1x1. All products of the layer are the same, in the same order. But
a BACKWARD_DATA walks all taps for each pixel of its result: of a map it would multiply h * w times the products that it
needs, all but one in h * w of them with zeros.
"""

from ...spec.commands import Opcode, command_field
from ...spec.opcodes import GEMMS

__all__ = ["as_pixel"]

_PIXEL = dict.fromkeys(("h", "w", "r", "s", "stride"), 1)


def as_pixel(opcode: Opcode, fields: dict[str, int]) -> dict[str, int]:
    """The fields of a command, with the map that a GEMM's kernel covers as a single pixel.

    They stay as they are where the kernel covers less or more, where the map's pixels have gaps between them, and where
    a pixel would have more channels than a command can name.
    """
    kernel, size = (fields.get("r"), fields.get("s")), (fields.get("h"), fields.get("w"))
    single = opcode in GEMMS and kernel == size and fields["oh"] == fields["ow"] == 1
    if not single or fields.get("pad_y") or fields.get("pad_x") or _gaps(opcode, fields):
        return fields
    channels = fields["c"] * fields["h"] * fields["w"]
    return fields if channels > command_field("c").maximum else {**fields, **_PIXEL, "c": channels}


def _gaps(opcode: Opcode, fields: dict[str, int]) -> bool:
    """True if pixels of X, or of what is added to its gradient, aren't next to each other in memory."""
    pitches = ("x_pitch", *("c_pitch", "d_pitch") * (opcode == Opcode.BACKWARD_DATA))
    return any(fields.get(pitch) for pitch in pitches)
