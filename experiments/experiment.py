"""An experiment: every method from the same seeds, side by side; it can be killed at any time and goes on."""

from collections.abc import Callable
from pathlib import Path

import torch

from ..host.training.settings import SettingsError
from .data import Batches, ImageSet, Splits
from .experiment_folder import ExperimentFolder
from .methods.methods import ALL_METHODS
from .methods.stale import described, expected_memory
from .preparation import SIZED
from .runs import Outcome, Run, network_of
from .settings import ExperimentSettings
from .workers import Told, data_of, run_all

__all__ = ["Experiment"]


class Experiment:
    """An experiment of given settings, with the data set in ``data_folder`` and its outcomes in ``folder``.

    Raises DataError, NetworkError and SettingsError for what can't be; nothing is written yet.
    """

    def __init__(self, settings: ExperimentSettings, data_folder: Path | None, folder: ExperimentFolder):
        if settings.device == "cuda" and not torch.cuda.is_available():
            raise SettingsError("device = 'cuda', and PyTorch finds no GPU")
        self.settings, self.folder, self._data_folder = settings, folder, data_folder
        self.data = data_of(settings, data_folder)
        if settings.batch > len(self.data.train):
            raise SettingsError(f"batch = {settings.batch}, and there are {len(self.data.train)} training examples")
        self.runs = self._runs()
        network_of(self.runs[0], self.data)

    def _runs(self) -> list[Run]:
        """Every method of a seed before the next seed."""
        s, (size, channels) = self.settings, _shape(self.data)
        return [
            Run(s.data, s.model, method, seed, s.lr, s.epochs, s.batch, size, channels, s.momentum, s.weight_decay,
                s.optimizer, s.lr_schedule, s.device, s.autocast)
            for seed in s.seeds for method in s.methods
        ]  # fmt: skip

    def remarks(self) -> list[str]:
        """Lines to be told before the runs: staleness and memory of each pipelined method."""
        first = {run.method: run for run in reversed(self.runs) if ALL_METHODS[run.method].pipelining}
        found = []
        for name, run in first.items():
            method = ALL_METHODS[name].pipelining
            assert method
            images, _ = next(iter(Batches(self.data.train, run.batch_size, run.seed, 0)))
            found.append(f"{name}: {described(expected_memory(network_of(run, self.data), method, images), method)}")
        return found

    @property
    def left(self) -> list[Run]:
        """Runs that haven't ended."""
        return [run for run in self.runs if not self.folder.has(run)]

    def finish(self, jobs: int, told: Told, ended: Callable[[Run, Outcome], object]) -> list[dict]:
        """Run what is left, ``jobs`` at a time, see :func:`.workers.run_all`; returns all outcomes, by method."""
        s = self.settings
        run_all(self.runs, s, self.data, self._data_folder, self.folder, jobs, told, ended)
        by_method = sorted(self.runs, key=lambda run: (s.methods.index(run.method), s.seeds.index(run.seed)))
        return [self.folder.read(run) for run in by_method]


def _shape(data: Splits) -> tuple[int, int]:
    """Side of an image (0: there are none) and channels."""
    if isinstance(data.train, ImageSet):
        return data.train.images_NCHW.shape[-1], data.train.images_NCHW.shape[1]
    return (data.train.image_size, 3) if data.name in SIZED else (0, 3)
