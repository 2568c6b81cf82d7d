"""A run of image classification with all its data on the device, and on a GPU with batches that are CUDA graphs.

It ends as a run of :mod:`.runs` does, but for the order and the variation of images, and sooner. It has only what the
paper's table of accuracies needs: plain training and ADA-GP.
"""

import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils import convert_conv2d_weight_memory_format

from ..algorithm import AdaGP
from ..algorithm.graphed import GraphedAdaGP
from ..algorithm.schedules import phase_name
from .data import Splits
from .data.on_device import DeviceImages
from .methods.methods import METHODS
from .methods.optimisation import Rates, autocast, optimizer
from .run_state import restore, save
from .runs import Run, Standing, network_of

__all__ = ["AT_ONCE", "DeviceRun"]

AT_ONCE = 8
"""Weights that the predictor works on together."""
_EVALUATED = 1000
"""Images in a batch of an evaluation."""


class DeviceRun:
    """One run while it is under way, from the state in ``folder`` if there is one.

    ``parts``: images by ``train``, ``validation`` and ``test``, see :meth:`images`. Raises RunError for a state that
    isn't whole.
    """

    def __init__(self, run: Run, data: Splits, parts: dict[str, DeviceImages], folder: Path):
        self.run, self._parts = run, parts
        self._state = folder / f"{run.identity}.pt"
        self.network = network_of(run, data).to(run.device).train()
        convert_conv2d_weight_memory_format(self.network, torch.channels_last)
        trained = optimizer(run.optimizer, self.network.parameters(), run.lr, run.momentum, run.weight_decay)
        self.n_batches = len(parts["train"]) // run.batch_size
        self._autocast = autocast(run.autocast, run.device)
        self._rates = Rates(run.lr_schedule, trained, run.epochs * self.n_batches)
        method = METHODS[run.method]
        make = GraphedAdaGP if run.device == "cuda" else AdaGP
        self.trainer = make(
            self.network, trained, method.schedule(run.epochs), predictor=method.predictor, source=method.source,
            metrics=False, weights_at_once=AT_ONCE, seed=run.seed,
        )  # fmt: skip
        self._saved = {"network": self.network, "optimizer": trained, "rates": self._rates, "trainer": self.trainer}
        self.epoch, self.history = restore(self._state, self._saved)
        self._x = self._y = torch.empty(0)

    @staticmethod
    def images(data: Splits, device: str) -> dict[str, DeviceImages]:
        """The parts of a data set on the device, for all runs."""
        place = torch.device(device)
        return {name: DeviceImages(getattr(data, name), place) for name in ("train", "validation", "test")}

    @property
    def over(self) -> bool:
        """True if all epochs are done, or the loss isn't finite any more."""
        return self.epoch == self.run.epochs or self.diverged

    @property
    def diverged(self) -> bool:
        """True if the loss isn't finite any more."""
        return not all(map(math.isfinite, self.history.losses[-1:] + self.history.validation_losses[-1:]))

    def train(self, end: float, tell: Callable[[Standing], object] = lambda _: None) -> None:
        """Train whole epochs until the run is over, or ``time.monotonic()`` will have passed ``end`` after another."""
        while not self.over and time.monotonic() + self._longest() < end:
            begun = time.monotonic()
            loss = self._train_epoch(tell)
            validation, validation_loss = self.score("validation")
            self._rates.after_epoch(validation_loss)
            history = self.history
            history.losses.append(loss)
            history.validations.append(validation)
            history.validation_losses.append(validation_loss)
            history.seconds.append(time.monotonic() - begun)
            self.epoch += 1
            tell(self._standing(self.n_batches, loss))
        save(self._state, self._saved, self.epoch, self.history)

    def _longest(self) -> float:
        """Seconds of the longest epoch so far."""
        return max(self.history.seconds, default=0.0)

    def _train_epoch(self, tell) -> float:
        """Returns the mean loss of batches that were run; where all were left out, the last epoch's."""
        phases = self.history.phases
        total, n_run = torch.zeros((), device=self.run.device), 0
        batches = self._parts["train"].batches(self.run.batch_size, self.run.seed, self.epoch)
        for number, (x, y) in enumerate(self.trainer.epoch(batches)):
            loss = self._step(x, y)
            name = phase_name(self.trainer.phase)
            phases[name] = phases.get(name, 0) + 1
            if loss is not None:
                total, n_run = total + loss, n_run + 1
            if number % 64 == 0:
                tell(self._standing(number, self._last_loss()))
        return float(total) / n_run if n_run else self._last_loss()

    def _last_loss(self) -> float:
        return self.history.losses[-1] if self.history.losses else math.nan

    def _step(self, x: Tensor, y: Tensor) -> Tensor | None:
        if self._x.shape != x.shape:
            self._x, self._y = torch.empty_like(x), torch.empty_like(y)
        self._x.copy_(x)
        self._y.copy_(y)
        return self.trainer.step(lambda: F.cross_entropy(self._outputs(self._x).float(), self._y))

    def _outputs(self, x: Tensor) -> Tensor:
        with self._autocast():
            return self.network(x)

    @torch.no_grad()
    def score(self, part: str) -> tuple[float, float]:
        """Accuracy in percent, and the mean loss, on a part of the data."""
        self.network.eval()
        right, loss = (torch.zeros((), dtype=torch.float64, device=self.run.device) for _ in range(2))
        for x, y in self._parts[part].in_order(_EVALUATED):
            outputs = self._outputs(x).float()
            right += (outputs.argmax(1) == y).sum()
            loss += F.cross_entropy(outputs, y, reduction="sum").double()
        self.network.train()
        count = len(self._parts[part])
        return 100 * float(right) / count, float(loss) / count

    def _standing(self, number: int, loss: float) -> Standing:
        done = min(self.epoch * self.n_batches + number, self.run.epochs * self.n_batches)
        score = self.history.validations[-1] if self.history.validations else math.nan
        shown = min(self.epoch + 1, self.run.epochs)
        return Standing(done, self.run.epochs * self.n_batches, shown, self.run.epochs, loss, score)
