"""Cycles of a regime's batches by phase, measured on the simulated RTL."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from ...experiments.methods.methods import METHODS
from ...experiments.networks import by_path
from ...experiments.regimes import Regime
from ...gen.cache import digest
from ...gen.files import write_atomically
from ...gen.hardware_digest import hardware_digest
from ...host.training.data import Dataset
from ...host.training.settings import TrainSettings
from ...host.training.sources import training_sources
from ...spec.presets import preset
from ...spec.schedule import KEEP, SOURCES
from ..instruments.batch_cycles import batch_cycles

__all__ = ["HALF", "PLAIN", "SIMULATED", "cycles_of", "measured", "settings_of"]

PLAIN = "plain"
"""The name, among sources, of training without predictions, on the baseline; predictions and controls are on MAX."""
HALF = "half"
"""One of :mod:`.ideas`: in GP batches the baseline trains with half of the examples."""
SIMULATED = (PLAIN, *SOURCES, HALF)
"""Sources whose batches' cycles can be measured."""

Seen = Callable[[int, int], None]


def settings_of(regime: Regime, source: str) -> TrainSettings:
    """Settings of a run of the regime's network with gradients of ``source`` in GP batches; KeyError for "dni"."""
    if source not in (PLAIN, *SOURCES):
        raise KeyError(source)
    network = f"{by_path.__file__}:{regime.model.replace('-', '_')}"
    plain = TrainSettings(model=network, data=regime.data, batch=regime.batch_size, preset=regime.preset)
    return plain if source == PLAIN else replace(plain, variant="max", gradient_source=source)


def measured(regime: Regime, source: str, n_classes: int, work: Path, seen: Seen | None = None) -> dict[str, int]:
    """Cycles of a batch by phase; kept in ``work`` for the same hardware, host and settings.

    ``seen``: called with batches that are done, and that there will be. What images show makes no difference.
    """
    if source == HALF:
        halved = replace(regime, batch_size=(regime.batch_size + 1) // 2)
        whole, half = (measured(each, PLAIN, n_classes, work, seen)["warmup"] for each in (regime, halved))
        return {"warmup": whole, "bp": whole, "gp": half}
    settings = settings_of(regime, source)
    shape = (regime.channels, regime.image_size, regime.image_size)
    named = replace(settings, model=regime.model)  # not by a path of this machine
    hardware = hardware_digest(preset(settings.preset))
    key = digest(hardware, training_sources(), repr(asdict(named)), repr(shape), str(n_classes))
    path = work / f"cycles-{source}-{key}.json"
    if not path.exists():
        x_NCHW, y_N = np.zeros((1, *shape), np.float32), np.zeros(1, np.int64)
        dataset = Dataset(regime.data, x_NCHW, y_N, x_NCHW, y_N, n_classes)
        write_atomically(path, json.dumps(batch_cycles(settings, dataset, seen=seen)).encode())
    found: dict[str, int] = json.loads(path.read_text())
    return found


def cycles_of(outcome: dict, by_source: dict[str, dict[str, int]]) -> int | None:
    """Cycles of all batches of a run, from those of a batch by source and phase; None if its source wasn't measured.

    Nor were batches in which the predictor doesn't learn, or momentum is kept.
    """
    method = METHODS[outcome["run"]["method"]]
    cycles = by_source.get(method.source if method.entries else PLAIN)
    if cycles is None or method.every > 1 or method.gp_momentum == KEEP:
        return None
    return sum(count * cycles[phase] for phase, count in outcome["batches"].items() if count)
