"""Hooks that see the outputs of layers while a batch runs forward."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, distributed

from .layers import PredictedWeight

__all__ = ["Recorder"]

Take = Callable[[str, Tensor | None], None]


class Recorder:
    """Gives each weight's reorganised output to whoever records, as soon as its layer has run.

    A weight that is used several times in a forward pass is given the mean of its outputs behind the whole pass, so
    that it isn't changed before its last use; so is one that hasn't been used before. With ``group`` outputs are
    means over its processes: all of them train the same predictor. ``calls``: of each weight's layers in a pass, the
    most so far.
    """

    def __init__(self, weights: Sequence[PredictedWeight], windows: int, group: distributed.ProcessGroup | None):
        self._windows, self._group = windows, group
        self._take: Take | None = None
        self._sees = True
        self._outputs: dict[str, list[Tensor | None]] = {}
        self.calls: dict[str, int] = {}
        modules: dict[torch.nn.Module, list[PredictedWeight]] = {}
        for weight in weights:
            modules.setdefault(weight.module, []).append(weight)
        self._hooks = [
            module.register_forward_hook(self._hook(uses), with_kwargs=True) for module, uses in modules.items()
        ]

    @contextmanager
    def recording(self, take: Take, sees: bool) -> Iterator[None]:
        """``take`` is given weights' names and outputs, without ``sees`` None for them, of the forward pass inside."""
        self._take, self._sees = take, sees
        self._outputs.clear()
        try:
            yield
            for name in self._outputs:
                if self.calls.get(name) != 1:
                    self._give(name)
            for name, outputs in self._outputs.items():
                self.calls[name] = max(self.calls.get(name, 0), len(outputs))
        finally:
            self._take = None
            self._outputs.clear()

    def _hook(self, uses: list[PredictedWeight]):
        def seen(module, args, kwargs, result):
            if self._take is None:
                return
            with torch.no_grad(), torch.autocast(uses[0].weight.device.type, enabled=False):
                for use in uses:
                    output = use.reorganised(args, kwargs, result, self._windows) if self._sees else None
                    self._outputs.setdefault(use.name, []).append(output)
                for use in uses:
                    if self.calls.get(use.name) == len(self._outputs[use.name]) == 1:
                        self._give(use.name)

        return seen

    def _give(self, name: str) -> None:
        outputs = [output for output in self._outputs[name] if output is not None]
        mean = torch.stack(outputs).mean(0) if len(outputs) > 1 else next(iter(outputs), None)
        if mean is not None and self._group is not None:
            distributed.all_reduce(mean, distributed.ReduceOp.SUM, self._group)
            mean /= distributed.get_world_size(self._group)
        if self._take:
            self._take(name, mean)

    def close(self) -> None:
        """Remove the hooks."""
        for hook in self._hooks:
            hook.remove()
