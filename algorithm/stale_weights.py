"""Training with stale weights: pipelined backpropagation without a flush, exact about the weights of each pass."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

__all__ = ["Pass", "StageMemory", "StaleWeights", "stage_memory"]

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Pass:
    """A forward ("F") or backward ("B") pass of a batch in a stage; ``version`` updates had made its weights."""

    what: str
    stage: int
    batch: int
    version: int


@dataclass(frozen=True)
class StageMemory:
    """Bytes of a stage: its weights, the activations of one batch, all that are held at once, and older weights.

    ``missed``: updates that a forward pass doesn't see yet. ``stashed``: of older weights, in PipeDream's scheme; with
    stale weights there are none.
    """

    missed: int
    weights: int
    activations: int
    held: int
    stashed: int


@dataclass
class _Waiting:
    """A batch in a stage between its two passes."""

    batch: int
    version: int
    inputs: Tensor
    outputs: Tensor
    saved: int


class StaleWeights:
    """Trains stages as a pipeline without a flush does, in one process and with the pipeline's bits.

    The forward pass of batch t in stage s has weights after t - ``delays[s]`` updates (0 at least), the backward pass
    those after t updates: today's weights, on activations that older weights gave. Each batch has an update of its own.
    With ``stash`` the backward pass has the forward pass's weights, as in PipeDream.

    Parameters
    ----------
    stages : sequence of Module
        The network in parts, each called with the output of the one before it. No two share weights.
    optimizer : Optimizer
        Of these weights alone. It changes them in place. A stage's weights are updated with the learning rate of
        the moment.
    loss : callable
        Of the last stage's output and a target; returns a scalar.
    delays : sequence of int
        By stage, none larger than the one before it, 0 at the end.
    stash : bool
        Keep old weights for backward passes.
    pipelined_epochs : int, optional
        Later epochs have no delays (hybrid training). Default: all are pipelined.

    Attributes
    ----------
    trace : list of Pass or None
        All passes in order, if a list is put there.
    peaks : list of (int, int)
        By stage, the most bytes of activations, and the most versions of its weights, that were held at once.

    Raises
    ------
    ValueError
        For delays or stages that can't be; the message names them.
    """

    def __init__(
        self, stages: Sequence[nn.Module], optimizer: torch.optim.Optimizer, loss: Loss, delays: Sequence[int], *,
        stash: bool = False, pipelined_epochs: int | None = None,
    ):  # fmt: skip
        _check(stages, optimizer, delays)
        self.stages, self.optimizer, self._loss = stages, optimizer, loss
        self.delays, self.stash, self.pipelined_epochs = tuple(delays), stash, pipelined_epochs
        self.epochs = 0
        self.trace: list[Pass] | None = None
        self.peaks = [(0, 1)] * len(stages)
        self._updates = [0] * len(stages)
        self._now = 0
        self._waiting: list[deque[_Waiting]] = [deque() for _ in stages]
        self._gradients: list[deque[Tensor]] = [deque() for _ in stages]
        self._copies: list[tuple[int, dict[int, Tensor]]] = [(-1, {}) for _ in stages]
        optimizer.zero_grad(set_to_none=True)

    @property
    def delays_now(self) -> tuple[int, ...]:
        """The delays of the epoch under way."""
        hybrid = self.pipelined_epochs is not None and self.epochs >= self.pipelined_epochs
        return (0,) * len(self.stages) if hybrid else self.delays

    def epoch(self, batches: Iterable) -> Iterator:
        """Pass ``batches`` on; at their end the pipeline is drained, and the epoch is over."""
        yield from batches
        self.drain()
        self.epochs += 1

    def step(self, inputs: Tensor, target: Tensor) -> Tensor:
        """Let a batch into the pipeline; every stage takes one forward and, once filled, one backward pass.

        Returns the batch's loss, detached.
        """
        outputs, last = inputs, len(self.stages) - 1
        for number, stage in enumerate(self.stages):
            entered = outputs.detach().requires_grad_(number > 0)
            size = [0]
            with self._saving(number, size):
                outputs = stage(entered)
            if number == last:
                outputs = self._loss(outputs, target)
            self._waiting[number].append(_Waiting(self._now, self._updates[number], entered, outputs, size[0]))
            self._told("F", number, self._now, self._updates[number])
            self._measure(number)
        self._backward()
        return outputs.detach()

    def drain(self) -> None:
        """Finish the backward passes of all batches in the pipeline."""
        while any(self._waiting):
            self._backward()

    def _backward(self) -> None:
        """Each stage's backward pass that is due, from the last to the first, then their updates; a moment is over."""
        for number in reversed(range(len(self.stages))):
            waiting = self._waiting[number]
            if not waiting or waiting[0].batch != self._now - self.delays_now[number]:
                continue
            one = waiting.popleft()
            one.outputs.backward(self._gradients[number].popleft() if number < len(self.stages) - 1 else None)
            if number:
                assert one.inputs.grad is not None
                self._gradients[number - 1].append(one.inputs.grad)
            self._told("B", number, one.batch, one.version if self.stash else self._updates[number])
            self._updates[number] += 1
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._now += 1

    def _saving(self, number: int, size: list[int]) -> AbstractContextManager:
        """Hooks for a forward pass. Weights are kept by reference, so that the backward pass finds today's.

        ``size[0]`` becomes the bytes of what else is kept, each memory counted once.
        """
        mine = {w.untyped_storage().data_ptr() for w in self.stages[number].parameters()}
        seen: set[int] = set()

        def keep(tensor: Tensor) -> Tensor:
            memory = tensor.untyped_storage()
            if memory.data_ptr() in mine:
                return self._copy(number, tensor) if self.stash else tensor
            if memory.data_ptr() not in seen:
                seen.add(memory.data_ptr())
                size[0] += memory.nbytes()
            return tensor

        return saved_tensors_hooks(keep, lambda tensor: tensor)

    def _copy(self, number: int, tensor: Tensor) -> Tensor:
        """A view like ``tensor`` of a copy of its weight, one copy for each version."""
        if self._copies[number][0] != self._updates[number]:
            self._copies[number] = self._updates[number], {}
        copies, key = self._copies[number][1], tensor.data_ptr()
        if key not in copies:
            copies[key] = tensor.detach().clone(memory_format=torch.preserve_format)
        return copies[key].as_strided(tensor.shape, tensor.stride())

    def _measure(self, number: int) -> None:
        waiting = self._waiting[number]
        versions = {one.version for one in waiting} if self.stash else set()
        peak, most = self.peaks[number]
        held = sum(one.saved for one in waiting)
        self.peaks[number] = max(peak, held), max(most, len(versions | {self._updates[number]}))

    def _told(self, what: str, stage: int, batch: int, version: int) -> None:
        if self.trace is not None:
            self.trace.append(Pass(what, stage, batch, version))

    def state_dict(self) -> dict:
        """All that it adds to network and optimizer, between two epochs; raises RuntimeError within one."""
        if any(self._waiting):
            raise RuntimeError("batches are in the pipeline: a state can be had after drain() alone")
        return {"epochs": self.epochs, "now": self._now, "updates": list(self._updates)}

    def load_state_dict(self, state: dict) -> None:
        """Go on from what :meth:`state_dict` gave."""
        self.epochs, self._now, self._updates = state["epochs"], state["now"], list(state["updates"])


def _check(stages: Sequence[nn.Module], optimizer: torch.optim.Optimizer, delays: Sequence[int]) -> None:
    falling = all(before >= after for before, after in pairwise(delays))
    if not stages or len(delays) != len(stages) or delays[-1] != 0 or not falling:
        raise ValueError(f"delays = {list(delays)} must be one for each of {len(stages)} stages, falling to 0")
    owner: dict[nn.Parameter, int] = {}
    for number, stage in enumerate(stages):
        for weight in stage.parameters():
            if owner.setdefault(weight, number) != number:
                raise ValueError(f"stages {owner[weight]} and {number} share a weight: they can't be on two devices")
    trained = {weight for group in optimizer.param_groups for weight in group["params"]}
    if foreign := len(trained - set(owner)):
        raise ValueError(f"the optimizer has {foreign} weights that are in no stage")


def stage_memory(stages: Sequence[nn.Module], delays: Sequence[int], inputs: Tensor) -> list[StageMemory]:
    """The memory of each stage before any training, by formula, for batches like ``inputs`` [N, ...].

    A stage holds the activations of delay + 1 batches. PipeDream also keeps as many older weights as the delay.
    One forward pass of copies of the stages gives the bytes of a batch's activations; the loss has none of them.
    """
    copies = [deepcopy(stage) for stage in stages]
    trainer = StaleWeights(copies, torch.optim.SGD([w for c in copies for w in c.parameters()], 0.0),
                           lambda outputs, _: outputs.sum(), delays)  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        trainer.step(inputs, inputs)
    rows = []
    for copy, delay, (activations, _) in zip(copies, delays, trainer.peaks, strict=True):
        weights = sum(w.numel() * w.element_size() for w in copy.parameters())
        rows.append(StageMemory(delay, weights, activations, activations * (delay + 1), weights * delay))
    return rows
