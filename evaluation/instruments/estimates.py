"""Estimated batches of a design by phase, what follows from them, and the same batches on the simulated RTL."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import nn

from ...algorithm.paper_numbers import EPOCHS
from ...host.compiler.useful_macs import useful_batch
from ...host.devices.device import Device
from ...host.devices.estimator import EstimatorDevice
from ...host.devices.golden import GoldenDevice
from ...host.devices.simulated import SimDevice
from ...host.estimate.repeats import Known
from ...host.training.loss import softmax_cross_entropy
from ...host.training.network import Network
from ...spec.commands import Phase
from ...spec.opcodes import COMPUTE
from ...spec.phases import BP, EVALUATION, GP, PHASE_NAMES, WARMUP
from ...spec.registers import Status
from .energy import MODULE
from .variants import UNTAUGHT, Measured, limit, shares

__all__ = [
    "EPOCHS", "FORWARD", "PREDICTOR_RATE", "RATES", "UNTAUGHT", "Batch", "estimated", "ideal_saving", "means",
    "measured",
    "phases_of", "speed_up", "whole_run",
]  # fmt: skip

FORWARD = "forward"
"""Name of a BP batch's part up to the loss."""
RATES = {"learning_rate": 0.01, "momentum": 0.9, "weight_decay": 5e-4}
PREDICTOR_RATE = 1e-3
"""Rates of the batches on the simulated RTL."""
SEED = 1


@dataclass(frozen=True)
class Batch:
    """A batch of a phase: its counters, bytes by command, operand and direction, cycles of work by unit.

    ``layers``: cycles by layer, as :class:`~adagp.host.devices.estimator.EstimatorDevice` has them. ``useful_macs``:
    products without those of padding's zeros; ``n_pes`` of the array that makes them.
    """

    counters: dict[str, int]
    moved: dict[tuple[str, str, str], int] = field(default_factory=dict)
    busy: dict[str, float] = field(default_factory=dict)
    layers: dict[int, int] = field(default_factory=dict)
    useful_macs: int = 0
    n_pes: int = 1

    @property
    def cycles(self) -> int:
        """Cycles from its first command to its end."""
        return self.counters["cycles"]

    @property
    def useful_utilisation(self) -> float:
        """Useful products a PE and cycle."""
        return self.useful_macs / self.n_pes / self.cycles

    @property
    def utilisation(self) -> float:
        """Products a PE and cycle."""
        return self.counters["macs"] / self.n_pes / self.cycles

    @property
    def limited_by(self) -> str:
        """The unit that was at work in most cycles."""
        return max(self.busy, key=self.busy.__getitem__)

    @property
    def millijoules(self) -> float:
        """Energy of its DRAM traffic."""
        read, written = self.counters["read_bytes"], self.counters["write_bytes"]
        return (read * MODULE.read_pj + written * MODULE.write_pj) * 1e-9

    def millijoules_by_command(self) -> dict[str, float]:
        """Energy of DRAM traffic by kind of command, most first."""
        picojoules, sums = {"read": MODULE.read_pj, "write": MODULE.write_pj}, dict[str, float]()
        for (name, _, way), count in self.moved.items():
            if way in picojoules:
                sums[name] = sums.get(name, 0) + count * picojoules[way] * 1e-9
        return dict(sorted(sums.items(), key=lambda pair: -pair[1]))

    def bytes_by_command(self) -> dict[str, int]:
        """DRAM bytes by kind of command, most first."""
        sums: dict[str, int] = {}
        for (name, _, way), count in self.moved.items():
            if way != "chip":
                sums[name] = sums.get(name, 0) + count
        return dict(sorted(sums.items(), key=lambda pair: -pair[1]))


def phases_of(network: Network) -> tuple[int, ...]:
    """The phases that a design trains in."""
    if not network.config.predicts:
        return (BP,)
    skipped = not any(line.command.phase_mask & Phase.GP for line in network.program if line.command.opcode in COMPUTE)
    return (WARMUP, BP) if skipped else (WARMUP, BP, GP)


def estimated(
    network: Network,
    phases: Iterable[int],
    known: Known | None = None,
    *,
    halves: bool = False,
    row_stationary: bool = False,
) -> dict[str, Batch]:
    """A batch of each phase on the estimator, by the phase's name; with ``halves`` also BP up to the loss, as FORWARD.

    Where the predictor doesn't learn from all batches of BP, also one from which it doesn't, as UNTAUGHT.
    ``known`` and ``row_stationary`` are the device's.
    """
    found = {}

    def opened() -> EstimatorDevice:
        device = EstimatorDevice(network.config, known, row_stationary)
        network.install(device)
        return device

    def counted(device: EstimatorDevice, phase: int, work: int) -> Batch:
        moved, busy = dict(device.bytes(phase)), device.busy(phase)
        return Batch(device.counters(phase), moved, busy, device.layers(phase), **_work(network, work))

    device = opened()
    for phase in phases:
        stops = iter([stop.kind for stop in network.compiled.stops if stop.phases >> phase & 1])
        device.start(network.program, phase)
        while device.wait() & Status.HOST:
            if next(stops) == "loss" and phase == BP and halves:
                found[FORWARD] = counted(device, phase, EVALUATION)
            device.resume()
        found[PHASE_NAMES[phase]] = counted(device, phase, phase)
    if network.compiled.untaught is not None:
        device = opened()
        device.start(network.compiled.untaught, BP)
        while device.wait() & Status.HOST:
            device.resume()
        found[UNTAUGHT] = counted(device, BP, BP)
    return found


def _work(network: Network, phase: int) -> dict[str, Any]:
    return {"useful_macs": useful_batch(network.compiled, phase), "n_pes": network.config.n_pes}


def measured(network: Network, module: nn.Module, phases: Iterable[int], **options) -> dict[str, Batch]:
    """A batch of each phase on the simulated RTL, with random images, after one that calibrates on the golden model.

    ``options`` are those of the simulation.
    """
    golden = GoldenDevice(network.config)
    network.load_state(golden, module.state_dict(), SEED)
    _set(network, golden)
    _run(network, golden, WARMUP, calibrate=True)
    device = SimDevice(network.config, **options)
    found = {}
    try:
        network.restore(device, network.snapshot(golden))
        _set(network, device)
        for phase in phases:
            device.reset_counters()
            _run(network, device, phase)
            found[PHASE_NAMES[phase]] = Batch(device.counters(phase), **_work(network, phase))
        if network.compiled.untaught is not None:
            device.reset_counters()
            _run(network, device, BP, learns=False)
            found[UNTAUGHT] = Batch(device.counters(BP), **_work(network, BP))
    finally:
        device.close()
    return found


def _set(network: Network, device: Device) -> None:
    network.set_hyper(device, *RATES.values())
    if network.config.predicts:
        network.set_adam(device, PREDICTOR_RATE)


def _run(network: Network, device: Device, phase: int, calibrate: bool = False, learns: bool = True) -> None:
    draw = np.random.default_rng([SEED, phase])
    network.write_input(device, draw.random((network.batch, *network.input_shape), np.float32))
    network.start(device, phase, calibrate=calibrate, learns=learns)
    network.wait(device)
    if phase != GP:
        labels = draw.integers(0, network.n_outputs, network.batch)
        network.write_loss_gradient(device, softmax_cross_entropy(network.read_logits(device), labels)[1])
        device.resume()
        network.wait(device)


def means(baseline: dict[str, Batch], design: dict[str, Batch], every: int = 1) -> dict[str, float]:
    """Cycles and energy of a mean batch in the paper's schedule, and those of the baseline.

    A design without GP batches trains all as in BP. The predictor learns in one of ``every`` batches.
    """
    parts = [(part, design.get(phase, design["bp"])) for phase, part in shares(every).items()]
    return {
        "baseline_cycles": baseline["bp"].cycles, "baseline_millijoules": baseline["bp"].millijoules,
        "mean_cycles": sum(part * batch.cycles for part, batch in parts),
        "mean_millijoules": sum(part * batch.millijoules for part, batch in parts),
    }  # fmt: skip


def whole_run(found: dict[str, float], batches: int, clock_hz: float) -> dict[str, float]:
    """Hours and kilojoules of 90 epochs of ``batches``, by the means of a design and of the baseline."""
    names = {"hours": ("cycles", 1 / clock_hz / 3600), "kilojoules": ("millijoules", 1e-6)}
    return {
        prefix + name: EPOCHS * batches * factor * found[f"{which}_{unit}"]
        for name, (unit, factor) in names.items() for prefix, which in (("", "mean"), ("baseline_", "baseline"))
    }  # fmt: skip


def ideal_saving(baseline: dict[str, Batch]) -> float:
    """Share of DRAM energy that is saved if GP batches are forward passes alone."""
    forward = baseline[FORWARD if FORWARD in baseline else "evaluation"]
    return shares()["gp"] * (1 - forward.millijoules / baseline["bp"].millijoules)


def speed_up(
    baseline: dict[str, Batch], design: dict[str, Batch], variant: str, n_pes: int, every: int = 1
) -> dict[str, float]:  # fmt: skip
    """A design's speed-up and saving of energy by the paper's schedule, and the limit of a predictor that is free.

    ``baseline`` has a batch of BP, and its forward pass as FORWARD, or else a batch of evaluation in its place.
    The predictor learns in one of ``every`` batches.
    """
    parts = shares(every)
    one = Measured(variant, n_pes, {name: dict(batch.counters) for name, batch in design.items()})
    base = Measured("baseline", n_pes, {name: dict(batch.counters) for name, batch in baseline.items()})
    forward = baseline[FORWARD if FORWARD in baseline else "evaluation"]
    ratio = base.cycles("bp") / forward.cycles - 1
    time = sum(part * one.cycles(phase) for phase, part in parts.items())
    energy = sum(part * one.picojoules(phase) for phase, part in parts.items())
    return {
        "backward_to_forward": ratio, "limit": limit(ratio, parts["gp"]), "speed_up": base.cycles("bp") / time,
        "dram_energy_saving": 1 - energy / base.picojoules("bp"),
    }  # fmt: skip
