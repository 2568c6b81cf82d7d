"""The bytes of memory that a command touches."""

from dataclasses import dataclass

from ..spec.commands import Command, Opcode
from ..spec.config import Config
from ..spec.norm import FORWARD_ROW, KEPT_PLANES, planes
from ..spec.opcodes import BACKWARD_WEIGHTS, NORMS, UPDATES, WITH_FILTERS
from ..spec.operands import Operand, filter_channels, in_place, operands, outputs

__all__ = ["Runs", "reads", "writes"]

_READS_X = (
    Opcode.FORWARD, Opcode.BACKWARD_WEIGHT, Opcode.MAXPOOL, Opcode.AVGPOOL,
    Opcode.DEPTHWISE, Opcode.DEPTHWISE_BACKWARD_WEIGHT,
)  # fmt: skip


@dataclass(frozen=True)
class Runs:
    """``count`` runs of ``length`` bytes, ``pitch`` bytes apart, from ``address`` on."""

    address: int
    length: int
    count: int = 1
    pitch: int = 0

    @property
    def end(self) -> int:
        """Address after the last byte."""
        return self.address + (self.count - 1) * self.pitch + self.length

    def intervals(self) -> list[tuple[int, int]]:
        """First address and the one after the last, run by run."""
        starts = range(self.address, self.address + self.count * self.pitch, self.pitch) if self.pitch else ()
        return [(start, start + self.length) for start in starts or (self.address,)]


def _window_rows(size: int, out: int, kernel: int, stride: int, pad: int) -> int:
    """Number of the ``size`` rows (or columns) that lie before the last window's end."""
    return min(size, (out - 1) * stride + kernel - pad)


def _rows(g: Command, place: Operand, bias: int) -> Runs:
    """Filters with or without their biases."""
    filter_elements, unit = g.r * g.s * filter_channels(g.opcode, g.c), place.element_bytes
    return Runs(place.address, (filter_elements + bias) * unit, g.q, (place.pitch or filter_elements + 1) * unit)


def _images(g: Command, place: Operand) -> Runs:
    """Image by image, or pixel by pixel where there are gaps between them."""
    if place.pitch > place.shape[-1]:
        unit = place.element_bytes
        return Runs(place.address, place.shape[-1] * unit, place.rows, place.pitch * unit)
    n_bytes = place.n_bytes // g.n
    return Runs(place.address, n_bytes, g.n, n_bytes)


def _result(g: Command, place: Operand) -> Runs:
    """An operand shaped like the result of a compute command."""
    if g.opcode in BACKWARD_WEIGHTS:
        return _rows(g, place, g.bias)
    return _images(g, place) if len(place.shape) > 2 else _table(place)


def _table(place: Operand, first: int = 0) -> Runs:
    """The planes of a table, from the ``first`` on."""
    count, channels = place.shape
    length = channels * place.element_bytes
    return Runs(place.address + first * length, length, count - first, length)


def _norm_reads(g: Command, places: dict[str, Operand]) -> dict[str, Runs]:
    """Runs that a command of batch norm reads."""
    unread = set(outputs(g)) - set(in_place(g))
    found = {name: _result(g, place) for name, place in places.items() if name not in unread}
    if g.opcode == Opcode.NORM_BACKWARD:  # of the forward pass' constants the last planes
        found["b"] = _table(places["b"], planes(FORWARD_ROW) - KEPT_PLANES)
    return found


def writes(command: Command, config: Config) -> dict[str, Runs]:
    """Runs that a compute, UPDATE or ADAM command writes, by operand; no write burst goes beyond a run."""
    places = operands(command, config)
    found = {}
    for name in outputs(command):
        place = places[name]
        if command.opcode in UPDATES:
            found[name] = Runs(place.address, place.n_bytes)
        else:
            found[name] = _result(command, place)
    return found


def reads(command: Command, config: Config, a_base: int) -> dict[str, Runs]:
    """Runs that a compute, UPDATE or ADAM command reads, by operand, up to the last byte that it uses."""
    g, unit = command, config.operand_bytes
    places = operands(command, config, a_base)
    if g.opcode in UPDATES:
        return {name: Runs(place.address, place.n_bytes) for name, place in places.items()}
    if g.opcode in NORMS:
        return _norm_reads(g, places)
    found = {}
    if g.opcode in _READS_X:
        rows = _window_rows(g.h, g.oh, g.r, g.stride, g.pad_y)
        columns = _window_rows(g.w, g.ow, g.s, g.stride, g.pad_x)
        pitch = max(g.c, g.x_pitch)
        n_operands = ((rows - 1) * g.w + columns - 1) * pitch + g.c
        found["a"] = Runs(a_base, n_operands * unit, g.n, g.h * g.w * pitch * unit)
    elif g.opcode != Opcode.REORGANISE:
        found["a"] = _images(g, places["a"])
    if g.opcode in WITH_FILTERS:
        found["b"] = _rows(g, places["b"], g.bias if g.opcode in (Opcode.FORWARD, Opcode.DEPTHWISE) else 0)
    elif g.opcode in (*BACKWARD_WEIGHTS, Opcode.MAXPOOL_BACKWARD):
        found["b"] = _images(g, places["b"])
    return found | {name: _result(g, places[name]) for name in ("c", "d") if name in places}
