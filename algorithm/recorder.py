"""Hooks that see the outputs of layers while a batch runs forward."""

from collections.abc import Iterator, Mapping, Sequence
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


class Recorder:
    """Collects each weight's reorganised output while a batch runs forward.

    A weight that is used several times in a forward pass is given the mean of its outputs. With ``group`` outputs are
    means over its processes: all of them train the same predictor. ``compiled``: layers ran inside of a compiled graph,
    where they can't be seen.
    """

    def __init__(self, weights: Sequence[PredictedWeight], windows: int, group: distributed.ProcessGroup | None):
        self._windows, self._group = windows, group
        self._active, self._sees = False, True
        self.compiled = False
        self._outputs: dict[str, list[Tensor | None]] = {}
        modules: dict[torch.nn.Module, list[PredictedWeight]] = {}
        for weight in weights:
            modules.setdefault(weight.module, []).append(weight)
        self._hooks = [
            module.register_forward_hook(_Hook(self, uses), with_kwargs=True) for module, uses in modules.items()
        ]

    @contextmanager
    def recording(self, sees: bool) -> Iterator[dict[str, Tensor | None]]:
        """Record the forward pass inside; at its end the dictionary has each weight's output, by name in order.

        Without ``sees`` it has None for the weights whose layers ran.
        """
        found: dict[str, Tensor | None] = {}
        self._active, self._sees, self.compiled = True, sees, False
        self._outputs.clear()
        try:
            yield found
            if self.compiled:
                raise refused(COMPILED)
            if not self._outputs:
                raise RuntimeError(NOT_RUN)
            found.update({name: self._mean(outputs) for name, outputs in self._outputs.items()})
        finally:
            self._active = False
            self._outputs.clear()

    def seen(self, uses: Sequence[PredictedWeight], args: tuple, kwargs: Mapping, result: Any) -> None:
        """Take in that a layer with these weights has run."""
        if not self._active:
            return
        with torch.no_grad(), full_precision(uses[0].weight.device):
            for use in uses:
                output = use.reorganised(args, kwargs, result, self._windows) if self._sees else None
                self._outputs.setdefault(use.name, []).append(output)

    def _mean(self, found: Sequence[Tensor | None]) -> Tensor | None:
        """The mean over a weight's uses, and over processes."""
        outputs = [output for output in found if output is not None]
        mean = torch.stack(outputs).mean(0) if len(outputs) > 1 else next(iter(outputs), None)
        if mean is not None and self._group is not None:
            distributed.all_reduce(mean, distributed.ReduceOp.SUM, self._group)
            mean /= distributed.get_world_size(self._group)
        return mean

    def close(self) -> None:
        """Remove the hooks."""
        for hook in self._hooks:
            hook.remove()


class _Hook:
    """A layer's forward hook. Copies of the network carry it with them; there it does nothing.

    When it is pickled, a hook that does nothing takes its place, so that a network can be saved as a whole.
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
    """Takes a hook's place in a network that was loaded."""

    def __call__(self, *_: object) -> None:
        pass
