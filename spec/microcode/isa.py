"""The sequencer's register machine: its instructions, and an interpreter of them.

The machine has 32-bit signed registers, three-address instructions and *slots*: slot i collects field
i of the descriptor being built (a field not written is 0), PUSH sends it to an engine and clears all
slots. Two limits keep it small: ``//`` is for non-negative operands, and the right operand of ``*`` has
RIGHT_BITS bits, the product less than 2^PRODUCT_BITS in magnitude; otherwise the task fails with
BAD_GEOMETRY. :mod:`adagp.spec.microcode.compiler` writes its programs.
"""

from dataclasses import dataclass, field
from enum import IntEnum

from ..config import Config
from ..errors import ErrorCode
from .descriptors import ENGINES
from .machine import TASK_FIELDS

__all__ = [
    "DIV_CYCLES", "LOAD_CYCLES", "PAIRS", "PAIR_CYCLES", "PRODUCT_BITS", "PUSH_CYCLES", "REGISTER_WIDTH", "RIGHT_BITS",
    "START_CYCLES", "TAKEN_CYCLES", "Instruction", "Op", "Program", "interpret",
]  # fmt: skip

REGISTER_WIDTH = 32
RIGHT_BITS = 18
"""Width of a product's right operand (signed)."""
PRODUCT_BITS = 30
"""A product p must satisfy -2^PRODUCT_BITS <= p < 2^PRODUCT_BITS."""

PAIR_CYCLES = 2
LOAD_CYCLES = 3
DIV_CYCLES = REGISTER_WIDTH + 2
TAKEN_CYCLES = 4
PUSH_CYCLES = 2
"""Cycles of PAIRS, LOAD, a quotient, a taken branch, and PUSH where there is room. Any other instruction takes one. An
instruction that reads a register that the one just before it wrote takes one more."""
START_CYCLES = 4
"""Cycles from a task's arrival to its first instruction's execution."""


class Op(IntEnum):
    """Instructions, by their effect with d, a, b; ``R`` are registers."""

    ADD = 0
    """R[d] or slot = R[a] + R[b]"""
    SUB = 1
    """R[d] or slot = R[a] - R[b]"""
    MIN = 2
    MAX = 3
    ALIGN = 4
    """The least number >= R[a] congruent to R[b] modulo banks."""
    SHIFT = 5
    """R[a] >> b, b itself one of Program.shifts"""
    LOAD = 6
    """Field a of the task (TASK_FIELDS)."""
    MUL = 7
    DIV = 8
    BEQ = 9
    """Go to d if R[a] == R[b]"""
    BNE = 10
    BLT = 11
    BGE = 12
    PUSH = 13
    """Send the descriptor in the slots to engine a (of ENGINES), clear the slots; b: it is a STORE's last."""
    FAIL = 14
    """Stop with error code a."""
    END = 15
    """The task's last descriptor has been pushed."""


PAIRS = (Op.MIN, Op.MAX, Op.ALIGN, Op.SHIFT, Op.MUL)
"""They take PAIR_CYCLES."""


@dataclass
class Instruction:
    """``d`` is a register, a slot if ``to_slot``, or a branch's target; ``a`` and ``b`` see Op."""

    op: Op
    d: int = 0
    a: int = 0
    b: int = 0
    to_slot: bool = False

    def reads(self, operand: str, before: "Instruction") -> bool:
        """Return whether ``operand``, "a" or "b", is the register that ``before`` writes."""
        registers = {Op.LOAD: "", Op.PUSH: "", Op.FAIL: "", Op.END: "", Op.SHIFT: "a"}.get(self.op, "ab")
        writes = before.op < Op.BEQ and not before.to_slot
        return writes and operand in registers and getattr(self, operand) == before.d


@dataclass
class Program:
    """Compiled code: instructions, and what the registers hold before a task (constants, others 0)."""

    instructions: list[Instruction] = field(default_factory=list)
    registers: list[int] = field(default_factory=lambda: [0])
    names: dict[str, int] = field(default_factory=dict)

    @property
    def shifts(self) -> list[int]:
        """The shift distances in use."""
        return sorted({i.b for i in self.instructions if i.op == Op.SHIFT})

    @property
    def fields(self) -> list[int]:
        """The task fields in use, as indices into TASK_FIELDS."""
        return sorted({i.a for i in self.instructions if i.op == Op.LOAD})

    def listing(self) -> str:
        """The code as text, a line per instruction."""
        names = {index: name for name, index in self.names.items()}
        show = [names.get(i, str(value) if value else f"r{i}") for i, value in enumerate(self.registers)]
        show[0] = "0"
        lines = []
        for at, i in enumerate(self.instructions):
            d = f"slot{i.d}" if i.to_slot else str(i.d) if Op.BEQ <= i.op <= Op.BGE else show[i.d]
            a, b = (show[i.a], show[i.b]) if i.op not in (Op.LOAD, Op.PUSH, Op.FAIL) else (i.a, i.b)
            lines.append(f"{at:4} {i.op.name:5} {d}, {a}, {b}")
        return "\n".join(lines)


_CYCLES = {**dict.fromkeys(PAIRS, PAIR_CYCLES), Op.LOAD: LOAD_CYCLES, Op.DIV: DIV_CYCLES, Op.PUSH: PUSH_CYCLES}


def _wrap(value):
    half = 1 << (REGISTER_WIDTH - 1)
    return (value + half) % (2 * half) - half


def interpret(program: Program, config: Config, task, machine, limit: int = 1_000_000) -> int:
    """Run ``program`` on ``task`` (the ``c`` of tile_program), issuing to ``machine`` (its ``m``).

    Returns the cycles it takes when no engine holds it up, from the task's arrival until it is taken;
    raises what ``machine.fail`` raises.
    """
    registers, at = list(program.registers), 0
    slots: dict[int, int] = {}
    cycles = START_CYCLES
    engines = list(ENGINES)
    before = Instruction(Op.END)
    for _ in range(limit):
        i = program.instructions[at]
        at += 1
        cycles += _CYCLES.get(i.op, 1) + any(i.reads(operand, before) for operand in "ab")
        before = i
        a, b = (registers[x] if x < len(registers) else 0 for x in (i.a, i.b))
        value = None
        match i.op:
            case Op.ADD:
                value = a + b
            case Op.SUB:
                value = a - b
            case Op.MIN | Op.MAX:
                value = min(a, b) if i.op == Op.MIN else max(a, b)
            case Op.ALIGN:
                value = a + (b - a) % config.banks
            case Op.SHIFT:
                value = a >> i.b
            case Op.LOAD:
                value = getattr(task, TASK_FIELDS[i.a])
            case Op.MUL:
                value = a * b
                if (
                    not (-1 << RIGHT_BITS - 1) <= b < 1 << RIGHT_BITS - 1
                    or not (-1 << PRODUCT_BITS) <= value < 1 << PRODUCT_BITS
                ):
                    machine.fail(ErrorCode.BAD_GEOMETRY)
            case Op.DIV:
                value = a // b
            case Op.BEQ | Op.BNE | Op.BLT | Op.BGE:
                if {Op.BEQ: a == b, Op.BNE: a != b, Op.BLT: a < b, Op.BGE: a >= b}[i.op]:
                    at = i.d
                    cycles += TAKEN_CYCLES - 1
            case Op.PUSH:
                engine = engines[i.a]
                layout = ENGINES[engine]
                getattr(machine, engine)(**{layout[slot].name: value for slot, value in slots.items()})
                slots = {}
            case Op.FAIL:
                machine.fail(i.a)
            case Op.END:
                return cycles
        if value is not None:
            (slots if i.to_slot else registers)[i.d] = _wrap(value)
    raise RuntimeError(f"no end after {limit} instructions")
