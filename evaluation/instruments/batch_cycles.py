"""Cycles of a training run's batches by phase, measured on the simulated RTL."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...host.training.data import Dataset
from ...host.training.progress import Progress
from ...host.training.session import open_session
from ...host.training.settings import TrainSettings
from ...host.training.trainer import Trainer
from ...spec.phases import GP, PHASE_NAMES

__all__ = ["batch_cycles"]

STEPS, WARMUP_EPOCHS, EPOCHS = 4, 2, 4
"""Batches of an epoch, and epochs: GP and BP batches take turns after the warm-up."""


def batch_cycles(
    settings: TrainSettings, dataset: Dataset, device: str = "sim", seen: Callable[[int, int], None] | None = None
) -> dict[str, int]:
    """Cycles of a mean batch of each phase that a run with such ``settings`` has, each up to its own END.

    0 for GP batches that are left out. Of a short run with random images in the shape of ``dataset``'s, without its
    first batch, which calibrates. ``seen`` is called with the number of batches that are done, and that there will be.
    """
    few = replace(
        settings, epochs=EPOCHS, warmup_epochs=WARMUP_EPOCHS, phases="1:1", train_images=STEPS * settings.batch,
        schedule="constant", test_images=settings.batch, seed=0,
    )  # fmt: skip
    rng = np.random.default_rng(few.seed)
    count = STEPS * few.batch
    x_NCHW = rng.random((count, *dataset.shape), np.float32)
    y_N = rng.integers(0, dataset.n_classes, count)
    random = replace(dataset, train_x_NCHW=x_NCHW, train_y_N=y_N, test_x_NCHW=x_NCHW[:1], test_y_N=y_N[:1])
    with open_session(few, device, dataset=random) as session:
        first: list[tuple[int, int]] = []

        def on_batch(progress: Progress, _loss) -> None:
            if not first:
                trainer.read_counters()
                first.append((sum(progress.batches), progress.by_phase[0]["cycles"]))
            if seen:
                seen(sum(progress.batches), EPOCHS * STEPS)

        trainer = Trainer(few, session.network, session.device, random, on_batch=on_batch)
        progress = trainer.run()
    [(batches, cycles)] = first
    found = {PHASE_NAMES[GP]: 0} if few.gradient_source == "skip" else {}
    for phase, (name, count) in enumerate(zip(PHASE_NAMES, progress.batches, strict=False)):
        left = count - batches * (phase == 0)
        if left:
            found[name] = round((progress.by_phase[phase]["cycles"] - cycles * (phase == 0)) / left)
    return found
