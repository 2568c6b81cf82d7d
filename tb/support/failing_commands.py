"""An UPDATE and compute commands behind it, at the same time, and what makes each of them fail."""

from collections.abc import Sequence

import numpy as np
from adagp.host.devices.simulated import SimDevice
from adagp.host.program import Line, Program, header
from adagp.sim import SLVERR, Fault
from adagp.spec.commands import Command, Opcode
from adagp.spec.presets import preset

__all__ = [
    "BAD", "BAD_DATA", "BAD_WEIGHTS", "CONFIG", "EARLY", "END", "FAR", "FORWARD", "HALF", "LATE", "MEMORY", "MISFIT",
    "RESULT", "ROWS", "UNTOUCHED", "UPDATE", "load",
]  # fmt: skip

CONFIG = preset("tiny")
DATA, WEIGHTS, RESULT, END = 0x80000, 0x82000, 0x90000, 1 << 20
PROGRAM, MEMORY = END, 1 << 23
FREE = 0x20000
"""From here on commands may write."""
MOMENTUM = 0x40000
COUNT = 6000
UNTOUCHED = 0x77
"""The memory's content before results are written."""
PHASES = 15
UPDATE = Command(Opcode.UPDATE, {
    "phase_mask": PHASES, "count": COUNT, "a_addr": FREE, "b_addr": 0x28000, "c_addr": 0x30000,
    "out_addr": MOMENTUM, "a_id": 0, "b_id": 1, "c_id": 2, "out_id": 3,
})  # fmt: skip
OPERANDS = {
    "phase_mask": PHASES, "n": 1, "stride": 1, "nb": 1, "a_addr": DATA, "b_addr": WEIGHTS, "out_addr": RESULT,
    "a_id": 4, "b_id": 5, "c_id": 6, "out_id": 7,
}  # fmt: skip
FORWARD = Command(Opcode.FORWARD, OPERANDS | {
    "c": 4, "h": 8, "w": 8, "oh": 8, "ow": 8, "q": 64, "r": 1, "s": 1, "yb": 8, "cb": 4, "qb": 4,
})  # fmt: skip
"""A command of 16 tiles, each of which goes to all of the result."""
MISFIT = Command(Opcode.BACKWARD_WEIGHT, OPERANDS | {
    "c": 16, "h": 4, "w": 4, "oh": 3, "ow": 3, "q": 150, "r": 2, "s": 2, "yb": 3, "cb": 1, "qb": 150, "swap": 1,
    "bias": 1,
})  # fmt: skip
"""Its last tile doesn't fit: by then the others have been written."""
FILTER = 4 * CONFIG.operand_bytes
BAD_WEIGHTS = Fault(False, SLVERR, start=WEIGHTS + 32 * FILTER, end=WEIGHTS + 33 * FILTER)
EARLY, LATE = (
    Fault(True, SLVERR, start=MOMENTUM + 4 * place, end=MOMENTUM + 4 * place + 4) for place in (100, COUNT - 2)
)
"""A write of the UPDATE that is refused."""
BAD_DATA = Fault(False, SLVERR, start=DATA + 0x1000, end=DATA + 0x2000)
TILE = 2 * 8 * 24 * CONFIG.operand_bytes
ROWS = Command(Opcode.FORWARD, FORWARD.fields | {
    "h": 4, "oh": 4, "q": 24, "r": 3, "s": 3, "pad_y": 1, "pad_x": 1, "yb": 2, "qb": 24, "out_addr": RESULT - TILE,
})  # fmt: skip
"""A command of two long tiles: the first lies before RESULT, the second one after it."""
BAD = Command(Opcode.FORWARD, FORWARD.fields | {"a_addr": BAD_DATA.start})
"""Reads what BAD_DATA refuses, as soon as ROWS has read all."""
FAR = (1 << 15) - 2
"""So many commands before UPDATE, and the next one is the first whose number has 16 bits."""
HALF = RESULT + 8 * 8 * 64 * CONFIG.operand_bytes // 2
"""The middle of FORWARD's result: where regions end here, some of it is written before the rest is refused."""


def load(device: SimDevice, commands: Sequence[Command], end: int = END, before: int = 0) -> Program:
    """Fill memory, tables and the write region, which ends at ``end``; returns the program of the commands.

    ``before`` them come as many that are skipped in phase 0.
    """
    memory = device.simulation.memory
    memory[FREE:RESULT] = np.random.default_rng(1).integers(0, 256, RESULT - FREE)
    memory[RESULT:END] = UNTOUCHED
    skipped = Command(Opcode.COMMIT, {"phase_mask": PHASES - 1})
    lines = [header(CONFIG), *[skipped] * before, *commands, Command(Opcode.END, {"phase_mask": PHASES})]
    program = Program([Line(line) for line in lines], PROGRAM)
    device.write(PROGRAM, program.words())
    device.set_regions([(FREE, end)])
    for tensor in range(8):
        device.set_exponents(tensor, -8, -8 if tensor in (1, 3) else None)
    for index in range(3):
        device.set_hyper(index, 1000, -16)
    return program
