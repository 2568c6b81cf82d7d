"""Commands of the three queues of variant max that run at the same time, and what makes each of them fail."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np
from adagp.golden.footprint import reads, writes
from adagp.host.devices.device import Device
from adagp.host.program import Line, Program, header
from adagp.sim import DECERR, SLVERR, Fault
from adagp.spec.commands import Command, Opcode
from adagp.spec.errors import ErrorCode
from adagp.spec.operands import WAITS, counted
from adagp.spec.presets import preset

__all__ = ["CONFIG", "KINDS", "MEMORY", "QUEUES", "Trouble", "image", "load", "results", "trouble", "waits"]

CONFIG = replace(preset("tiny"), variant="max")
MEMORY, PROGRAM = 1 << 18, 0x3_0000
COUNT = 700
PHASES = 15
_PLACES = {"a": 0x0_1000, "b": 0x0_3000, "c": 0x0_5000, "d": 0x0_7000, "out": 0x0_A000}
"""Addresses of the update unit's arrays; the predictor's and the main core's operands follow, APART from each other."""
_APART = 0x1_0000
_LAYER = {
    "n": 1, "c": 4, "h": 8, "w": 8, "oh": 8, "ow": 8, "q": 24, "r": 1, "s": 1, "stride": 1, "nb": 1, "yb": 8, "cb": 4,
    "qb": 4, "c_mode": 3, "scale_id": 9,
}  # fmt: skip
"""A command of several tiles, each of which goes to all of the result."""


def _command(opcode: Opcode, place: int, fields: dict) -> Command:
    places = {f"{name}_addr": address + place * _APART for name, address in _PLACES.items()}
    numbers = {f"{name}_id": 10 * place + k for k, name in enumerate(_PLACES)}
    return Command(opcode, {"phase_mask": PHASES, "track": 1, **places, **numbers, **fields})


KINDS = {
    "update": _command(Opcode.UPDATE, 0, {"count": COUNT}),
    "quality": _command(Opcode.UPDATE, 0, {"count": COUNT, "quality": 1, "scale_id": 9}),
    "adam": _command(Opcode.ADAM, 0, {"count": COUNT, "hyper": 3}),
    "main": _command(Opcode.FORWARD, 1, _LAYER | {"reorganise": 1}),
    "predictor": _command(Opcode.FORWARD, 2, _LAYER | {"predictor": 1, "y_pitch": 29}),
}
QUEUES = {"update": ("update", "quality", "adam"), "main": ("main",), "predictor": ("predictor",)}
"""Kinds of commands by the queue that they are in."""


@dataclass(frozen=True)
class Trouble:
    """Obstacles of a command: faults, or a result that regions allow only in part; and the codes it may end with."""

    faults: tuple[Fault, ...]
    codes: set[ErrorCode]
    cut: int = 0


def _spread(runs, draw):
    """An operand's element, early or late in it."""
    first, last = draw.choice(((0.0, 0.1), (0.4, 0.6), (0.9, 1.0)))
    start, end = draw.choice(runs.intervals())
    return min(end - 2, start + int(draw.uniform(first, last) * (end - start)) & ~1)


def trouble(command: Command, draw: Random) -> Trouble:
    """A read or a write that is refused, of any operand, or a region that ends too early."""
    kind = draw.choice(("read", "read", "write", "write", "region"))
    written = writes(command, CONFIG)
    if kind == "region":
        name = draw.choice(sorted(written))
        middle = _spread(written[name], draw)
        return Trouble((), {ErrorCode.WRITE_REGION}, middle)
    runs = reads(command, CONFIG, command.a_addr) if kind == "read" else written
    address = _spread(runs[draw.choice(sorted(runs))], draw)
    fault = Fault(kind == "write", draw.choice((SLVERR, DECERR)), start=address, end=address + 2)
    return Trouble((fault,), {ErrorCode.WRITE_FAULT if kind == "write" else ErrorCode.READ_FAULT})


def results(command: Command) -> np.ndarray:
    """Which bytes of memory the command writes."""
    found = np.zeros(MEMORY, bool)
    for runs in writes(command, CONFIG).values():
        for start, end in runs.intervals():
            found[start:end] = True
    return found


def load(device: Device, commands: Sequence[Command], image: np.ndarray, cuts: Sequence[int] = ()) -> Program:
    """Fill memory, tables and write regions, of which each of ``cuts`` takes a bit away; returns the program."""
    device.write(0, image)
    lines = [header(CONFIG), *commands, Command(Opcode.COMMIT, {"phase_mask": PHASES})]
    lines.append(Command(Opcode.END, {"phase_mask": PHASES}))
    program = Program([Line(line) for line in lines], PROGRAM)
    device.write(PROGRAM, program.words())
    edges = [_PLACES["a"], *(edge for cut in sorted(cuts) for edge in (cut, cut + 1)), PROGRAM]
    device.set_regions(list(zip(edges[::2], edges[1::2], strict=True)))
    for tensor in range(CONFIG.n_tensors):
        device.set_exponents(tensor, -8, -8 if tensor < 10 else None)
    device.set_scale(9, -3, 5)
    device.set_adam_powers(1 << 31, 1 << 31)
    for index in range(CONFIG.n_hyper):
        device.set_hyper(index, 1000, -16)
    return program


def waits(commands: Sequence[Command], which: Sequence[bool]) -> list[Command]:
    """The commands, of which those in ``which`` wait for all before them, the others for none."""
    given, found = dict.fromkeys(WAITS, 0), []
    for command, serial in zip(commands, which, strict=True):
        found.append(Command(command.opcode, {**command.fields, **(given if serial else dict.fromkeys(WAITS, 0))}))
        given[counted(command)] += 1
    return found


def image(seed: int) -> np.ndarray:
    """Operands, second moments that have 44 bits, and places that hold what no result does."""
    found = np.random.default_rng(seed).integers(0, 256, MEMORY, np.uint8)
    found.view("<u2")[found.view("<u2") == 0x8000] = 0
    second = _PLACES["d"]
    found[second : second + 8 * COUNT].view("<u8")[:] &= (1 << 44) - 1
    for command in (KINDS["main"], KINDS["predictor"]):
        found[results(command)] = 0x77
    return found
