"""What a command reads and writes: shape, type and address of each operand, and its work in MACs."""

import math
from dataclasses import dataclass

import numpy as np

from ..spec.commands import CMode, Command, Opcode
from ..spec.config import Config

__all__ = ["COMPUTE", "Operand", "macs", "operands", "outputs"]

COMPUTE = frozenset(range(Opcode.FORWARD, Opcode.UPDATE))
"""Opcodes that the sequencer executes."""

_READS_Y = (Opcode.BACKWARD_DATA, Opcode.MAXPOOL_BACKWARD, Opcode.AVGPOOL_BACKWARD)
_WITH_FILTERS = (Opcode.FORWARD, Opcode.BACKWARD_DATA)
_WITH_INDEX = (Opcode.MAXPOOL, Opcode.MAXPOOL_BACKWARD)


@dataclass(frozen=True)
class Operand:
    """A densely packed little-endian array in DRAM."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def load(self, memory: np.ndarray) -> np.ndarray:
        """The array itself, sharing ``memory``; raises IndexError where it doesn't lie inside."""
        if self.address + self.n_bytes > memory.size:
            raise IndexError(f"bytes {self.address}..{self.address + self.n_bytes} of {memory.size}")
        return memory[self.address : self.address + self.n_bytes].view(self.dtype).reshape(self.shape)


def operands(command: Command, config: Config, a_base: int | None = None) -> dict[str, Operand]:
    """Operands ``a``, ``b``, ``c``, ``out`` of a compute or UPDATE command, those that it has.

    ``a_base`` replaces ``a_addr`` (a command fed by the input ring).
    """
    g = command
    operand = np.dtype(f"<i{config.operand_bytes}")
    a_base = g.a_addr if a_base is None else a_base
    if g.opcode == Opcode.UPDATE:
        types = {"a": operand, "b": operand, "c": np.dtype("<i2"), "out": np.dtype("<i4")}
        places = {"a": a_base, "b": g.b_addr, "c": g.c_addr, "out": g.out_addr}
        return {name: Operand(places[name], (g.count,), types[name]) for name in types}
    x, y, filters = (g.n, g.h, g.w, g.c), (g.n, g.oh, g.ow, g.q), (g.q, g.r * g.s * g.c + 1)
    out = filters if g.opcode == Opcode.BACKWARD_WEIGHT else x if g.opcode in _READS_Y else y
    found = {"a": Operand(a_base, y if g.opcode in _READS_Y else x, operand), "out": Operand(g.out_addr, out, operand)}
    if g.opcode in _WITH_FILTERS:
        found["b"] = Operand(g.b_addr, filters, operand)
    elif g.opcode == Opcode.BACKWARD_WEIGHT or g.opcode in _WITH_INDEX:
        found["b"] = Operand(g.b_addr, y, operand)
    if g.c_mode != CMode.NONE:
        found["c"] = Operand(g.c_addr, out, operand)
    return found


def outputs(command: Command) -> tuple[str, ...]:
    """Names of the operands that a command writes."""
    if command.opcode == Opcode.UPDATE:
        return ("b", "c", "out")
    return ("out", "b") if command.opcode == Opcode.MAXPOOL else ("out",)


def macs(command: Command) -> int:
    """Multiply-accumulates of a command, padding and dilation zeros included.

    BACKWARD_WEIGHT reduces over output rows dilated by the stride, without zeros between its tiles.
    """
    g = command
    taps = g.r * g.s
    if g.opcode == Opcode.FORWARD:
        return g.n * g.oh * g.ow * g.q * taps * g.c
    if g.opcode == Opcode.BACKWARD_DATA:
        return g.n * g.h * g.w * g.c * taps * g.q
    if g.opcode == Opcode.BACKWARD_WEIGHT:
        tiles = -(-g.oh // min(g.yb, g.oh))
        grid_h = g.oh * g.stride - tiles * (g.stride - 1)
        grid_w = (g.ow - 1) * g.stride + 1
        return g.n * grid_h * grid_w * g.q * (taps * g.c + g.bias)
    return 0
