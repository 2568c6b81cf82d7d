"""Two commands fail that run at the same time, an UPDATE and a compute command behind it."""

import numpy as np
import pytest
from adagp.host.assembler import Line, Program, header
from adagp.host.sim_device import SimDevice
from adagp.sim import SLVERR, Fault
from adagp.spec.commands import Command, Opcode
from adagp.spec.errors import ErrorCode
from adagp.spec.presets import preset
from adagp.spec.registers import Control, Status

pytestmark = pytest.mark.timeout(900)  # the simulator may have to be built first

CONFIG = preset("tiny")
MEMORY = 1 << 20
DATA, WEIGHTS, RESULT = 0x80000, 0x82000, 0x90000
MOMENTUM = 0x40000
COUNT = 6000
LIMIT = 100_000
UNTOUCHED = 0x77
PHASES = 15
UPDATE = Command(Opcode.UPDATE, {
    "phase_mask": PHASES, "count": COUNT, "a_addr": 0x20000, "b_addr": 0x28000, "c_addr": 0x30000,
    "out_addr": MOMENTUM, "a_id": 0, "b_id": 1, "c_id": 2, "out_id": 3,
})  # fmt: skip
OPERANDS = {
    "phase_mask": PHASES, "n": 1, "stride": 1, "nb": 1, "a_addr": DATA, "b_addr": WEIGHTS, "out_addr": RESULT,
    "a_id": 4, "b_id": 5, "c_id": 6, "out_id": 7,
}  # fmt: skip
FORWARD = Command(Opcode.FORWARD, OPERANDS | {
    "c": 4, "h": 8, "w": 8, "oh": 8, "ow": 8, "q": 64, "r": 1, "s": 1, "yb": 8, "cb": 4, "qb": 4,
})  # fmt: skip
"""Of 16 tiles."""
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


def run(command, *faults, alone=False):
    """Run UPDATE (unless ``alone``) and ``command``; STATUS, ERROR, ERROR_INDEX and what became of the result."""
    commands = [command] if alone else [UPDATE, command]
    lines = [header(CONFIG), *commands, Command(Opcode.END, {"phase_mask": PHASES})]
    device = SimDevice(CONFIG, memory_bytes=MEMORY, faults=faults)
    try:
        memory = device.simulation.memory
        memory[0x20000:RESULT] = np.random.default_rng(1).integers(0, 256, RESULT - 0x20000)
        memory[RESULT:] = UNTOUCHED
        device.write(0, Program([Line(line) for line in lines], 0).words())
        device.set_regions([(0x20000, MEMORY)])
        for tensor in range(8):
            device.set_exponents(tensor, -8, -8 if tensor in (1, 3) else None)
        for index in range(3):
            device.set_hyper(index, 1000, -16)
        for name, value in (("PROGRAM", 0), ("BATCHES", 1), ("PHASE", 0), ("CALIBRATE", 0), ("CONTROL", Control.START)):
            device.write_register(name, value)
        end = device.simulation.cycles + LIMIT
        while (status := Status(device.read_register("STATUS"))) & Status.BUSY and device.simulation.cycles < end:
            device.simulation.step(1000)
        found = status, ErrorCode(device.read_register("ERROR")), device.read_register("ERROR_INDEX")
        return *found, memory[RESULT:].copy()
    finally:
        device.close()


@pytest.mark.parametrize("fault", [EARLY, LATE], ids=["the UPDATE first", "the UPDATE last"])
def test_a_misfit_behind_a_refused_write(fault):
    assert run(MISFIT, alone=True)[:3] == (Status.ERROR, ErrorCode.ACC_OVERFLOW, 1)
    assert run(MISFIT, fault)[:3] == (Status.ERROR, ErrorCode.WRITE_FAULT, 1)


@pytest.mark.parametrize("fault", [EARLY, LATE], ids=["the UPDATE first", "the UPDATE last"])
def test_what_was_read_badly_is_not_written(fault):
    status, *_, good = run(FORWARD, alone=True)
    assert status == Status.DONE and (good != UNTOUCHED).any()
    *found, memory = run(FORWARD, BAD_WEIGHTS, fault)
    assert found == [Status.ERROR, ErrorCode.WRITE_FAULT, 1]
    assert ((memory == good) | (memory == UNTOUCHED)).all()
    *found, memory = run(FORWARD, BAD_WEIGHTS)
    assert found == [Status.ERROR, ErrorCode.READ_FAULT, 2]
    assert ((memory == good) | (memory == UNTOUCHED)).all() and (memory != UNTOUCHED).any()
