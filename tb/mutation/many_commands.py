"""Programs of many commands, so that counters of commands reach large numbers."""

import numpy as np
from adagp.host.devices.device import Device
from adagp.host.program import Line, Program, header
from adagp.spec.commands import Command, Opcode

from .observations import ALWAYS, CONFIG, Observations, Open, outcome, tables, work

__all__ = ["waits"]

PROGRAM = 0x1_0000
MEMORY = 1 << 20
COUNTS = (85, 170)
"""Commands for each queue: every bit of their numbers is set in one and not in the other."""
LAYER = dict.fromkeys(("n", "c", "h", "w", "q", "r", "s", "stride", "oh", "ow", "nb", "yb", "cb", "qb"), 1) | {
    "a_addr": 0x100, "b_addr": 0x200, "out_addr": 0x300, "a_id": 1, "b_id": 2, "out_id": 3,
}  # fmt: skip
UPDATE = {
    "count": 1, "a_addr": 0x400, "b_addr": 0x500, "c_addr": 0x600, "out_addr": 0x700, "a_id": 4, "b_id": 5, "out_id": 6,
}  # fmt: skip


def _program(count: int, **more) -> Program:
    """``count`` commands for each queue, each waiting for all before it, and one with ``more`` waits."""
    commands = [header(CONFIG)]
    for n in range(count):
        waits = {**ALWAYS, "wait_main": n, "wait_update": n}
        commands += [
            Command(Opcode.UPDATE, UPDATE | waits),
            Command(Opcode.FORWARD, LAYER | waits | {"wait_update": n + 1}),
        ]
    commands += [Command(Opcode.UPDATE, UPDATE | ALWAYS | more), Command(Opcode.END, ALWAYS)]
    return Program([Line(command) for command in commands], PROGRAM)


def _run(device: Device, program: Program) -> Observations:
    device.write(0, np.arange(PROGRAM).astype(np.uint8))
    device.write(program.address, program.words())
    device.start(program, 0)
    yield "at the end", outcome(device)
    yield "memory", device.read(0, PROGRAM).tobytes()
    yield "exponents", tables(device)
    yield from work(device)


def waits(open_device: Open) -> Observations:
    """Commands that wait for all before them, and then one for as many, or for one that isn't there."""
    device = open_device(memory_bytes=MEMORY)
    device.set_regions([(0, PROGRAM)])
    for tensor in range(1, 7):
        device.set_exponents(tensor, -8, -8)
    for count in COUNTS:
        for name in ("wait_main", "wait_update"):
            for missing in (0, 1):
                yield from _run(device, _program(count, **{name: count + missing}))
