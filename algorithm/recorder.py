"""Hooks that see the outputs of layers while a batch runs forward."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed

from .layers import PredictedWeight
from .precision import full_precision
from .support import COMPILED, refused

__all__ = ["Recorder"]

NOT_RUN = (
    "none of the layers whose weights are predicted has run: the function that step is given must itself run the "
    "network; after close nothing is seen"
)
Take = Callable[[str, Tensor | None], None]


class Recorder:
    """Gives each weight's reorganised output to whoever records, as soon as its layer has run.

    A weight that is used several times in a forward pass is given the mean of its outputs behind the whole pass, so
    that it isn't changed before its last use; so is one that hasn't been used before. With ``group`` outputs are
    means over its processes: all of them train the same predictor. ``calls``: of each weight's layers in a pass, the
    most so far. ``compiled``: layers ran inside of a compiled graph, and couldn't be seen.
    """

    def __init__(self, weights: Sequence[PredictedWeight], windows: int, group: distributed.ProcessGroup | None):
        self._windows, self._group = windows, group
        self._take: Take | None = None
        self._sees = True
        self.compiled = False
        self._outputs: dict[str, list[Tensor | None]] = {}
        self.calls: dict[str, int] = {}
        modules: dict[torch.nn.Module, list[PredictedWeight]] = {}
        for weight in weights:
            modules.setdefault(weight.module, []).append(weight)
        self._hooks = [
            module.register_forward_hook(_Hook(self, uses), with_kwargs=True) for module, uses in modules.items()
        ]

    @contextmanager
    def recording(self, take: Take, sees: bool) -> Iterator[None]:
        """``take`` is given weights' names and outputs, without ``sees`` None for them, of the forward pass inside."""
        self._take, self._sees, self.compiled = take, sees, False
        self._outputs.clear()
        try:
            yield
            if self.compiled:
                raise refused(COMPILED)
            if not self._outputs:
                raise RuntimeError(NOT_RUN)
            for name in self._outputs:
                if self.calls.get(name) != 1:
                    self._give(name)
            for name, outputs in self._outputs.items():
                self.calls[name] = max(self.calls.get(name, 0), len(outputs))
        finally:
            self._take = None
            self._outputs.clear()

    def seen(self, uses: Sequence[PredictedWeight], args: tuple, kwargs: Mapping, result: Any) -> None:
        """A layer that has these weights has run."""
        if self._take is None:
            return
        with torch.no_grad(), full_precision(uses[0].weight.device):
            for use in uses:
                output = use.reorganised(args, kwargs, result, self._windows) if self._sees else None
                self._outputs.setdefault(use.name, []).append(output)
            for use in uses:
                if self.calls.get(use.name) == len(self._outputs[use.name]) == 1:
                    self._give(use.name)

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


class _Hook:
    """A layer's forward hook. Copies of the network carry it on, and are none of the recorder's: there it does nothing.

    Pickled it is another that does nothing, so that a network can be saved as a whole.
    """

    def __init__(self, recorder: Recorder, uses: Sequence[PredictedWeight]):
        self._recorder, self._uses = recorder, uses

    def __call__(self, module: torch.nn.Module, args: tuple, kwargs: Mapping, result: Any) -> None:
        if module is not self._uses[0].module:
            return
        if torch.compiler.is_compiling():  # an exception would only make it compile something else
            self._recorder.compiled = True
        else:
            self._recorder.seen(self._uses, args, kwargs, result)

    def __deepcopy__(self, memo: dict) -> "_Hook":
        return self

    def __reduce__(self):
        return _Nothing, ()


class _Nothing:
    """What a loaded network has in a hook's place."""

    def __call__(self, *_: object) -> None:
        pass
