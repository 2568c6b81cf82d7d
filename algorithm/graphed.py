"""ADA-GP on a GPU whose batches are CUDA graphs: what the host would send piece by piece is replayed at once."""

from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..spec.commands import Phase
from ..spec.schedule import Schedule
from .ada_gp import AdaGP
from .schedules import PAPER

__all__ = ["GraphedAdaGP"]

WARM = 3
"""Batches of a kind that are run as they are before one is recorded: optimizer and libraries make what they need."""


class GraphedAdaGP(AdaGP):
    """Trains as :class:`.AdaGP` does, on a GPU; GP batches, and batches with true gradients, are a CUDA graph each.

    ::

        ada = GraphedAdaGP(network, optimizer, schedule(1, (4, 4, 1), (1, 1, 1)))
        for x, y in ada.epoch(loader):
            held_x.copy_(x), held_y.copy_(y)
            loss = ada.step(lambda: criterion(network(held_x), held_y))

    A graph works on the tensors that it was recorded with. So ``step`` must be given the same work in every batch: on
    tensors that stay, which the caller fills, of one shape. A learning rate that has changed makes it record anew. The
    loss is on the device; a later batch may overwrite it.

    Nothing is checked, as checks wait for the device. A batch whose gradients aren't finite spoils the weights. It
    shows in the loss, which the caller looks at as often as it wants.

    Raises
    ------
    TypeError, ValueError
        as :class:`.AdaGP` does, and for a network that isn't on a GPU, and for metrics, gates, GradScalers and sources
        other than ``predicted``, ``zero`` and ``skip``: they work on the host
    """

    _checks = False

    def __init__(
        self, network: nn.Module, optimizer: torch.optim.Optimizer, schedule: Schedule = PAPER, *,
        source: str = "predicted", metrics: bool = False, **options,
    ):  # fmt: skip
        refused = {name for name in ("gate", "scaler") if options.get(name) is not None} | (
            {"metrics"} if metrics else set()
        )
        if refused:
            raise ValueError(f"{', '.join(sorted(refused))}: of no use in a CUDA graph; train with AdaGP")
        if source not in ("predicted", "zero", "skip"):
            raise ValueError(f"the source {source!r} of gradients works on the host; train with AdaGP")
        super().__init__(network, optimizer, schedule, source=source, metrics=False, **options)
        self._need_device()
        self._teacher.stay_on_device()
        self._runs = Counter[tuple[bool, bool]]()  # by kind: a GP batch, one that the predictor learns from
        self._recorded: dict[tuple[bool, bool], tuple[tuple, Callable[[], Tensor]]] = {}

    def _need_device(self) -> None:
        place = self.predictor.scales.device
        if place.type != "cuda":
            raise ValueError(f"the network is on {place}, and CUDA graphs are for a GPU; train with AdaGP")
        self._stream = torch.cuda.Stream(place)

    def _batch(self, phase, compute, clip):
        kind = phase is Phase.GP, self._learns(phase)
        self._runs[kind] += 1
        if self._runs[kind] <= WARM:
            return self._beside(lambda: super(GraphedAdaGP, self)._batch(phase, compute, clip))
        rates = tuple(group["lr"] for group in self.optimizer.param_groups)
        if kind not in self._recorded or self._recorded[kind][0] != rates:
            self._recorded.pop(kind, None)
            replay = self._record(lambda: super(GraphedAdaGP, self)._batch(phase, compute, clip))
            self._recorded[kind] = rates, replay
        return self._recorded[kind][1]()

    def _beside(self, run: Callable[[], Tensor]) -> Tensor:
        """Run on the stream that graphs are recorded on."""
        here = torch.cuda.current_stream()
        self._stream.wait_stream(here)
        with torch.cuda.stream(self._stream):
            found = run()
        here.wait_stream(self._stream)
        return found

    def _record(self, run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Record without running; returns a function that runs it."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._stream):
            loss = run()

        def replay() -> Tensor:
            graph.replay()
            return loss

        return replay

    def load_state_dict(self, state: dict) -> None:
        """Go on from a state of this class, or of :class:`.AdaGP`; batches are recorded anew."""
        adam = state.get("optimizer", {"param_groups": []})
        groups = [{**group, "capturable": True} for group in adam["param_groups"]]
        super().load_state_dict({**state, "optimizer": {**adam, "param_groups": groups}})
        self._recorded.clear()
        self._runs.clear()
