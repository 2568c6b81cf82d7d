"""Operands that a command reads and writes: shape, type and address of each operand, and its work in MACs."""

import math
from dataclasses import dataclass

from .commands import CMode, Command, Opcode, Source
from .config import Config
from .norm import (
    APPLY_PLANES,
    BACKWARD_ROW,
    FORWARD_ROW,
    GRADIENT_PLANES,
    STATE_ROW,
    SUMS_ROW,
    WEIGHT_PLANES,
    planes,
)
from .opcodes import BACKWARD, BACKWARD_WEIGHTS, DEPTHWISE, GEMMS, MAXIMA, NORM_APPLIES, NORMS, UPDATES, WITH_FILTERS
from .residues import residues

__all__ = [
    "WAITS", "Operand", "counted", "filter_channels", "filter_pitch", "in_place", "keeps_momentum", "macs", "operands",
    "outputs",
]  # fmt: skip

_TABLES: dict[Opcode, dict[str, int]] = {
    Opcode.NORM_SUMS: {"out": planes(SUMS_ROW)},
    Opcode.NORM_CONSTANTS: {
        "b": WEIGHT_PLANES, "c": planes(STATE_ROW), "e": planes(SUMS_ROW), "out": planes(FORWARD_ROW),
    },
    Opcode.NORM_RUNNING: {"b": WEIGHT_PLANES, "c": planes(STATE_ROW), "out": planes(FORWARD_ROW)},
    Opcode.NORM_APPLY: {"e": APPLY_PLANES},
    Opcode.NORM_BACKWARD: {
        "b": planes(FORWARD_ROW), "e": planes(SUMS_ROW), "out": GRADIENT_PLANES + planes(BACKWARD_ROW),
    },
    Opcode.NORM_APPLY_BACKWARD: {"e": planes(BACKWARD_ROW)},
}  # fmt: skip
"""Operands of batch norm's commands that are tables, with their planes."""

WAITS = ("wait_main", "wait_update", "wait_predictor")
"""Fields that say how many earlier commands of each kind must be complete."""


@dataclass(frozen=True)
class Operand:
    """A little-endian array in DRAM; ``pitch``: elements from a row of the last axis to the next, 0: no gaps."""

    address: int
    shape: tuple[int, ...]
    element_bytes: int
    pitch: int = 0

    @property
    def rows(self) -> int:
        return math.prod(self.shape[:-1])

    @property
    def n_bytes(self) -> int:
        """Bytes from the first to the last."""
        pitch = self.pitch or self.shape[-1]
        return ((self.rows - 1) * pitch + self.shape[-1]) * self.element_bytes


def operands(command: Command, config: Config, a_base: int | None = None) -> dict[str, Operand]:
    """Operands ``a`` to ``e`` and ``out`` of a compute, UPDATE or ADAM command, those that it has.

    ``a_base`` replaces ``a_addr`` (a command fed by the input ring).
    """
    g = command
    operand = config.operand_bytes
    a_base = g.a_addr if a_base is None else a_base
    if g.opcode in UPDATES:
        sizes = {"a": operand, "b": operand, "c": 2, "out": 4}
        if g.opcode == Opcode.ADAM:
            sizes["d"] = 8
        elif g.quality:
            sizes["d"] = operand
        if g.opcode == Opcode.UPDATE and g.source == Source.ZERO:
            del sizes["a"]
        if keeps_momentum(g):
            del sizes["out"]
        places = {"a": a_base, "b": g.b_addr, "c": g.c_addr, "d": g.d_addr, "out": g.out_addr}
        return {name: Operand(places[name], (g.count,), sizes[name]) for name in sizes}
    depth, apart = filter_channels(g.opcode, g.c), filter_pitch(g, config)
    x, y, filters = (g.n, g.h, g.w, g.c), (g.n, g.oh, g.ow, g.q), (g.q, g.r * g.s * depth + (not apart))
    out = filters if g.opcode in BACKWARD_WEIGHTS else x if g.opcode in BACKWARD else y

    def place(address, shape, own_pitch=0):
        pitch = g.y_pitch if shape is y else g.x_pitch if shape is x else apart
        return Operand(address, shape, operand, own_pitch if own_pitch and shape is not filters else pitch)

    found = {"out": place(g.out_addr, out)}
    if g.opcode in NORMS:
        tables = _TABLES[g.opcode]
        found |= {name: Operand(getattr(g, f"{name}_addr"), (tables[name], g.c), operand) for name in tables}
    if g.opcode in (Opcode.NORM_SUMS, *NORM_APPLIES) or g.opcode not in (*NORMS, Opcode.REORGANISE):
        found["a"] = place(a_base, y if g.opcode in BACKWARD else x)
    if g.opcode in WITH_FILTERS:
        found["b"] = place(g.b_addr, filters)
    elif g.opcode in (*BACKWARD_WEIGHTS, *MAXIMA, Opcode.NORM_SUMS):
        found["b"] = place(g.b_addr, y)
    elif g.opcode == Opcode.NORM_APPLY_BACKWARD:
        found["b"] = place(g.b_addr, x)
    if g.opcode in NORMS and g.opcode not in NORM_APPLIES:
        return found
    if g.c_mode != CMode.NONE:
        found["c"] = place(g.c_addr, out, g.c_pitch)
    if g.c_mode == CMode.ADD_MASK:
        found["d"] = place(g.d_addr, out, g.d_pitch)
    return found


def filter_channels(opcode: Opcode, channels: int) -> int:
    """Channels of a filter of a command with ``channels`` input channels."""
    return 1 if opcode in DEPTHWISE else channels


def filter_pitch(command: Command, config: Config) -> int:
    """Operands from a filter to the next one in a GEMM whose filters have no biases between them; 0 for others."""
    apart = config.matmul and command.opcode in GEMMS and command.c_mode != CMode.ADD_MASK
    return command.d_pitch if apart else 0


def counted(command: Command) -> str:
    """The one of WAITS that counts a compute, UPDATE or ADAM command."""
    if command.opcode in UPDATES:
        return "wait_update"
    return "wait_predictor" if command.predictor else "wait_main"


def keeps_momentum(command: Command) -> bool:
    """True if the command is an UPDATE without momentum."""
    return bool(command.opcode == Opcode.UPDATE and command.keep and not command.quality)


def outputs(command: Command) -> tuple[str, ...]:
    """Names of the operands that a command writes."""
    if keeps_momentum(command):
        return ("b", "c")
    if command.opcode in UPDATES:
        return ("b", "c", "out", "d") if command.opcode == Opcode.ADAM else ("b", "c", "out")
    second = {Opcode.MAXPOOL: ("b",), Opcode.NORM_CONSTANTS: ("c",)}
    return ("out", *second.get(command.opcode, ()))


def in_place(command: Command) -> tuple[str, ...]:
    """Names of the operands that a compute command both reads and writes."""
    return ("c",) if command.opcode == Opcode.NORM_CONSTANTS else ()


def macs(command: Command) -> int:
    """Multiply-accumulates of the array in a command, zeros of the padding included."""
    g = command
    taps = g.r * g.s
    if g.opcode == Opcode.FORWARD:
        return g.n * g.oh * g.ow * g.q * taps * g.c
    if g.opcode == Opcode.BACKWARD_DATA:
        met = (sum(line.pixels * line.taps for line in lines) for lines in residues(g))
        return g.n * g.c * g.q * math.prod(met)
    if g.opcode == Opcode.BACKWARD_WEIGHT:
        return g.n * g.oh * g.ow * g.q * (taps * g.c + g.bias)
    return 0
