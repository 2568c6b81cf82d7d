"""The stops of a batch: at each the host computes an island forwards or backwards, then lets the program go on."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from ...spec.phases import EVALUATION
from ...spec.registers import Status
from ..compiler.compiler import Compiled
from ..compiler.islands import Island, Stop
from ..devices.device import Device
from .joining import join
from .places import Places
from .product_exponents import settle
from .state import Hyper, IslandState

__all__ = ["IslandError", "Islands", "Moment", "fixed_threads"]

THREADS = 1
"""Threads of torch in an island: sums in another order have other last bits."""


_CALIBRATING = {"join": join, "product": settle}
"""The host's functions for the stops of a batch that calibrates, by kind of stop."""


class IslandError(RuntimeError):
    """An island that fails or whose results can't be stored, or that the program's stops don't fit."""


@dataclass(frozen=True)
class Moment:
    """Place in a run of the first of some batches; with an island's own it decides what random operators draw."""

    seed: int = 0
    epoch: int = 0
    batch: int = 0

    @property
    def epoch_seed(self) -> int:
        """The machine's seed for random signs and dropout; its hash adds the batch, but doesn't know the epoch."""
        return (self.seed + self.epoch * 0x9E3779B9) & 0xFFFFFFFF

    def after(self, batches: int) -> "Moment":
        """The moment so many batches later."""
        return replace(self, batch=self.batch + batches)

    def begin(self, device: Device) -> None:
        """Let the device's dropout draw by this moment, and later batches of its run by those after it."""
        device.set_seed(self.epoch_seed)
        device.set_batch(self.batch)

    def draw(self, later: int, island: int) -> int:
        """The seed of an island in the batch ``later`` batches on."""
        words = np.random.SeedSequence([self.seed, self.epoch, self.batch + later, island])
        return int(words.generate_state(1, np.uint64)[0] >> 1)


@dataclass
class _Tape:
    """An island's forward pass, kept for its backward pass."""

    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor]
    parameters: dict[str, torch.Tensor]


@dataclass
class Islands:
    """The islands of a compiled network on a device.

    ``on_host``: the state dict's names of what isn't on the device; buffers that no island has stay as they are.
    :meth:`begin` with the batches' phases comes before their start on the device, then :meth:`wait` in place of the
    device's own. Parameters learn where the device's do after a backward pass, so not in GP; buffers move in all
    phases of training. ``seconds`` is the time that the host has spent on islands so far.
    """

    compiled: Compiled
    on_host: Sequence[str] = ()
    hyper: Hyper = field(default_factory=Hyper)
    seconds: float = 0.0

    def __post_init__(self):
        stops = self.compiled.stops
        self.islands: list[Island] = list({s.island.name: s.island for s in stops if s.island is not None}.values())
        self.state = IslandState(self.islands, self.on_host)
        self._numbers = {island.name: number for number, island in enumerate(self.islands)}
        self._stopping = bool(self.islands) or self.compiled.graph.calibrates_apart
        self.begin(())

    def __bool__(self) -> bool:
        return bool(self.islands)

    def begin(
        self, phases: Sequence[int], moment: Moment | None = None, whole: bool = True, calibrate: bool = False
    ) -> None:
        """Get ready for batches of these phases; ``moment``: the place of the first one in the run.

        Not ``whole``: the program may end before its last stop.
        """
        self._moment = moment or Moment()
        self._all_stops = self.compiled.calibrating_stops if calibrate else self.compiled.stops
        self._coming, self._whole = self._stops(phases), whole
        self._tapes: dict[str, _Tape] = {}
        self._gradients: dict[str, torch.Tensor] = {}
        self._moved: dict[str, torch.Tensor] = {}

    def _stops(self, phases: Sequence[int]) -> Iterator[tuple[int, int, Stop]]:
        """The stops of batches, each with the batch's number and phase."""
        for batch, phase in enumerate(phases):
            for stop in self._all_stops:
                if stop.phases >> phase & 1:
                    yield batch, phase, stop
            self._learn()

    def wait(self, device: Device) -> Status:
        """Wait until the program needs the loss's gradient or has ended, and compute islands on the way.

        Raises DeviceError when the program failed, IslandError for an island whose results can't be stored.
        """
        while (status := device.wait()) & Status.HOST and self._stopping:
            batch, phase, stop = next(self._coming, (0, 0, None))
            if stop is None:
                raise IslandError("the program waits at a HOST command that the network has no stop for")
            if stop.kind in _CALIBRATING:
                _CALIBRATING[stop.kind](stop, self.compiled.tensors, device)
                device.resume()
                continue
            if stop.island is None:
                return status
            began = time.perf_counter()
            try:
                with fixed_threads():
                    self._compute(stop, Places(self.compiled, device, batch), batch, phase)
            except Exception as error:  # an operator of PyTorch's: anything can happen
                raise IslandError(f"{stop.island.name}, {stop.kind} on the host: {_told(error)}") from error
            self.seconds += time.perf_counter() - began
            device.resume()
        if self._stopping and not status & Status.HOST:
            left = [stop.kind for _, _, stop in self._coming]
            if left and self._whole:
                raise IslandError(f"the program ended before its {left[0]} stop")
        return status

    def _compute(self, stop: Stop, places: Places, batch: int, phase: int) -> None:
        assert stop.island is not None
        if stop.kind == "forward":
            self._forward(stop, stop.island, places, batch, phase)
        else:
            self._backward(stop, stop.island, places)

    def _forward(self, stop: Stop, island: Island, places: Places, batch: int, phase: int) -> None:
        """Compute the outputs, and keep what the backward pass needs."""
        training, back = phase != EVALUATION, self._backward_stop(island, phase)
        inputs = [torch.from_numpy(places.read(*names)) for names in zip(stop.reads, island.inputs, strict=True)]
        parameters = {name: self.state.parameters[name].detach() for name in island.parameters}
        buffers = {name: self.state.buffers[name].clone() for name in island.buffers}
        if back is not None:
            for tensor, wanted in (*zip(inputs, back.writes, strict=True), *((p, True) for p in parameters.values())):
                tensor.requires_grad_(bool(wanted))
        seed = self._moment.draw(batch, self._numbers[island.name])
        with torch.set_grad_enabled(back is not None):
            outputs, moved = island.function(parameters, buffers, inputs, training=training, seed=seed)
        for name, value, output in zip(stop.writes, island.outputs, outputs, strict=True):
            places.write(name, value, output.detach().numpy())
        self._moved |= moved
        if back is not None:
            self._tapes[island.name] = _Tape(inputs, outputs, parameters)

    def _backward_stop(self, island: Island, phase: int) -> Stop | None:
        """The stop of an island's backward pass in a phase, if there is one."""
        stops = (s for s in self.compiled.stops if s.kind == "backward" and s.island == island)
        return next((stop for stop in stops if stop.phases >> phase & 1), None)

    def _backward(self, stop: Stop, island: Island, places: Places) -> None:
        """Compute the gradients of inputs and parameters from those of the outputs."""
        tape = self._tapes.pop(island.name)
        known = [
            (output, torch.from_numpy(places.read(name, value)))
            for name, value, output in zip(stop.reads, island.outputs, tape.outputs, strict=True)
            if name and output.requires_grad
        ]
        wanted = [
            (name, value, x) for name, value, x in zip(stop.writes, island.inputs, tape.inputs, strict=True) if name
        ]
        sources = [*(x for _, _, x in wanted), *tape.parameters.values()]
        outputs, gradients = [output for output, _ in known], [gradient for _, gradient in known]
        found: Sequence[torch.Tensor | None] = [None] * len(sources)
        if known:
            found = torch.autograd.grad(outputs, sources, gradients, allow_unused=True)
        for (name, value, x), gradient in zip(wanted, found, strict=False):
            places.write(name, value, (torch.zeros_like(x) if gradient is None else gradient).numpy())
        for name, gradient in zip(tape.parameters, found[len(wanted) :], strict=True):
            if gradient is not None:  # one without has no decay either, as in PyTorch
                before = self._gradients.get(name)
                self._gradients[name] = gradient if before is None else before + gradient

    def _learn(self) -> None:
        """Update parameters and buffers at a batch's end: all islands of a batch see those of its begin."""
        self.state.step(self._gradients, self.hyper)
        self.state.move(self._moved)
        self._gradients, self._moved = {}, {}


def _told(error: Exception) -> str:
    """The first line of an error that isn't empty."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


@contextlib.contextmanager
def fixed_threads() -> Iterator[None]:
    """Compute with THREADS threads of torch."""
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        yield
    finally:
        torch.set_num_threads(before)
