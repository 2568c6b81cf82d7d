"""One burst of a training step fails, any of them: the accelerator stops, says where, has written nothing but what
finished commands and those under way write, and after CLEAR the step runs to the golden model's bits.
"""

from pathlib import Path

import numpy as np
from adagp.host.sim_device import SimDevice
from adagp.sim import DECERR, SLVERR, Fault
from adagp.spec.errors import ErrorCode
from adagp.spec.registers import Status

from .campaign import Case, Kind
from .conditions import open_device, random_workload
from .observe import Run, clear
from .workload import Workload

__all__ = ["FAULTS"]

HALT_CYCLES = 2
"""Cycles after the one that takes an error response in which a burst may still be offered to the memory."""

STOP_CYCLES = 12
"""Cycles from the last answer to the interrupt, after an engine's error."""

SETTLE_CYCLES = 200
"""The same after a fault in the fetch of a command, which waits for all before it, exponents included."""

DROPPED = 6
"""Commands fetched in vain in a batch, at most; fewer depending on conditions."""

RESPONSES = {SLVERR: "SLVERR", DECERR: "DECERR"}


def _open(top: Path | None) -> Case:
    return lambda index, rng: _case(rng, top)


def _case(rng: np.random.Generator, top: Path | None) -> str:
    load = random_workload(rng)
    response = int(rng.choice(list(RESPONSES)))
    n_writes = sum(len(work.writes) for work in load.works)
    n_reads = sum(len(work.reads) for work in load.works) + load.batches * (len(load.program) + DROPPED)
    place, conditions = int(rng.integers(n_reads + n_writes)), int(rng.integers(1 << 32))
    write, nth = (False, place) if place < n_reads else (True, place - n_reads)
    while True:
        device = open_device(np.random.default_rng(conditions), top, (Fault(write, response, nth),))
        try:
            run = Run(load, device)
            status = _until_stopped(run)
            if run.bursts["response"].any():
                return _judge(run, status, RESPONSES[response])
            nth %= int((run.bursts["write"] == write).sum())
        finally:
            device.close()


def _until_stopped(run: Run) -> Status:
    load, device = run.load, run.device
    load.prepare(device, device.simulation.memory)
    load.start(device)
    device.wait_for_interrupt()
    while (status := Status(device.read_register("STATUS"))) & Status.HOST:
        run.at_host()
        device.wait_for_interrupt()
    run.close()
    return status


def _judge(run: Run, status: Status, response: str) -> str:
    load, device = run.load, run.device
    [fault] = np.flatnonzero(run.bursts["response"])
    client = run.client(fault)
    label = f"{response} on {client}"
    if client == "fetch":
        batch, index, needed = run.fetched(fault)
        if not needed:
            assert status == Status.DONE, f"{status!r} after a fault of a command that isn't looked at"
            load.check_final(device, device.simulation.memory)
            return f"{label} beyond HOST or END: no error"
        _check_fetch(run, (batch, index))
        label += f" of {load.program[index].command.opcode.name}"
    else:
        work = load.works[run.owner[fault]]
        index = work.place[1]
        _check_engine(run, int(run.bursts["first"][fault]))
        label += f" of {work.command.opcode.name}"
    code = ErrorCode.WRITE_FAULT if run.bursts["write"][fault] else ErrorCode.READ_FAULT
    assert status == Status.ERROR, f"{label}: {status!r}"
    found = ErrorCode(device.read_register("ERROR")), device.read_register("ERROR_INDEX")
    assert found == (code, index), f"{label} at {index}: reported as {found[0].name} at {found[1]}"
    waited = run.stopped - run.bursts["last"].max()
    assert waited <= (SETTLE_CYCLES if client == "fetch" else STOP_CYCLES), f"{label}: stopped {waited} cycles later"
    assert run.bursts["last"].all(), f"{label}: stopped before all bursts were answered"
    run.check_waits()
    run.check_memory()
    _recover(load, device, run)
    return f"{label}: {code.name}"


def _check_fetch(run: Run, place: tuple[int, int]) -> None:
    """All commands before the one at ``place`` are done, and no other has begun."""
    done = [run.whole(number) for number in range(len(run.load.works))]
    wanted = [work.place < place for work in run.load.works]
    assert done == wanted, f"fault in fetch of {place}: done are {done}"
    assert set(run.owner) <= {-1, *np.flatnonzero(wanted)}, f"fault in fetch of {place}: commands after it began"


def _check_engine(run: Run, seen: int) -> None:
    """No burst is offered to the memory after the error response was taken in cycle ``seen``."""
    late = run.bursts[run.bursts["offered"] > seen + HALT_CYCLES]
    assert not len(late), (
        f"{len(late)} bursts were begun after the error, the last {late['offered'].max() - seen} later"
    )


def _recover(load: Workload, device: SimDevice, run: Run) -> None:
    """CLEAR, everything as before the step, and the step again."""
    n_bursts = len(device.simulation.bursts)
    clear(device)
    assert len(device.simulation.bursts) == n_bursts == len(run.bursts), "bursts after the error"
    load.prepare(device, device.simulation.memory)
    load.run(device)
    load.check_final(device, device.simulation.memory)


FAULTS = Kind("axi_faults", _open, 10_000, "axi_fault_failures")
