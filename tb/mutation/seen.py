"""What the stages of the top's bench share: what they are, and what they report of a device.

A stage is a generator of observations, (what, value). Its argument opens a device; whatever is seen of the intact
accelerator, cycles included, must be seen of every other. Observations that don't begin with ``TIMED`` must also be
the golden model's, where ``golden`` says that it can do the stage at all.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from adagp.host.device import Device, DeviceError
from adagp.host.sim_device import SimDevice
from adagp.sim import IDEAL
from adagp.spec.commands import Phase
from adagp.spec.presets import preset

__all__ = [
    "ALWAYS",
    "CONFIG",
    "MEMORIES",
    "SEED",
    "TIMED",
    "Observations",
    "Open",
    "Stage",
    "outcome",
    "tables",
    "work",
]

CONFIG = preset("tiny")
SEED = 10
TIMED = "timed "
Open = Callable[..., Device]
Observations = Iterator[tuple[str, object]]


@dataclass(frozen=True)
class Stage:
    """A part of the bench; ``run`` is the generator."""

    name: str
    run: Callable[[Open], Observations]
    golden: bool = True


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
    """Counters and, of a simulated device, the cycles and what the memory saw."""
    counters = [device.counters(phase) for phase in range(4)]
    for name in ("macs", "saturations", "commands"):
        yield name, [values[name] for values in counters]
    if isinstance(device, SimDevice):
        yield TIMED + "counters", counters
        yield TIMED + "cycles", device.simulation.cycles
        yield TIMED + "traffic", device.simulation.dram_totals.to_dict()
