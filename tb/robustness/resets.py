"""Reset in any cycle of a training step.

Registers must then have their first values, and a step that is set up anew must run to the golden model's bits.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from adagp.host.devices.simulated import SimDevice
from adagp.spec.layout import Access
from adagp.spec.registers import REGISTERS, Status

from .campaign import PREDICTING_DESIGNS, Case, Kind
from .conditions import ROOM, open_device, random_workload, same_design
from .observe import Run, clear
from .workloads import PREDICTED, TRUE, Choice

__all__ = ["PREDICTED_RESETS", "RESETS"]

TABLES = ("EXPONENT", "HYPER_VALUE", "COUNTER_LOW", "COUNTER_HIGH", "ENTRY_EPOCHS", "ENTRY_LENGTHS")
"""Registers that show a word of a memory; memories aren't reset."""

LONGEST = 4
"""Cycles that a reset is held, at most."""


def _open(choice: Mapping[str, Choice], top: Path | None) -> Case:
    return lambda index, rng: _case(rng, same_design(choice, top), top)


def _case(rng: np.random.Generator, choice: Mapping[str, Choice], top: Path | None) -> str:
    load = random_workload(rng, choice)
    device = open_device(rng, load, top)
    simulation = device.simulation
    try:
        initial = _registers(device, IRQ_ENABLE=0)
        load.prepare(device, simulation.memory)
        begun = simulation.cycles
        load.run(device)
        load.check_final(device, simulation.memory)
        length = simulation.cycles - begun
        load.prepare(device, simulation.memory)
        simulation.log_bursts(ROOM)
        run = Run(load, device)
        _until(run, int(rng.integers(length)))
        simulation.reset(int(rng.integers(1, LONGEST + 1)))
        run.close()
        work = run.latest()
        place = f"around {work.command.opcode.name}" if work else "before the first command"
        run.check_waits()
        run.check_memory()
        found = _registers(device)
        changed = {name: value for name, value in found.items() if value != initial[name]}
        assert not changed, f"registers after reset {place}: {changed}"
        clear(device)  # counts of bursts are at zero, else it waited for them
        device.connect()
        load.prepare(device, simulation.memory)
        load.run(device)
        load.check_final(device, simulation.memory)
    finally:
        device.close()
    return f"reset {place}"


def _until(run: Run, cycles: int) -> None:
    """Let ``cycles`` pass from START on, or less if the program ends before."""
    device = run.device
    end = device.simulation.cycles + cycles
    run.load.start(device)
    while device.simulation.cycles < end:
        device.simulation.step(end - device.simulation.cycles)
        if device.simulation.cycles < end:
            if not Status(device.read_register("STATUS")) & Status.HOST:
                return
            run.at_host()


def _registers(device: SimDevice, **known: int) -> dict[str, int]:
    """Values of all registers but write-only ones and tables."""
    shown = [r.name for r in REGISTERS if r.access != Access.WO and r.name not in TABLES]
    return {name: device.read_register(name) for name in shown} | known


RESETS = Kind("resets", partial(_open, TRUE), 1_000, "reset_failures")
PREDICTED_RESETS = Kind(
    "predicted_resets", partial(_open, PREDICTED), 1_000, "predicted_reset_failures", PREDICTING_DESIGNS
)
