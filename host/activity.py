"""Switching activity of real batches on the simulated accelerator: toggles of every net, accesses of every memory.

A simulator with coverage counts how often each bit has risen and fallen, and how often each branch was taken; the
difference before and after a batch, over its clock cycles, is the activity. The batches are the default network's,
with calibration well behind them.
"""

from collections.abc import Iterable

import numpy as np

from ..gen.cache import digest, entry
from ..sim import coverage
from ..sim.build import library
from ..spec.config import Config
from ..synth.asic import Activity
from .settings import TrainSettings

__all__ = ["KINDS", "activities", "of_counts"]

KINDS = (coverage.LINE, coverage.TOGGLE)
BATCHES = 6
"""In an epoch. With GP and BP batches two by two they come as GP GP BP, BP, GP GP: the last two pieces are pure."""
ROOT = "adagp.accelerator"
"""The module that is the accelerator; those inside it begin with its name."""


def _path(module: str, root: str) -> str | None:
    """A module's place in the design; None if it isn't in it."""
    if module == root:
        return ""
    return module.removeprefix(f"{root}.") if module.startswith(f"{root}.") else None


def of_counts(points: Iterable[coverage.Point], counts: np.ndarray, cycles: int, root: str = ROOT) -> Activity:
    """Activity that counters of coverage amount to, over ``cycles``.

    An access of a memory is a branch taken in the module that has it; other modules' branches are of no memory, and do
    no harm. ``default`` is the mean over all nets.
    """
    toggles: dict[str, list[float]] = {}
    accesses: dict[str, float] = {}
    for point in points:
        path = _path(point.module, root)
        if path is None:
            continue
        if point.kind == coverage.TOGGLE:
            both = counts[point.counter : point.counter + 2 * point.bits].reshape(-1, 2).sum(axis=1)
            toggles[f"{path}.{point.name}".lstrip(".")] = (both / cycles).tolist()
        elif point.name == "if":
            accesses[path] = accesses.get(path, 0.0) + float(counts[point.counter]) / cycles
    every = [rate for bits in toggles.values() for rate in bits]
    return Activity(toggles, accesses, float(np.mean(every)) if every else 0.0)


def activities(config: Config, place: str = "") -> dict[str, Activity]:
    """Of a BP batch (``bp``), and where gradients are predicted of a GP batch (``gp``), on ``config``; kept.

    Names are paths below ``place``, a block's path.
    """
    settings = TrainSettings(
        preset=config.name, variant=config.variant, epochs=2, warmup_epochs=1, phases="2:2",
        train_images=BATCHES * TrainSettings().batch, test_images=TrainSettings().batch,
    )  # fmt: skip
    simulator = library(config, coverage=KINDS)
    points = coverage.load(simulator.with_suffix(".json"))
    key = digest(simulator.name, settings.to_dict())
    with entry(f"activity-{config.name}-{config.variant}-{key}.npz") as (path, scratch):
        if scratch:
            found = _measure(settings, coverage.n_counters(simulator.with_suffix(".json")))
            with open(scratch / "out", "wb") as file:
                np.savez_compressed(file, allow_pickle=False, **found)
            (scratch / "out").rename(path)
    with np.load(path) as file:
        return {
            phase: of_counts(points, file[phase], int(file[f"{phase}_cycles"]), f"{ROOT}.{place}".rstrip("."))
            for phase in ("bp", "gp") if phase in file
        }  # fmt: skip


def _measure(settings: TrainSettings, n_counters: int) -> dict[str, np.ndarray]:
    """Counters and cycles of the last pieces of a run."""
    from .session import open_session
    from .sim_device import SimDevice
    from .trainer import Trainer

    seen: list[tuple[np.ndarray, int]] = []
    options = {"coverage": (KINDS, np.zeros(n_counters, np.uint32))}
    with open_session(settings, "sim", options=options) as session:
        device = session.device
        assert isinstance(device, SimDevice)

        def note(*_) -> None:
            seen.append((device.simulation.counts, device.simulation.cycles))

        Trainer(settings, session.network, device, session.dataset, on_batch=note).run()
    (before, t0), (middle, t1), (after, t2) = seen[-3:]
    if not settings.predicts:
        return {"bp": after - middle, "bp_cycles": np.array(t2 - t1)}
    return {
        "bp": middle - before, "bp_cycles": np.array(t1 - t0), "gp": after - middle, "gp_cycles": np.array(t2 - t1),
    }  # fmt: skip
