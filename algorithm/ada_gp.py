"""The training algorithm: batches with true gradients and batches with predicted ones."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import SupportsFloat, SupportsIndex

import torch
from torch import Tensor, nn

from ..spec.commands import Phase
from ..spec.schedule import Schedule
from .backward import backward
from .finite import not_finite
from .layers import PredictedWeight, frozen_parameters, predicted_weights
from .metrics import Metrics
from .precision import full_precision
from .predictor import Predictor, PredictorSettings
from .recorder import Recorder
from .schedules import PAPER, Position
from .sources import Source
from .support import check_supported, unwrapped
from .teacher import Teacher
from .updates import Updates

__all__ = ["AdaGP"]


class AdaGP:
    """Trains ``network`` with ``optimizer``, in some batches with gradients that are predicted instead of computed.

    ::

        ada = AdaGP(network, optimizer, schedule(1, (4, 4, 1), (1, 1, 1)))
        for x, y in ada.epoch(loader):
            loss = ada.step(lambda: criterion(network(x), y))

    takes the place of a loop that calls ``zero_grad``, ``backward`` and ``step`` itself. GP batches run forward alone
    and record nothing for a backward pass. Then the optimizer steps with the predicted gradients of the weights of
    Conv2d (groups and depthwise included), of Linear and of the projections of MultiheadAttention. All other parameters
    (``frozen``: biases, normalisations, embeddings) stay. Learning rate schedulers and evaluation are the caller's, as
    before. It works with DistributedDataParallel, and with autocast inside of the function that :meth:`step` is given.

    Parameters
    ----------
    schedule: warm-up and runs of phases, see :func:`.schedules.schedule`; by default the paper's
    predictor: its settings
    source: of the gradients in GP batches, see :data:`adagp.spec.schedule.SOURCES`
    gate: runs of GP batches begin only while layers with more than half of the weights had predictions with such a
        cosine in the last BP batch
    metrics: measure predictions in BP batches; without metrics and gate, a source that predicts nothing leaves the
        predictor untrained, which saves the time
    scaler: a GradScaler, if the caller's autocast needs one
    weights_at_once: in GP batches the predictor works on so many weights together; 1 as in the paper, more are fewer
        and larger pieces of work
    predictor_every: the predictor learns, and predictions are measured, in every so many-th batch with true gradients,
        the first included; the others are plain batches of backpropagation
    gp_momentum: ``update``, or ``keep``: a GP batch's step has no momentum, and leaves what SGD keeps as it is
    seed: of the predictor's first weights, and of random signs

    Raises
    ------
    TypeError
        for networks and optimizers that it can't train
    ValueError
        for settings that mean nothing
    """

    _checks = True
    """Batches whose gradients aren't finite are found, for which the device is waited for."""

    def __init__(
        self, network: nn.Module, optimizer: torch.optim.Optimizer, schedule: Schedule = PAPER, *,
        predictor: PredictorSettings | None = None, source: str = "predicted", gate: float | None = None,
        metrics: bool = True, scaler: torch.amp.GradScaler | None = None, weights_at_once: int = 1,
        predictor_every: int = 1, gp_momentum: str = "update", seed: int = 0,
    ):  # fmt: skip
        check_supported(network, optimizer)
        for name, value in (("weights_at_once", weights_at_once), ("predictor_every", predictor_every)):
            if not isinstance(value, SupportsIndex) or value < 1:
                raise ValueError(f"{name} is {value!r}, and must be a whole number of at least 1")
        if not isinstance(schedule, Schedule):
            raise TypeError(f"schedule is {schedule!r}, and must be what adagp.schedule makes")
        if gate is not None and not (isinstance(gate, SupportsFloat) and -1 <= gate <= 1):
            raise ValueError(f"gate is {gate!r}, and a cosine is between -1 and 1")
        self._network, self.optimizer, self._position = network, optimizer, Position(schedule)
        self._updates, self._scaler = Updates(optimizer, gp_momentum), scaler
        trained = self._updates.trained()
        if trained.isdisjoint(network.parameters()):
            raise ValueError("the optimizer has none of the network's parameters")
        weights = predicted_weights(unwrapped(network), trained)
        if not weights:
            raise ValueError("the network has no weight that is trained and can be predicted: of Conv2d, Linear or "
                             "MultiheadAttention")  # fmt: skip
        self._weights: dict[str, PredictedWeight] = {weight.name: weight for weight in reversed(weights)}
        self.frozen = frozen_parameters(unwrapped(network), trained, {weight.weight for weight in weights})
        """Names of parameters that only BP batches train."""
        settings = predictor or PredictorSettings()
        generator = torch.Generator().manual_seed(seed)
        elements = {weight.name: weight.elements for weight in weights}
        self.predictor = Predictor(elements, settings, generator).to(weights[0].weight.device)
        self._generator = generator
        self.source = Source(source, self.predictor, generator)
        self.metrics = Metrics() if metrics else None
        self._teacher = Teacher(self.predictor, self.metrics, gate)
        group = network.process_group if isinstance(network, nn.parallel.DistributedDataParallel) else None
        self._recorder = Recorder(weights, settings.windows, group)
        self._weights_at_once = weights_at_once
        self._teaches = self.source.predicts or metrics or gate is not None
        self._every, self._true_batches = predictor_every, 0
        self._idle: set[str] = set()  # weights that the last BP batch had no gradient for
        self.phase = Phase.WARMUP
        """Phase of the last batch."""

    @property
    def predicted(self) -> list[str]:
        """Names of the weights whose gradients are predicted."""
        return list(self.predictor.elements)

    @property
    def epochs(self) -> int:
        """Number of epochs that are over."""
        return self._position.epoch

    def epoch(self, batches: Iterable) -> Iterator:
        """Pass ``batches`` on; the epoch is over when they are. One that was left before goes on with the next call."""
        yield from batches
        self.end_epoch()

    def end_epoch(self) -> None:
        """End an epoch, as :meth:`epoch` does, for loops of another kind."""
        self._teacher.end_epoch(self._position.epoch)
        self._position.end_epoch()

    def next_phase(self) -> Phase:
        """Phase of the next batch."""
        return self._position.next(self._teacher.is_open())

    def step(self, compute: Callable[[], Tensor], clip: Callable[[], object] | None = None) -> Tensor | None:
        """Train with one batch: ``compute`` runs the network once and returns the loss, which is returned, detached.

        ``clip`` is called before the update, when all gradients are in ``.grad``: true ones, or in GP batches the
        predicted ones. The predictor learns the true gradients that ``clip`` leaves. A GP batch whose predictions
        aren't finite is skipped with a warning: it changes neither weights, optimizer nor predictor, and ``clip`` isn't
        called. With the source ``skip`` a GP batch isn't run, and there is no loss.
        """
        gate_open = self._teacher.is_open()
        phase = self._position.next(gate_open)
        loss = None if phase is Phase.GP and self.source.kind == "skip" else self._batch(phase, compute, clip)
        self._position.advance(gate_open)
        self._true_batches += phase is not Phase.GP
        self.phase = phase
        return loss

    def _learns(self, phase: Phase) -> bool:
        """True if the predictor learns from the next batch, which is in ``phase``."""
        return self._teaches and phase is not Phase.GP and self._true_batches % self._every == 0

    def _batch(self, phase, compute, clip):
        return self._predict(compute, clip) if phase is Phase.GP else self._backpropagate(compute, clip, phase)

    def _predict(self, compute, clip):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            with self._recorder.recording(self.source.predicts) as outputs:
                loss = _loss_of(compute)
            gradients = self._predictions(outputs)
            bad = not_finite(gradients) if self._checks else []
        if bad:
            _warn(4, f"predicted gradients of {bad[0]} aren't finite; this GP batch is skipped, and changes no weight")
        elif gradients:
            with full_precision(self.predictor.scales.device):
                self._updates.apply({self._weights[name].weight: g for name, g in gradients.items()}, clip)
        return loss.detach()

    def _predictions(self, outputs: Mapping[str, Tensor | None]) -> dict[str, Tensor]:
        """Gradients of the weights that trained in the last BP batch and still do, ``weights_at_once`` at a time."""
        names = [name for name in outputs if self._weights[name].weight.requires_grad and name not in self._idle]
        found: dict[str, Tensor] = {}
        with full_precision(self.predictor.scales.device):
            for first in range(0, len(names), self._weights_at_once):
                some = names[first : first + self._weights_at_once]
                weights = {name: self._weights[name].weight for name in some}
                found |= self.source.gradients(weights, {name: outputs[name] for name in some})
        return found

    def _backpropagate(self, compute, clip, phase):
        self.optimizer.zero_grad(set_to_none=True)
        self._network.zero_grad(set_to_none=True)  # also what the optimizer hasn't, or it would sum up over batches
        with self._recorder.recording(self._learns(phase)) as outputs:
            loss = _loss_of(compute)
        with backward(loss, self._scaler, self.optimizer):
            if clip:
                clip()
            self._learn(phase, outputs)
            if self._scaler:
                self._scaler.step(self.optimizer)
            else:
                self.optimizer.step()
        return loss.detach()

    def _learn(self, phase: Phase, outputs: Mapping[str, Tensor | None]) -> None:
        """Give the true gradients of the weights that were in use to the source and to the predictor.

        They learn nothing from a batch with a gradient or an output that isn't finite.
        """
        used = {name: self._weights[name].weight.grad for name in self.predicted if name in outputs}
        true = {name: gradient.float().flatten(1) for name, gradient in used.items() if gradient is not None}
        self._idle = {name for name, gradient in used.items() if gradient is None}
        if not (self._learns(phase) or self.source.keeps):
            return
        seen = {name: output for name in true if (output := outputs[name]) is not None}
        bad = self._checks and not_finite({**{f"gradients of {name}": gradient for name, gradient in true.items()},
                                           **{f"outputs that {name} makes": output
                                              for name, output in seen.items()}})  # fmt: skip
        if bad and not self._scaler:  # which expects some
            _warn(5, f"{bad[0]} aren't finite; nothing is learned from this batch")
        if bad or not true:
            return
        with full_precision(self.predictor.scales.device):
            self.source.learn(true)
            if seen and not self._teacher.teach(phase, seen, true, self._checks):
                _warn(5, "the predictor's own gradients aren't finite; it learns nothing from this batch")

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(self._weights[name].weight.shape) for name in self.predicted}

    def state_dict(self) -> dict:
        """The state that :class:`AdaGP` adds to those of network and optimizer.

        A run that goes on from all three between two batches has the same bits as one that wasn't stopped.
        """
        return {
            "shapes": self._shapes(), "settings": asdict(self.predictor.settings),
            "predictor": self.predictor.state_dict(), "idle": sorted(self._idle),
            "generator": self._generator.get_state(), "source": (self.source.kind, dict(self.source.kept)),
            "position": self._position.state(), "true_batches": self._true_batches, **self._teacher.state_dict(),
        }  # fmt: skip

    def load_state_dict(self, state: dict) -> None:
        """Go on from a state that :meth:`state_dict` gave.

        Raises ValueError if it is of another network, predictor or source; the schedule may be another.
        """
        if "shapes" not in state:
            raise ValueError("the state isn't one of AdaGP's")
        if others := {*state["shapes"].items()} ^ {*self._shapes().items()}:
            names = sorted({name for name, _ in others})
            raise ValueError(f"the state is of a network with other layers: {', '.join(names)}")
        for name, value in asdict(self.predictor.settings).items():
            if state["settings"][name] != value:
                raise ValueError(f"the state is of a predictor with {name} = {state['settings'][name]}, not {value}")
        kind, kept = state["source"]
        if kind != self.source.kind:
            raise ValueError(f"the state is of the source {kind!r} of gradients, not of {self.source.kind!r}")
        self.predictor.load_state_dict(state["predictor"])
        self._teacher.load_state_dict(state)
        self._generator.set_state(state["generator"].cpu())
        device = self.predictor.scales.device
        self.source.kept = {name: gradient.to(device, copy=True) for name, gradient in kept.items()}
        self._position.go_to(state["position"])
        self._true_batches = state.get("true_batches", 0)  # earlier versions kept none, and learnt from all
        self._idle = set(state["idle"])

    def close(self) -> None:
        """Take the hooks out of the network, which stays as it is."""
        self._recorder.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _loss_of(compute: Callable[[], Tensor]) -> Tensor:
    if not callable(compute):
        raise TypeError(
            f"step takes a function that runs the network and returns the loss, not {type(compute).__name__}"
        )
    loss = compute()
    if not isinstance(loss, Tensor):
        raise TypeError(f"the function that step is given must return the loss, and gave {type(loss).__name__}")
    return loss


def _warn(frames: int, message: str) -> None:
    """Warn at the line that is so many frames up from the caller: that of the user's ``step``."""
    warnings.warn(f"AdaGP: {message}", RuntimeWarning, stacklevel=frames + 1)
