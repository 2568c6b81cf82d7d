"""Steps of pipelined batches as they ran on devices, and the times that they take one after the other."""

from collections.abc import Callable, Sequence
from statistics import mean

import numpy as np

from ...host.compiler.predictor_steps import SHARED
from ...host.pipelines.counts import Mix
from ...host.pipelines.device_program import Staged
from ...host.pipelines.expected import agreed, free_after
from ...host.pipelines.staged_network import Link, StagedNetwork
from ...host.pipelines.steps import Step, What
from ...host.pipelines.worker import HEADER_BYTES
from ...host.training.loss import softmax_cross_entropy
from ...spec.phases import BP, GP, WARMUP

__all__ = ["UNITS", "Steps", "balanced_steps", "laid", "mean_cycles", "ran_batches", "shares"]

UNITS = {What.FORWARD: 1, What.BACKWARD: 2, What.BACKWARD_INPUT: 1, What.BACKWARD_WEIGHT: 1}
"""The paper's durations of steps; updates and the predictor's learning take none."""

Steps = list[tuple[int, Step, float]]
"""Steps of a batch in the order in which they ran: device, step, cycles."""
Seen = Callable[[str], None]


def ran_batches(pipeline: StagedNetwork, module, shape: tuple[int, ...], classes: int, seed: int, seen: Seen) -> dict:
    """The :data:`Steps` of a batch by phase, ``bp`` and with predictions ``gp``, after one that calibrates.

    A hybrid with stale weights also has ``alone``, a batch without staleness.
    ``cycles``: those of the BP batch alone or, with predictions, of two GP batches and a BP batch in a row. ``seen`` is
    called after each batch.
    """
    draw = np.random.default_rng(seed)
    x_NCHW, y_N = draw.random((pipeline.batch, *shape)), draw.integers(0, classes, pipeline.batch)
    parts_N = np.split(y_N, pipeline.staged.schedule.micro_batches)

    def loss(micro_batch: int, results: list[np.ndarray]) -> list[np.ndarray]:
        part_N = parts_N[micro_batch]
        return [softmax_cross_entropy(results[0].reshape(len(part_N), -1), part_N)[1]]

    def train(phase: int, **options: bool) -> Steps:
        pipeline.train(x_NCHW, loss, phase=phase, **options)
        seen(f"{round(pipeline.cycles):,} cycles after a batch of phase {phase}")
        return [(ran.device, ran.step, ran.end - ran.begin) for ran in pipeline.ran]

    pipeline.load_state(module.state_dict(), seed)
    pipeline.set_hyper(0.01, 0.9, 5e-4)
    pipeline.set_adam(1e-3)
    train(WARMUP, calibrate=True)
    if not pipeline.staged.gp:
        steps, cycles = {"bp": train(WARMUP)}, pipeline.clock
        if pipeline.staged.alone:
            steps["alone"] = train(WARMUP, alone=True)
        return {"steps": steps, "cycles": cycles}
    train(GP)
    found = {"gp": train(GP, follows=True), "bp": train(BP, follows=True)}
    return {"steps": found, "cycles": pipeline.clock}


def laid(staged: Staged, batches: Sequence[Steps], link: Link) -> float:
    """Cycles of batches in a row: each device takes its steps in their order, each as soon as its messages are there.

    With the cycles of a run this is the run's own time, for a network whose stages send a tensor each.
    """
    size = staged.schedule.devices
    free = [0.0] * size
    for batch in batches:
        rows = [[(step, cycles) for place, step, cycles in batch if place == device] for device in range(size)]
        free = free_after(staged, rows, free, link)
        if any(step.what is What.ADAM for _, step, _ in batch):
            free = [max(free) + link.cycles(HEADER_BYTES * len(SHARED))] * size
        free = agreed(staged, free, link)
    return max(free)


def balanced_steps(batch: Steps) -> Steps:
    """The steps as a perfectly balanced cut would have them: each kind's cycles are equal on all devices.

    All devices take the step of Adam as it is.
    """
    by_kind: dict[What, list[float]] = {}
    for _, step, cycles in batch:
        by_kind.setdefault(step.what, []).append(cycles)
    return [(place, step, cycles if step.what is What.ADAM else mean(by_kind[step.what]))
            for place, step, cycles in batch]  # fmt: skip


def mean_cycles(staged: Staged, steps: dict[str, Steps], mix: Mix, link: Link) -> float:
    """Cycles of a mean batch of a training with the ``mix`` of phases; runs of GP and BP batches are laid out whole."""
    spent = sum(
        epochs * laid(staged, [steps["gp"]] * gp + [steps["bp"]] * bp, link) / (gp + bp)
        for epochs, gp, bp in mix.parts()
    )  # fmt: skip
    return spent / mix.epochs


def shares(batch: Steps, devices: int) -> list[float]:
    """Part of all cycles of a batch that each device works."""
    busy = [sum(cycles for place, _, cycles in batch if place == device) for device in range(devices)]
    return [one / sum(busy) for one in busy]
