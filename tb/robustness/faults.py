"""One burst of a training step fails, any of them, or a beat of one that is read: the accelerator says where,
finishes the commands before that one and those behind that have begun to write, begins no other, and after CLEAR the
step runs to the golden model's bits.
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

SEEN_CYCLES = 4
"""Cycles from an error response to the first in which nothing is written for the failing command or begun behind it."""

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
    beat = None if rng.random() < 0.5 else int(rng.integers(1 << 10))
    write, nth = (False, place) if place < n_reads else (True, place - n_reads)
    while True:
        device = open_device(np.random.default_rng(conditions), top, (Fault(write, response, nth, beat=beat),))
        try:
            run = Run(load, device)
            status = _until_stopped(run)
            if run.bursts["response"].any():
                return _judge(run, status, RESPONSES[response], "last" if beat else "first")
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


def _judge(run: Run, status: Status, response: str, seen: str) -> str:
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
        _check_engine(run, run.owner[fault], int(run.bursts[seen][fault]))
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


def _check_engine(run: Run, failing: int, seen: int) -> None:
    """All before work number ``failing`` is done; what is behind is written as a whole or not at all.

    Nothing is written for the failing one, and nothing behind it begins to write, once the error is ``seen``.
    """
    place = run.load.works[failing].place
    for number, work in enumerate(run.load.works):
        mine = run.bursts[(run.owner == number) & (run.bursts["write"] == 1)]
        if work.place < place:
            assert run.whole(number), f"{place} failed, {work.place} before it isn't complete"
        elif work.place > place:
            assert len(mine) in (0, len(work.writes)), f"{place} failed, {work.place} is written by half"
        late = mine["offered"][mine["offered"] >= seen + SEEN_CYCLES]
        if work.place == place:
            assert not len(late), f"{place} goes on to write {late.max() - seen} cycles after its error"
        elif work.place > place:
            assert len(late) < max(1, len(mine)), f"{work.place} begins to write after the error in {place}"


def _recover(load: Workload, device: SimDevice, run: Run) -> None:
    """CLEAR, everything as before the step, and the step again."""
    n_bursts = len(device.simulation.bursts)
    clear(device)
    assert len(device.simulation.bursts) == n_bursts == len(run.bursts), "bursts after the error"
    load.prepare(device, device.simulation.memory)
    load.run(device)
    load.check_final(device, device.simulation.memory)


FAULTS = Kind("axi_faults", _open, 10_000, "axi_fault_failures")
