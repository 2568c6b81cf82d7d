"""Programs: commands in order with the names of their layers, and how they read in one line each."""

import builtins
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..spec.commands import COMMAND_BYTES, COMMAND_WORDS, CMode, Command, Opcode, Phase, command_field
from ..spec.config import VERSION, Config
from ..spec.dropout import PROBABILITY_BITS
from ..spec.numerics import SLOPE_BITS
from ..spec.opcodes import BACKWARD, GEMMS, POOLS, UPDATES
from ..spec.operands import WAITS

__all__ = [
    "ALIGNMENT", "MAX_COMMANDS", "AssemblerError", "Line", "Program", "describe", "disassemble", "header",
    "phases_of",
]  # fmt: skip

ALIGNMENT = COMMAND_BYTES
"""A program's address is a multiple of so many bytes."""


MAX_COMMANDS = 1 << 16


class AssemblerError(ValueError):
    """Bytes that are no program, or a program too long."""


_OPCODE = command_field("opcode")
_PHASES = {Phase.ALL: "all phases", Phase.TRAIN: "training"}
_CONTROL = (Opcode.HEADER, Opcode.COMMIT, Opcode.HOST, Opcode.END)
_FLAGS = ("bias", "relu", "swap", "out_outer", "ring", "track", "reorganise", "predictor")


@dataclass(frozen=True)
class Line:
    """A command and the name of the layer it belongs to ("" if to none).

    ``apart``: other commands use what lies between the rows of its operands.
    """

    command: Command
    name: str = ""
    apart: bool = False


def header(config: Config) -> Command:
    """The HEADER of programs for ``config``."""
    fields = {"phase_mask": int(Phase.ALL), "config_hash": config.config_hash, "version": VERSION}
    return Command(Opcode.HEADER, fields)


@dataclass
class Program:
    """Commands in order; ``address`` is where in DRAM the program lies (or shall lie)."""

    lines: list[Line] = field(default_factory=list)
    address: int = 0

    def append(self, command: Command, name: str = "") -> None:
        """Add a command at the end."""
        self.lines.append(Line(command, name))

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self) -> Iterator[Line]:
        return iter(self.lines)

    def __getitem__(self, index: int) -> Line:
        return self.lines[index]

    def words(self) -> np.ndarray:
        """The program as uint32 words, COMMAND_WORDS a command; raises FieldError for values that don't fit.

        Raises AssemblerError for more commands than an index of 16 bits can number.
        """
        if len(self.lines) > MAX_COMMANDS:
            raise AssemblerError(f"a program has at most {MAX_COMMANDS} commands, not {len(self.lines)}")
        return np.array([word for line in self for word in line.command.encode()], dtype="<u4")

    def bytes(self) -> bytes:
        """The program as it lies in DRAM."""
        return self.words().tobytes()

    @property
    def digest(self) -> str:
        """Hash of the program and its address."""
        return hashlib.sha256(self.address.to_bytes(4, "little") + self.bytes()).hexdigest()

    def names(self) -> list[str]:
        """The side-table of layer names, one a command (plain data for JSON)."""
        return [line.name for line in self]

    @classmethod
    def from_bytes(cls, blob: builtins.bytes, names: Sequence[str] = (), address: int = 0) -> "Program":
        """Inverse of :meth:`bytes` and :meth:`names`; raises AssemblerError for a torn program or unknown opcodes."""
        if len(blob) % COMMAND_BYTES:
            raise AssemblerError(f"a program is a multiple of {COMMAND_BYTES} bytes, not {len(blob)}")
        words = np.frombuffer(blob, "<u4").reshape(-1, COMMAND_WORDS).tolist()
        names = list(names) + [""] * (len(words) - len(names))
        program = cls([], address)
        for index, (row, name) in enumerate(zip(words, names, strict=True)):
            try:
                program.append(Command.decode(row), name)
            except ValueError:
                raise AssemblerError(
                    f"command {index} has the unknown opcode {_OPCODE.decode(row[_OPCODE.word])}"
                ) from None
        return program

    def describe(self, index: int) -> str:
        """One line of text on the command at ``index``."""
        if not 0 <= index < len(self.lines):
            return f"{index:4}  (not in the program)"
        return describe(index, self.lines[index].command, self.lines[index].name)

    def listing(self) -> str:
        """The whole program, one command a line."""
        return "\n".join(self.describe(index) for index in range(len(self)))


def disassemble(blob: bytes, names: Sequence[str] = ()) -> str:
    """A program's bytes as text, one command a line."""
    return Program.from_bytes(blob, names).listing()


def describe(index: int, command: Command, name: str = "") -> str:
    """A command as a line: index, what, which layer, shapes, options, tile, waits, operands, phases."""
    parts = [f"{index:4}  {command.opcode.name.lower():16} {name:16}"]
    if command.opcode == Opcode.HEADER:
        parts.append(f"config {command.config_hash:08x} version {command.version:08x}")
    elif command.opcode in UPDATES:
        parts.append(f"{command.count} weights hyper {command.hyper}")
    elif command.opcode not in _CONTROL:
        parts += _shape(command)
    waits = [f"{wait.removeprefix('wait_')} {n}" for wait in WAITS if (n := getattr(command, wait))]
    if waits:
        parts.append(f"wait {' '.join(waits)}")
    if command.opcode not in _CONTROL:
        parts += _operands(command)
    parts.append(phases_of(command.phase_mask))
    return " ".join(parts)


def phases_of(mask: int) -> str:
    """The phases of a mask in words."""
    phases = Phase(mask & Phase.ALL)
    return _PHASES.get(phases, "|".join(str(p.name).lower() for p in phases) or "never")


def _shape(c):
    kernel = f"[{c.r}x{c.s}]"
    big = f"[{c.n}x{c.h}x{c.w}x{c.c}]"
    small = f"[{c.n}x{c.oh}x{c.ow}x{c.q}]"
    if c.opcode == Opcode.BACKWARD_WEIGHT:
        yield f"{big}*{small}->[{c.q}x{c.r}x{c.s}x{c.c}]"
    elif c.opcode in BACKWARD:
        yield f"{small}*{kernel}->{big}"
    else:
        yield f"{big}*{kernel}->{small}"
    if c.stride != 1:
        yield f"stride {c.stride}"
    if c.pad_y or c.pad_x:
        yield f"pad {c.pad_y},{c.pad_x}"
    if c.opcode in GEMMS and c.c_mode != CMode.ADD_MASK and c.d_pitch:
        yield f"filters {c.d_pitch} apart"
    if c.const_mantissa:
        yield f"times {c.const_mantissa}*2^{c.const_exponent}"
    if c.opcode == Opcode.AVGPOOL and c.momentum:
        yield f"dropout {c.momentum / (1 << PROBABILITY_BITS):.6g}"
    yield from (name for name in _FLAGS if getattr(c, name))
    if c.bound_mantissa:
        yield f"bound {c.bound_mantissa}*2^{c.bound_exponent}"
    if c.slope:
        yield f"slope {c.slope / (1 << SLOPE_BITS):.6g}"
    if c.c_mode:
        yield CMode(c.c_mode).name.lower() if c.c_mode in iter(CMode) else f"c_mode {c.c_mode}"
    yield f"tile n{c.nb} y{c.yb} c{c.cb}" + ("" if c.opcode in POOLS else f" q{c.qb}")


def _operands(c):
    for operand in ("a", "b", "c", "d", "e", "out"):
        address, number = getattr(c, f"{operand}_addr"), 0 if operand == "e" else getattr(c, f"{operand}_id")
        if address or number:
            yield f"{operand} {address:x}#{number}"
