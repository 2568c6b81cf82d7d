"""Several commands fail that run at the same time, an UPDATE and compute commands behind it."""

import pytest
from adagp.host.devices.simulated import SimDevice
from adagp.spec.errors import ErrorCode
from adagp.spec.registers import Status
from failing_commands import (
    BAD,
    BAD_DATA,
    BAD_WEIGHTS,
    CONFIG,
    EARLY,
    END,
    FAR,
    FORWARD,
    HALF,
    LATE,
    MEMORY,
    MISFIT,
    RESULT,
    ROWS,
    UNTOUCHED,
    UPDATE,
    load,
)

pytestmark = pytest.mark.timeout(900)  # the simulator may have to be built first

LIMIT = 100_000
CYCLES = 40
"""At most, of a command that is skipped."""


def run(commands, *faults, end=END, before=0):
    """Run ``commands``, with others before them; STATUS, ERROR, ERROR_INDEX and what became of the result."""
    device = SimDevice(CONFIG, memory_bytes=MEMORY, faults=faults)
    try:
        device.start(load(device, commands, end, before), 0)
        last = device.simulation.cycles + LIMIT + before * CYCLES
        while (status := Status(device.read_register("STATUS"))) & Status.BUSY and device.simulation.cycles < last:
            device.simulation.step(1000)
        found = status, ErrorCode(device.read_register("ERROR")), device.read_register("ERROR_INDEX")
        return *found, device.simulation.memory[RESULT:END].copy()
    finally:
        device.close()


@pytest.mark.parametrize("fault", [EARLY, LATE], ids=["the UPDATE first", "the UPDATE last"])
def test_a_misfit_behind_a_refused_write(fault):
    assert run([MISFIT])[:3] == (Status.ERROR, ErrorCode.ACC_OVERFLOW, 1)
    assert run([UPDATE, MISFIT], fault)[:3] == (Status.ERROR, ErrorCode.WRITE_FAULT, 1)


@pytest.mark.parametrize("fault", [EARLY, LATE], ids=["the UPDATE first", "the UPDATE last"])
def test_what_was_read_badly_is_not_written(fault):
    status, *_, good = run([FORWARD])
    assert status == Status.DONE and (good != UNTOUCHED).any()
    *found, memory = run([UPDATE, FORWARD], BAD_WEIGHTS, fault)
    assert found == [Status.ERROR, ErrorCode.WRITE_FAULT, 1]
    assert ((memory == good) | (memory == UNTOUCHED)).all()
    *found, memory = run([UPDATE, FORWARD], BAD_WEIGHTS)
    assert found == [Status.ERROR, ErrorCode.READ_FAULT, 2]
    assert ((memory == good) | (memory == UNTOUCHED)).all() and (memory != UNTOUCHED).any()


@pytest.mark.parametrize("fault", [EARLY, LATE], ids=["the UPDATE first", "the UPDATE last"])
def test_a_result_that_leaves_its_region_behind_a_refused_write(fault):
    *_, good = run([FORWARD])
    *found, memory = run([FORWARD], end=HALF)
    assert found == [Status.ERROR, ErrorCode.WRITE_REGION, 1]
    assert (memory[: HALF - RESULT] != UNTOUCHED).any() and (memory[HALF - RESULT :] == UNTOUCHED).all()
    *found, memory = run([UPDATE, FORWARD], fault, end=HALF)
    assert found == [Status.ERROR, ErrorCode.WRITE_FAULT, 1]
    assert ((memory == good) | (memory == UNTOUCHED)).all() and (memory[HALF - RESULT :] == UNTOUCHED).all()


@pytest.mark.parametrize("before", [0, FAR], ids=["low numbers", "high numbers"])
def test_three_fail_the_last_first(before):
    """A read for the third, then a region that the second leaves, then a write of the first."""
    first = before + 1
    assert run([BAD], BAD_DATA)[:3] == (Status.ERROR, ErrorCode.READ_FAULT, 1)
    assert run([UPDATE, ROWS, BAD], BAD_DATA, end=RESULT, before=before)[:3] == (
        Status.ERROR, ErrorCode.WRITE_REGION, first + 1,
    )  # fmt: skip
    *found, memory = run([UPDATE, ROWS, BAD], BAD_DATA, LATE, end=RESULT, before=before)
    assert found == [Status.ERROR, ErrorCode.WRITE_FAULT, first] and (memory == UNTOUCHED).all()
