"""The stages of the top's bench: their form, and their observations of a device.

A stage is a generator of observations, each (what, value). Its argument opens a device. Every accelerator must show the
same observations as the intact one, cycles included. If ``golden`` is set, the golden model can do the stage too, and
must show the same observations except those that begin with ``TIMED``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from adagp.host.devices.device import Device, DeviceError
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.sim import IDEAL
from adagp.spec.commands import Phase
from adagp.spec.config import Config
from adagp.spec.presets import preset
from adagp.spec.registers import N_PHASES

from ..support.random_programs import EVERYTHING

__all__ = [
    "ALWAYS",
    "CONFIG",
    "MEMORIES",
    "PREDICTING",
    "SEED",
    "SWITCHED",
    "TIMED",
    "Observations",
    "Open",
    "Stage",
    "difference",
    "outcome",
    "same",
    "tables",
    "work",
]

CONFIG = preset("tiny")
PREDICTING = replace(CONFIG, variant="max")
"""The configuration that has every block of prediction."""
SWITCHED = EVERYTHING
"""The configuration that has every block that switches build."""
SEED = 10
TIMED = "timed "
Open = Callable[..., Device]
Observations = Iterator[tuple[str, object]]


@dataclass(frozen=True)
class Stage:
    """A part of the bench of ``config``; ``run`` is the generator."""

    name: str
    run: Callable[[Open], Observations]
    golden: bool = True
    config: Config = CONFIG


def same(one: object, other: object) -> bool:
    """True if two observed values are equal."""
    return bool(np.array_equal(one, other)) if isinstance(one, np.ndarray) else one == other


def difference(stage: Stage, seen: list[tuple[str, object]]) -> str | None:
    """The first observation of a stage that differs from the golden model's, if it can do the stage; else None."""
    if not stage.golden:
        return None
    golden = list(stage.run(lambda memory_bytes, **_: GoldenDevice(stage.config, memory_bytes)))
    found = [observation for observation in seen if not observation[0].startswith(TIMED)]
    if len(golden) != len(found):
        return f"{len(found)} observations, of the golden model {len(golden)}"
    for number, (expected, got) in enumerate(zip(golden, found, strict=True)):
        if expected[0] != got[0] or not same(expected[1], got[1]):
            return f"observation {number}, {expected[0]}"
    return None


MEMORIES = {"ideal": {"part": IDEAL}, "ddr3": {}, "stalls": {"stall": 0.3, "seed": 7}}
"""Options of simulated devices; timing is checked with each."""

ALWAYS = {"phase_mask": int(Phase.ALL)}


def outcome(device: Device) -> tuple:
    """Wait; status, or error with its command."""
    try:
        return (int(device.wait()),)
    except DeviceError as error:
        if error.index < 0:
            raise
        return "error", int(error.code), error.index


def tables(device: Device) -> list:
    """All exponents."""
    return [device.exponents(tensor) for tensor in range(CONFIG.n_tensors)]


def work(device: Device) -> Observations:
    """Counters and, for a simulated device, its cycles and the accesses to its memory."""
    counters = [device.counters(phase) for phase in range(N_PHASES)]
    for name in ("macs", "saturations", "commands"):
        yield name, [values[name] for values in counters]
    if isinstance(device, SimDevice):
        yield TIMED + "counters", counters
        yield TIMED + "cycles", device.simulation.cycles
        yield TIMED + "traffic", device.simulation.dram_totals.to_dict()
