"""The sequencer without its hardware: descriptors of a task, each with the cycle in which it is pushed.

The microcode is translated into Python, a function for each stretch of instructions without a branch. It counts the
same cycles as the interpreter of :mod:`adagp.spec.microcode.isa`, in a fraction of its time.
"""

from collections.abc import Callable, Iterator
from functools import cache
from types import SimpleNamespace
from typing import NamedTuple

from ...spec.config import Config
from ...spec.microcode.compiler import compile_program
from ...spec.microcode.descriptors import ENGINES
from ...spec.microcode.isa import (
    DIV_CYCLES,
    LOAD_CYCLES,
    PAIR_CYCLES,
    PAIRS,
    PUSH_CYCLES,
    START_CYCLES,
    TAKEN_CYCLES,
    Instruction,
    Op,
    Program,
)
from ...spec.microcode.machine import TASK_FIELDS, TileError

__all__ = ["Push", "named", "raw_sequence", "sequence"]

INSTRUCTION_CYCLES = {
    **dict.fromkeys(PAIRS, PAIR_CYCLES), Op.LOAD: LOAD_CYCLES, Op.DIV: DIV_CYCLES, Op.PUSH: PUSH_CYCLES,
}  # fmt: skip
"""Cycles of instructions that take more than one, as :mod:`adagp.spec.microcode.isa` states them."""

_SIGNS = {Op.BEQ: "==", Op.BNE: "!=", Op.BLT: "<", Op.BGE: ">="}
_OPERATIONS = {
    Op.ADD: "{a} + {b}", Op.SUB: "{a} - {b}", Op.MUL: "{a} * {b}", Op.DIV: "{a} // {b}",
    Op.MIN: "min({a}, {b})", Op.MAX: "max({a}, {b})", Op.ALIGN: "{a} + ({b} - {a}) % {banks}",
}  # fmt: skip
_LAYOUTS = [
    (engine, [(bits.name, (1 << bits.width) - 1, bits.signed << bits.width - 1) for bits in layout])
    for engine, layout in ENGINES.items()
]
"""Engines by number: names of their fields, each with the bits that it keeps, and the place of its sign or 0."""


class Push(NamedTuple):
    """A descriptor as the sequencer pushes it.

    ``cycle``: since the task's arrival, when no engine holds the sequencer up. ``fields``: those that aren't 0.
    """

    cycle: int
    engine: str
    fields: dict[str, int]


def sequence(config: Config, task: SimpleNamespace) -> tuple[list[Push], int]:
    """The descriptors of a ``task`` (:func:`adagp.spec.microcode.machine.task`), and the cycles that it takes.

    Raises TileError for a task that can't run.
    """
    pushes, cycles = raw_sequence(config, task)
    return [Push(cycle, *named(engine, given)) for cycle, engine, given in pushes], cycles


def raw_sequence(config: Config, task: SimpleNamespace) -> tuple[list[tuple[int, int, dict[int, int]]], int]:
    """:func:`sequence` with engines and fields by number, and fields that aren't cut to their widths."""
    blocks, first = _translated(config)
    registers = list(first)
    slots: dict[int, int] = {}
    pushes: list[tuple[int, int, dict[int, int]]] = []
    fields = [getattr(task, name) for name in TASK_FIELDS]
    at, cycles = 0, START_CYCLES
    while at >= 0:
        at, cycles = blocks[at](registers, fields, slots, pushes, cycles)
    return pushes, cycles


def named(engine: int, slots: dict[int, int]) -> tuple[str, dict[str, int]]:
    """A descriptor's engine and its fields, cut to their widths, without those that are 0."""
    name, layout = _LAYOUTS[engine]
    found = {}
    for slot, value in slots.items():
        field, mask, sign = layout[slot]
        if kept := value & mask:
            found[field] = kept - 2 * (kept & sign)
    return name, found


@cache
def _translated(config: Config) -> tuple[dict[int, Callable], tuple[int, ...]]:
    """Functions by the place of their first instruction, and the registers' first values."""
    program = compile_program(config)
    names: dict = {"TileError": TileError}
    exec("\n".join(_Translator(program, config.banks).lines()), names)  # a text made of the microcode alone
    blocks = {int(name[5:]): function for name, function in names.items() if name.startswith("block")}
    return blocks, tuple(program.registers)


class _Translator:
    """Python for a program's instructions. R are registers, T a task's fields, S slots, P descriptors."""

    def __init__(self, program: Program, banks: int):
        self.instructions, self.banks = program.instructions, banks
        written = {i.d for i in program.instructions if i.op < Op.BEQ and not i.to_slot}
        self.known = {number: value for number, value in enumerate(program.registers) if number not in written}
        branches = [(at, i) for at, i in enumerate(program.instructions) if i.op in _SIGNS]
        self.starts = {0, *(i.d for _, i in branches), *(at + 1 for at, _ in branches)}

    def lines(self) -> Iterator[str]:
        """The text of the functions."""
        for start in sorted(self.starts & set(range(len(self.instructions)))):
            yield f"def block{start}(R, T, S, P, cycles):"
            yield from (f"    {line}" for line in self._block(start))

    def _block(self, start: int) -> Iterator[str]:
        before, at, spent = Instruction(Op.END), start, 0
        while True:
            i = self.instructions[at]
            spent += INSTRUCTION_CYCLES.get(i.op, 1) + _waits(i, before)
            at, before = at + 1, i
            if i.op == Op.END:
                yield f"return -1, cycles + {spent}"
                return
            if i.op == Op.FAIL:
                yield f"raise TileError({i.a})"
                return
            if i.op in _SIGNS:
                yield f"if {self._value(i.a)} {_SIGNS[i.op]} {self._value(i.b)}:"
                yield f"    return {i.d}, cycles + {spent + TAKEN_CYCLES - 1}"
                yield f"return {at}, cycles + {spent}"
                return
            yield from self._step(i, spent)
            if at in self.starts:
                yield f"return {at}, cycles + {spent + _waits(self.instructions[at], before)}"
                return

    def _step(self, i: Instruction, spent: int) -> Iterator[str]:
        if i.op == Op.PUSH:
            yield f"P.append((cycles + {spent}, {i.a}, S.copy()))"
            yield "S.clear()"
            return
        if i.op == Op.LOAD:
            value = f"T[{i.a}]"
        elif i.op == Op.SHIFT:
            value = f"{self._value(i.a)} >> {i.b}"
        else:
            value = _OPERATIONS[i.op].format(a=self._value(i.a), b=self._value(i.b), banks=self.banks)
        yield f"{'S' if i.to_slot else 'R'}[{i.d}] = {value}"

    def _value(self, register: int) -> str:
        return f"({self.known[register]})" if register in self.known else f"R[{register}]"


def _waits(i: Instruction, before: Instruction) -> bool:
    """True if an instruction waits a cycle for the result of the one before it."""
    return any(i.reads(operand, before) for operand in "ab")
