"""Predictions that pass through the predictor memory on their way to the update, in slices of a layer's filters.

The memory has room for two slices: the update reads one while the predictor's array writes the other. So a slice's
commands wait for those of the slice before the last. A program that named them layer by layer would keep the main
array's next commands from their queue meanwhile; instead each slice's commands come among those of later layers, about
when its turn comes.

So do whole layers that don't pass through that memory, if the host computes a part of the network. At each of
its stops the machine waits for all units: a prediction and an update just before would hold up the main array.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from ...spec.commands import Phase
from ...spec.config import SLICES, Config
from ...spec.numerics import HIDDEN
from .filter_split import Part
from .ir import Step
from .lowering import Layer
from .predictor_steps import PredictorSteps
from .quantise import operand_type
from .tensors import Tensor, predictor_tensor

__all__ = ["Stream", "slices"]


def slices(layer: Layer, part: Part, config: Config) -> list[Part]:
    """A part's filters in slices of about equal size that fit; each begins with a whole beat, as an UPDATE does."""
    unit = config.beat_elements
    most = config.slice_elements // layer.filter_elements // unit * unit
    even = -(-part.filters // -(-part.filters // most))
    size = -(-even // unit) * unit
    end = part.first + part.filters
    return [Part(first, min(size, end - first)) for first in range(part.first, end, size)]


class Stream:
    """The slices of a GP batch that have no commands yet; whole layers if ``config`` streams nothing.

    Parameters
    ----------
    steps: those of the predictor
    config: the accelerator's

    Attributes
    ----------
    tensor: both slices, in the predictor memory; None if nothing is streamed
    """

    def __init__(self, steps: PredictorSteps, config: Config):
        self._steps, self._config = steps, config
        self.tensor: Tensor | None = None
        if config.streams:
            shape = (SLICES, config.slice_elements)
            self.tensor = Tensor(predictor_tensor("slices"), shape, operand_type(config.operand_width), -1)
        self._waiting: deque[tuple[float, list[Step]]] = deque()
        self._cycles = 0.0  # of the main array's work for which no slice has come yet
        self._count = 0
        self._pace = min(float(config.update_lanes), config.predictor_core.n_pes / HIDDEN)  # weights in a cycle

    def add(self, place: int, layer: Layer, part: Part, update: Step) -> None:
        """Let some filters' hidden values, predictions and ``update`` wait for their turn."""
        self._waiting.append((0, list(self._steps.hide(place, layer, part, Phase.GP))))
        for each in slices(layer, part, self._config) if self.tensor else [part]:
            weights = each.filters * layer.filter_elements
            steps = (
                self._slice(place, layer, each, update, self.tensor) if self.tensor
                else [self._steps.prediction(place, layer, each), update]
            )  # fmt: skip
            self._waiting.append((weights / self._pace, steps))

    def _slice(self, place: int, layer: Layer, part: Part, update: Step, tensor: Tensor) -> list[Step]:
        own = self._count % SLICES * self._config.slice_elements
        self._count += 1
        prediction = self._steps.prediction(place, layer, part)
        offsets = dict.fromkeys(update.operands, part.first * layer.filter_elements)
        fields = {"count": part.filters * layer.filter_elements, "y_pitch": layer.filter_elements}
        return [
            replace(
                prediction, operands={**prediction.operands, "out": tensor.name},
                offsets={**prediction.offsets, "out": own},
            ),
            replace(
                update, operands={**update.operands, "a": tensor.name}, offsets={**offsets, "a": own},
                fields={**update.fields, **fields},
            ),
        ]  # fmt: skip

    def during(self, cycles: float) -> Iterator[Step]:
        """The steps for which there is time while the main array works for so many cycles."""
        self._cycles += cycles
        while self._waiting and self._waiting[0][0] <= self._cycles:
            needed, steps = self._waiting.popleft()
            self._cycles -= needed
            yield from steps
        if not self._waiting:
            self._cycles = 0

    def rest(self) -> Iterator[Step]:
        """All that still wait."""
        while self._waiting:
            yield from self._waiting.popleft()[1]
        self._cycles = 0
