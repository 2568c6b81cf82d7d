"""The training algorithm: batches with true gradients and batches with predicted ones."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import SupportsFloat, SupportsIndex

import torch
from torch import Tensor, nn

from ..spec.commands import Phase
from ..spec.schedule import Schedule
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

    takes the place of a loop that calls ``zero_grad``, ``backward`` and ``step`` itself. In GP batches nothing is
    recorded for a backward pass and none is run: each weight of Conv2d (groups and depthwise included), of Linear and
    of the projections of MultiheadAttention is updated during forward, behind its layer; all other parameters
    (``frozen``: biases, normalisations, embeddings) stay. Learning rate schedulers and evaluation are the caller's, as
    before.

    ``schedule``: warm-up and runs of phases, see :func:`.schedules.schedule`; by default the paper's. ``predictor``:
    its settings. ``source``: of the gradients in GP batches, see :data:`adagp.spec.schedule.SOURCES`. ``gate``: runs of
    GP batches begin only while layers with more than half of the weights had predictions with such a cosine in the last
    BP batch. ``metrics``: whether to measure predictions in BP batches; without them and a gate, a source that predicts
    nothing leaves the predictor untrained, which saves the time. ``scaler``: a GradScaler, if the caller's autocast
    needs one. ``weights_at_once``: in GP batches weights are predicted and updated when the layers of so many have run;
    1 as in the paper, more are fewer and larger pieces of work. ``seed``: of the predictor's first weights, and of
    random signs.

    Works with autocast inside of what is given to :meth:`step`, and with DistributedDataParallel. Raises TypeError for
    what it doesn't work with, and ValueError for settings that mean nothing.
    """

    def __init__(
        self, network: nn.Module, optimizer: torch.optim.Optimizer, schedule: Schedule = PAPER, *,
        predictor: PredictorSettings | None = None, source: str = "predicted", gate: float | None = None,
        metrics: bool = True, scaler: torch.amp.GradScaler | None = None, weights_at_once: int = 1, seed: int = 0,
    ):  # fmt: skip
        check_supported(network, optimizer)
        if not isinstance(weights_at_once, SupportsIndex) or weights_at_once < 1:
            raise ValueError(f"weights_at_once is {weights_at_once!r}, and must be a whole number of at least 1")
        if not isinstance(schedule, Schedule):
            raise TypeError(f"schedule is {schedule!r}, and must be what adagp.schedule makes")
        if gate is not None and not (isinstance(gate, SupportsFloat) and -1 <= gate <= 1):
            raise ValueError(f"gate is {gate!r}, and a cosine is between -1 and 1")
        self._network, self.optimizer, self._position = network, optimizer, Position(schedule)
        self._updates, self._scaler = Updates(optimizer), scaler
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
        self._waiting: dict[str, Tensor | None] = {}  # reorganised outputs by weight
        self._teaches = self.source.predicts or metrics or gate is not None
        self._idle: set[str] = set()  # weights that the last BP batch had no gradient for
        self.phase = Phase.WARMUP
        """Of the last batch."""

    @property
    def predicted(self) -> list[str]:
        """Names of the weights whose gradients are predicted."""
        return list(self.predictor.elements)

    @property
    def epochs(self) -> int:
        """That are over."""
        return self._position.epoch

    def epoch(self, batches: Iterable) -> Iterator:
        """Pass ``batches`` on; the epoch is over when they are. One that was left before goes on with the next call."""
        yield from batches
        self.end_epoch()

    def end_epoch(self) -> None:
        """What :meth:`epoch` does at its end, for loops of another kind."""
        self._teacher.end_epoch(self._position.epoch)
        self._position.end_epoch()

    def next_phase(self) -> Phase:
        """What the next batch will be."""
        return self._position.next(self._teacher.is_open())

    def step(self, compute: Callable[[], Tensor], clip: Callable[[], object] | None = None) -> Tensor | None:
        """Train with one batch: ``compute`` runs the network once and returns the loss, which is returned, detached.

        ``clip``: called between backward and update, where there is a backward; what it leaves is what the predictor
        learns. Predicted gradients aren't clipped. With the source ``skip`` a GP batch isn't run, and there is no loss.
        """
        gate_open = self._teacher.is_open()
        phase = self._position.next(gate_open)
        if phase is Phase.GP:
            loss = None if self.source.kind == "skip" else self._predict(compute)
        else:
            loss = self._backpropagate(compute, clip, phase)
        self._position.advance(gate_open)
        self.phase = phase
        return loss

    def _predict(self, compute):
        self.optimizer.zero_grad(set_to_none=True)
        self._waiting.clear()
        with torch.no_grad():
            with self._recorder.recording(self._wait, self.source.predicts):
                loss = _loss_of(compute)
            self._update()
            return loss.detach()

    def _wait(self, name: str, reorganised: Tensor | None) -> None:
        """A layer has run: update its weight, as soon as there are so many that wait."""
        if self._weights[name].weight.requires_grad and name not in self._idle:
            self._waiting[name] = reorganised
            if len(self._waiting) >= self._weights_at_once:
                self._update()

    def _update(self) -> None:
        if not self._waiting:
            return
        weights = {name: self._weights[name].weight for name in self._waiting}
        with full_precision(self.predictor.scales.device):
            gradients = self.source.gradients(weights, self._waiting)
            self._waiting.clear()
            if self._scaler:  # outputs may overflow, as gradients may in BP batches: the scaler leaves those out
                gradients = {name: torch.where(g.isfinite().all(), g, 0) for name, g in gradients.items()}
            self._updates.apply({weights[name]: gradient for name, gradient in gradients.items()})

    def _backpropagate(self, compute, clip, phase):
        self.optimizer.zero_grad(set_to_none=True)
        self._network.zero_grad(set_to_none=True)  # what the optimizer hasn't, too: whose sums would those be?
        reorganised: dict[str, Tensor | None] = {}
        with self._recorder.recording(reorganised.__setitem__, self._teaches):
            loss = _loss_of(compute)
        if self._scaler:
            self._scaler.scale(loss).backward()
            self._scaler.unscale_(self.optimizer)
        else:
            loss.backward()
        if clip:
            clip()
        self._learn(phase, reorganised)
        if self._scaler:
            self._scaler.step(self.optimizer)
            self._scaler.update()
        else:
            self.optimizer.step()
        return loss.detach()

    def _learn(self, phase: Phase, reorganised: Mapping[str, Tensor | None]) -> None:
        """Take a batch's true gradients of the weights that were in use, to the source and to the predictor."""
        given = {name: self._weights[name].weight.grad for name in self.predicted if name in reorganised}
        true = {name: gradient.float().flatten(1) for name, gradient in given.items() if gradient is not None}
        self._idle = {name for name, gradient in given.items() if gradient is None}
        if not true or (self._scaler and not all(gradient.isfinite().all() for gradient in true.values())):
            return
        with full_precision(self.predictor.scales.device):
            self.source.learn(true)
            if seen := {name: output for name in true if (output := reorganised[name]) is not None}:
                self._teacher.teach(phase, seen, true)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(self._weights[name].weight.shape) for name in self.predicted}

    def state_dict(self) -> dict:
        """All that :class:`AdaGP` adds to network and optimizer, which have their own.

        A run that goes on from all three between two batches is the same, bit for bit.
        """
        return {
            "shapes": self._shapes(), "settings": asdict(self.predictor.settings),
            "predictor": self.predictor.state_dict(), "idle": sorted(self._idle),
            "generator": self._generator.get_state(), "source": (self.source.kind, dict(self.source.kept)),
            "position": self._position.state(), "calls": dict(self._recorder.calls), **self._teacher.state_dict(),
        }  # fmt: skip

    def load_state_dict(self, state: dict) -> None:
        """Go on from what :meth:`state_dict` gave.

        Raises ValueError if that was of another network, predictor or source; the schedule may be another.
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
        self._idle = set(state["idle"])
        self._recorder.calls = dict(state["calls"])

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
