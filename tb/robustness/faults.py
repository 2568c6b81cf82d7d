"""Random bursts of a training step fail, or single beats of bursts that are read.

The accelerator must name the first failing command. It must complete the commands before it and those after it that
have begun to write, and begin no other. After CLEAR, the step must run to the golden model's bits.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from adagp.host.devices.simulated import SimDevice
from adagp.rtl.lib.skid import Skid
from adagp.rtl.memory.narrow import READ_BEATS, WRITE_BURSTS
from adagp.rtl.update.adam_lane import FOLD, AdamLane
from adagp.rtl.update.arrays import SLOTS
from adagp.sim import DECERR, SLVERR, Fault
from adagp.spec.commands import Opcode
from adagp.spec.config import Config
from adagp.spec.errors import ErrorCode
from adagp.spec.registers import Status

from .campaign import PREDICTING_DESIGNS, Case, Kind
from .conditions import ROOM, open_device, random_workload, same_design
from .observe import CLIENTS, PREDICTOR_STORE, Run, clear
from .workload import Workload
from .workloads import PREDICTED, TRUE, Choice

__all__ = ["FAULTS", "PREDICTED_FAULTS"]

SEEN_CYCLES = 7
"""Cycles from an error response until the failing command writes nothing more and no later command begins to write."""

STOP_CYCLES = 36
"""Cycles from the last answer to the interrupt, after an engine's error."""

SETTLE_CYCLES = 200
"""The same after a fault in the fetch of a command, which waits for all before it, exponents included."""

DROPPED = 6
"""Most commands that a batch fetches in vain; the number depends on conditions."""

RESPONSES = {SLVERR: "SLVERR", DECERR: "DECERR"}

FAULTS_OF_A_CASE = (1, 1, 1, 2, 3)
"""Numbers of faults to inject; one of these is drawn."""

NEAR = 12
"""Distance in bursts within which a case's other faults lie."""


def _open(choice: Mapping[str, Choice], top: Path | None) -> Case:
    return lambda index, rng: _case(rng, same_design(choice, top), top)


def _faults(rng: np.random.Generator, n_reads: int, n_writes: int) -> list[Fault]:
    """A fault of any burst, and maybe others near it. Half of the faults of reads are of a single beat."""
    at, faults = rng.random(), []
    for number in range(rng.choice(FAULTS_OF_A_CASE)):
        n_bursts = n_reads, n_writes
        write = bool(rng.random() * (n_reads + n_writes) >= n_reads)
        nth = int(at * n_bursts[write]) + bool(number) * int(rng.integers(-NEAR, NEAR))
        beat = None if rng.random() < 0.5 else int(rng.integers(1 << 10))
        faults.append(Fault(write, int(rng.choice(list(RESPONSES))), max(0, nth), beat=beat))
    return faults


def _case(rng: np.random.Generator, choice: Mapping[str, Choice], top: Path | None) -> str:
    load = random_workload(rng, choice)
    n_writes = sum(len(work.writes) for work in load.works)
    n_reads = sum(len(work.reads) for work in load.works) + load.batches * (len(load.program) + DROPPED)
    faults = _faults(rng, n_reads, n_writes)
    conditions = int(rng.integers(1 << 32))
    while True:
        device = open_device(np.random.default_rng(conditions), load, top)
        load.prepare(device, device.simulation.memory)
        device.simulation.log_bursts(ROOM)
        device.simulation.inject(faults)
        try:
            run = Run(load, device)
            status = _until_stopped(run)
            numbers = [int((run.bursts["write"] == write).sum()) for write in (False, True)]
            met = [fault for fault in faults if fault.nth < numbers[fault.write]]
            if met == faults:
                return _judge(run, status)
            # Remaining faults would occur after CLEAR.
            faults = met or [replace(faults[0], nth=faults[0].nth % numbers[faults[0].write])]
        finally:
            device.close()


def _until_stopped(run: Run) -> Status:
    load, device = run.load, run.device
    load.start(device)
    device.wait_for_interrupt()
    while (status := Status(device.read_register("STATUS"))) & Status.HOST:
        run.at_host()
        device.wait_for_interrupt()
    run.close()
    return status


def _judge(run: Run, status: Status) -> str:
    load, device = run.load, run.device
    faults = np.flatnonzero(run.bursts["failed"])
    failed = {int(number) for number in run.owner[faults] if number >= 0}
    label = ", ".join(
        sorted(f"{RESPONSES[int(run.bursts['response'][fault])]} on {run.client(fault)}" for fault in faults)
    )
    if failed:
        first = min(failed, key=lambda number: load.works[number].place)
        # The log lacks bursts that memory on chip answers: they take a cycle a beat.
        work, limit = load.works[first], STOP_CYCLES + load.config.predictor_on_chip * load.config.max_burst_beats
        index, mine = work.place[1], faults[run.owner[faults] == first]
        codes = {ErrorCode.WRITE_FAULT if write else ErrorCode.READ_FAULT for write in run.bursts["write"][mine]}
        _check_engines(run, failed, first)
        label += f" of {work.command.opcode.name}"
    else:
        places = [run.fetched(fault) for fault in faults]
        needed = min(((batch, index) for batch, index, needed in places if needed), default=None)
        if needed is None:
            assert status == Status.DONE, f"{status!r} after a fault of a command that isn't looked at"
            load.check_final(device, device.simulation.memory)
            return f"{label} beyond HOST or END: no error"
        index, codes, limit = needed[1], {ErrorCode.READ_FAULT}, SETTLE_CYCLES
        _check_fetch(run, needed)
        label += f" of {load.program[index].command.opcode.name}"
    assert status == Status.ERROR, f"{label}: {status!r}"
    found = ErrorCode(device.read_register("ERROR")), device.read_register("ERROR_INDEX")
    assert found[0] in codes and found[1] == index, f"{label} at {index}: reported as {found[0].name} at {found[1]}"
    interrupted = [load.works[number] for number in run.interrupted()]
    limit += any(work.command.opcode == Opcode.ADAM for work in interrupted) * _adam_cycles(load.config)
    clears = max((work.clears for work in interrupted if not _narrow(load.config, work.kind)), default=0)
    answers = {write: run.bursts["last"][run.bursts["write"] == write].max(initial=0) for write in (0, 1)}
    waited = run.stopped - max(answers[1], answers[0] + clears)
    assert waited <= limit, f"{label}: stopped {waited} cycles later"
    assert run.bursts["last"].all(), f"{label}: stopped before all bursts were answered"
    run.check_waits()
    run.check_memory()
    _recover(load, device, run)
    return f"{len(faults)} faults" if len(faults) > 1 else f"{label}: {found[0].name}"


def _adam_cycles(config: Config) -> int:
    """Cycles by which an ADAM may delay the interrupt after an error: until its lane is idle."""
    return AdamLane.LATENCY + FOLD * SLOTS * config.port_width


def _narrow(config: Config, kind: str) -> bool:
    """True if works of a kind use a port narrower than the accelerator's, with queues in front of it."""
    return kind == "wait_predictor" and config.n_cores > 1 and config.predictor_core.port_width < config.port_width


def _seen(run: Run, number: int) -> int:
    """The cycle in which the engine of a failed work meets its first error.

    For a write this is the cycle of the answer. For a read it is the cycle in which the engine takes the beat: after a
    pad has been cleared and, at a narrower port, after all pieces of earlier beats.
    """
    work, config = run.load.works[number], run.load.config
    mine = run.bursts[(run.owner == number) & (run.bursts["failed"] > 0)]
    wait = work.clears
    if _narrow(config, work.kind):
        beats = min(READ_BEATS, sum(span.beats for span in work.reads))
        wait += beats * config.port_width // config.predictor_core.port_width
    return int((mine["failed"] + wait * (mine["write"] == 0)).min())


def _check_fetch(run: Run, place: tuple[int, int]) -> None:
    """All commands that make bursts before the one at ``place`` must be complete, and no later one begun."""
    seen = {number: work for number, work in enumerate(run.load.works) if work.reads or work.writes}
    done = {number for number in seen if run.whole(number)}
    wanted = {number for number, work in seen.items() if work.place < place}
    assert done == wanted, f"fault in fetch of {place}: done are {done}"
    assert set(run.owner) <= {-1, *wanted}, f"fault in fetch of {place}: commands after it began"


def _check_engines(run: Run, failed: set[int], first: int) -> None:
    """All works before number ``first`` must be complete. Later ones that didn't fail must write all or nothing.

    Once an error is seen, no work after that command may begin to write, and ``first`` may write nothing more.
    """
    works, bursts, config = run.load.works, run.bursts, run.load.config
    seen = {number: _seen(run, number) for number in failed}
    place = works[first].place
    for number, work in enumerate(works):
        writes = (run.owner == number) & (bursts["write"] == 1)
        mine = bursts["offered"][writes]
        if work.place < place:
            assert run.whole(number), f"{place} failed, {work.place} before it isn't complete"
        elif number == first:
            late = bursts["offered"][writes & ~_waited(bursts, seen[number], config)].max(initial=0) - seen[number]
            assert late < SEEN_CYCLES, f"{place} goes on to write {late} cycles after its error"
        elif number not in failed:
            assert len(mine) in (0, len(work.writes)), f"{place} failed, {work.place} is written by half"
        for other, cycle in seen.items():
            first_write = np.flatnonzero(writes)[:1]
            begun = len(mine) == 0 or _waited(bursts, cycle, config)[first_write].all()
            begins = 0 if begun else mine.min() - cycle
            assert begins < SEEN_CYCLES or work.place <= works[other].place, (
                f"{work.place} begins to write {begins} cycles after the error in {works[other].place}"
            )


def _waited(bursts: np.ndarray, cycle: int, config: Config) -> np.ndarray:
    """Mask of late bursts that may already have waited on their way to the port when the error of ``cycle`` was seen.

    With the predictor's memory on chip these are first the bursts in the arbiter's register and in front of that
    memory, from any writer. Then come each writer's bursts in front of the arbiter.
    """
    late = np.flatnonzero((bursts["write"] == 1) & (bursts["offered"] >= cycle + SEEN_CYCLES))
    waited, shared = np.zeros(len(bursts), bool), config.predictor_on_chip * (1 + Skid.ITEMS)
    waited[late[:shared]] = True
    for client in {client for write, client in CLIENTS if write}:
        queue = WRITE_BURSTS * (client == PREDICTOR_STORE and _narrow(config, "wait_predictor"))
        behind = late[shared:][bursts["id"][late[shared:]] == client]
        waited[behind[: Skid.ITEMS + queue]] = True
    return waited


def _recover(load: Workload, device: SimDevice, run: Run) -> None:
    """Give CLEAR, restore the state before the step, and run the step again."""
    n_bursts = len(device.simulation.bursts)
    clear(device)
    assert len(device.simulation.bursts) == n_bursts == len(run.bursts), "bursts after the error"
    load.prepare(device, device.simulation.memory)
    load.run(device)
    load.check_final(device, device.simulation.memory)


FAULTS = Kind("axi_faults", partial(_open, TRUE), 10_000, "axi_fault_failures")
PREDICTED_FAULTS = Kind(
    "predicted_axi_faults", partial(_open, PREDICTED), 5_000, "predicted_axi_fault_failures", PREDICTING_DESIGNS
)
