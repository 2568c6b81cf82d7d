"""The predictor of gradients (paper, section 3.6) as a source: one small network, shared by all layers.

Its input is a layer's reorganised output, four values a filter, with the filters as its batch: the drain sums them up
while the array computes the layer, and the array those of a depthwise layer, which the pool unit computes. It is a
convolution with a ReLU (``conv``) and a linear layer (``fc``), of which a layer with r weights a filter uses the first
r rows. Its output times the layer's scale predicts the gradients of the filters; biases aren't predicted.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...spec.commands import Opcode, Phase, Source
from ...spec.config import Config
from ...spec.numerics import CHANNELS, HIDDEN, KERNEL, WINDOWS, window_sizes
from .filter_split import Part, cut
from .gradient_source import FROZEN_NORM, GradientSource, TrueGradients, sgd_update
from .ir import BACKPROPAGATION, WITH_LOSS, Step
from .lowering import Kind, Layer, LoweringError
from .predictor_steps import PredictorSteps
from .quantise import operand_type
from .streaming import Stream
from .tensors import Tensor, layer_tensor, predictor_tensor
from .window_sums import SUMS, windows_of

__all__ = ["PREDICTION_EXPONENT", "PREDICTOR_LOAD", "PREDICTOR_SAVE", "Predictor"]

PREDICTION_EXPONENT = -10
"""Exponent of predictions: gradients over their layer's scale are near 1, above which 16 bits then leave five."""
PREDICTOR_LOAD, PREDICTOR_SAVE = "predictor.load", "predictor.save"
"""Programs that copy the predictor's weights, which may be on chip, from where the host writes them, and back."""


class Predictor(GradientSource):
    """The gradient source that predicts.

    It predicts for convolutions and linear layers that its hardware is large enough for. The weights of others and
    batch norm's factors, which are ``unpredicted``, stand still in GP, as biases do. Raises LoweringError if that
    leaves none.

    Parameters
    ----------
    layers: the network's
    batch: images of a micro-batch
    config: the accelerator's
    kind: ``predicted`` takes predictions as they are, ``random`` with signs at random
    true: the source of true gradients, which says which micro-batch of how many it is
    learns: the predictor learns where there are true gradients; else only GP batches have commands of it
    keeps: updates of GP batches leave momentum as it is
    stops: the host computes a part of the network, so GP batches stop for it
    """

    calibrating = WITH_LOSS & ~Phase.BP  # in BP no command sees all of the predictor's weights

    def __init__(
        self, layers: list[Layer], batch: int, config: Config, kind: str = "predicted",
        true: TrueGradients | None = None, learns: bool = True, keeps: bool = False, stops: bool = False,
    ):  # fmt: skip
        self.kind, self.true, self.learns, self.keeps = kind, true or TrueGradients(), learns, keeps
        self._taught = BACKPROPAGATION if learns else Phase(0)
        self.batch, self.config = batch, config
        trained = {place: layer for place, layer in enumerate(layers) if layer.trains}
        self.unpredicted = {layer.name: why for layer in trained.values() if (why := self._why_not(layer))}
        self.places = [place for place, layer in trained.items() if layer.name not in self.unpredicted]
        self.layers = [layers[place] for place in self.places]
        if not self.layers:
            raise LoweringError(f"no layer can be predicted: {self.told or 'none is trained'}")
        self.steps = PredictorSteps(batch, self.shapes, self.true.number, self.true.count)
        # Random signs are counted from a command's first weight.
        waits = config.streams or (stops and config.n_cores > 1)
        self.stream = Stream(self.steps, config) if waits and kind == "predicted" else None
        least = min(self.layers, key=lambda layer: layer.filter_elements)
        if config.streams and least.filter_elements < config.update_lanes:  # several filters would end in a cycle
            raise LoweringError(
                f"predictions can't be streamed: {least.name} has {least.filter_elements} weights in a filter, fewer"
                f" than update_lanes = {config.update_lanes}; predictions = 'spill' can"
            )

    def _why_not(self, layer: Layer) -> str:
        """The reason why the layer isn't predicted, mostly a limit that it exceeds; empty if it is."""
        if layer.kind is Kind.NORM:
            return FROZEN_NORM
        limits = [("weights in a filter", layer.filter_elements - 1, self.config.n_predicted)]
        if layer.kind is Kind.DEPTHWISE:
            limits += [("results of a filter", self.batch * layer.oh * layer.ow, self.config.max_reduction)]
        else:
            averaged = self.batch * window_sizes(layer.oh, layer.ow)
            limits = [
                ("filters" + " in a group" * (layer.groups > 1), layer.q // layer.groups, self.config.n_filters),
                *limits,
                ("results of a filter in a window", averaged, self.config.max_average_taps),
            ]  # fmt: skip
        for what, value, most in limits:
            if value > most:
                return f"{value} {what}, the predictor of {self.config.name} is for {most}"
        return ""

    @property
    def rows(self) -> int:
        """Outputs of the predictor: the most weights of a filter, without its bias."""
        return max(layer.filter_elements - 1 for layer in self.layers)

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Filters and elements of a filter's row, by the predictor's two layers."""
        return {"conv": (CHANNELS, KERNEL * KERNEL + 1), "fc": (self.rows, HIDDEN + 1)}

    @property
    def scales(self) -> list[str]:
        return [layer_tensor(layer, "scale") for layer in self.layers]

    @property
    def windows(self) -> dict[str, tuple[int, int]]:
        """Height and width of depthwise layers' results, by the table of their windows, which the host writes."""
        return {windows_of(layer): (layer.oh, layer.ow) for layer in self.layers if layer.kind is Kind.DEPTHWISE}

    def tensors(self, number: int) -> Iterator[tuple[str, Tensor]]:
        for group, tensor in self.true.tensors(number):
            yield group, tensor
            number = tensor.number + 1
        operand = operand_type(self.config.operand_width)

        def numbered(group, name, shape, dtype=operand):
            nonlocal number
            number += 1
            return group, Tensor(name, shape, dtype, number - 1)

        for name, shape in self.shapes.items():
            yield "state", Tensor(predictor_tensor("staging", name), shape, operand, -1)
            yield numbered("predictor", predictor_tensor("weight", name), shape)
            yield "state", Tensor(predictor_tensor("low", name), shape, np.dtype("<i2"), -1)
            yield numbered("state", predictor_tensor("first", name), shape, np.dtype("<i4"))
            yield numbered("state", predictor_tensor("second", name), shape, np.dtype("<i8"))
            yield numbered("state", predictor_tensor("gradient", name), shape)
        if self.stream and self.stream.tensor:
            yield "predictor", self.stream.tensor
        for name in ("reorganised", "hidden", "hidden_gradient", "prediction", "error"):
            yield numbered("", predictor_tensor(name), ())
        for name, (height, width) in self.windows.items():
            yield numbered("host", name, (self.batch, height, width, SUMS))
        for layer in self.layers:
            yield numbered("", layer_tensor(layer, "scale"), ())
            if layer.kind is Kind.DEPTHWISE:
                yield "activations", Tensor(layer_tensor(layer, "sums"), (layer.q, SUMS + 1), operand, -1)
            values, hidden = (layer.q, WINDOWS, WINDOWS, 1), (layer.q, WINDOWS, WINDOWS, CHANNELS)
            yield "activations", Tensor(layer_tensor(layer, "reorganised"), values, operand, -1)
            yield "activations", Tensor(layer_tensor(layer, "hidden"), hidden, operand, -1)
            yield "activations", Tensor(layer_tensor(layer, "hidden_gradient"), hidden, operand, -1)
            yield "activations", Tensor(layer_tensor(layer, "predicted"), (layer.q, layer.filter_elements), operand, -1)

    # --- forward ----------------------------------------------------------------------------------

    def parts(self, layer: Layer) -> list[Part]:
        """The layer's filters as cut in GP; more than one only on the array, of predictions taken as they are."""
        if self.kind != "predicted" or layer.kind is Kind.DEPTHWISE or layer.groups > 1:
            return [Part(0, layer.q)]
        return cut(layer, self.layers[self.layers.index(layer) + 1 :], self.batch, self.config)

    def forward(self, place: int, layer: Layer, forward: Step) -> Iterator[Step]:
        """The layer's forward pass, its prediction, and in GP its update; filters that are cut, part by part.

        Micro-batches before the last only add to the predictor's input.
        """
        if place not in self.places:
            yield forward
            return
        if layer.kind is Kind.GEMM:
            forward = replace(forward, fields={**forward.fields, "reorganise": 1})
        update, whole = self.gp_gradient(layer, sgd_update(place, layer, Phase.GP)), Part(0, layer.q)
        parts = self.parts(layer) if self.true.last else [whole]
        if len(parts) == 1:
            yield forward
            yield from self.steps.reorganise(place, layer, whole, Phase.GP | self._taught)
            if self.true.last:
                yield from self._predicted(place, layer, whole, update, self._taught)
            return
        yield replace(forward, phases=WITH_LOSS)
        if self.learns:
            yield from self.steps.reorganise(place, layer, whole, BACKPROPAGATION)
            yield from self.steps.predict(place, layer, whole, BACKPROPAGATION)
        for part in parts:
            shape = {"n": self.batch, **layer.geometry(), "q": part.filters}
            rows = part.first * layer.filter_elements
            yield replace(
                forward, phases=Phase.GP, shape=shape, fields={**forward.fields, "y_pitch": layer.q},
                offsets={"b": rows, "out": part.first, "c": part.first},
            )  # fmt: skip
            yield from self.steps.reorganise(place, layer, part, Phase.GP)
            fields = {**update.fields, "count": part.filters * layer.filter_elements}
            part_update = replace(update, fields=fields, offsets=dict.fromkeys(update.operands, rows))
            yield from self._predicted(place, layer, part, part_update, Phase(0))

    def _predicted(self, place: int, layer: Layer, part: Part, update: Step, others: Phase) -> Iterator[Step]:
        """Some filters' predictions in GP and their ``update``, and their hidden values in ``others`` too.

        If predictions are streamed, those of filters before come now, and these later; likewise if GP stops for the
        host, except for layers that are cut.
        """
        if self.stream and not self.stream.tensor and part.filters < layer.q:
            yield from self.stream.rest()
        elif self.stream:
            if others:
                yield from self.steps.predict(place, layer, part, others)
            macs = self.batch * layer.oh * layer.ow * (layer.filter_elements - 1) * part.filters
            yield from self.stream.during(macs / self.config.n_pes)
            self.stream.add(place, layer, part, update)
            return
        yield from self.steps.predict(place, layer, part, Phase.GP | others)
        yield update

    def gp_gradient(self, layer: Layer, update: Step) -> Step:
        """The ``update`` with the gradient that GP batches use instead of the true one."""
        source = Source.RANDOM if self.kind == "random" else Source.GIVEN
        operands = {**update.operands, "a": layer_tensor(layer, "predicted")}
        fields = {**update.fields, "source": int(source)}
        numbers = {"a": predictor_tensor("prediction"), "scale": layer_tensor(layer, "scale")}
        if self.keeps:
            numbers["out"], fields["keep"] = operands.pop("out"), 1
        return replace(update, operands=operands, fields=fields, numbers=numbers)

    # --- backward ---------------------------------------------------------------------------------

    def before_backward(self) -> Iterator[Step]:
        """The rest of streamed predictions; the predictor's gradient is set to zero."""
        if self.stream:
            yield from self.stream.rest()
        for name in self.shapes if self.true.last and self.learns else ():
            yield self.steps.clear_gradient(name)

    def update(self, place: int, layer: Layer) -> Iterator[Step]:
        """The layer's update, which judges the prediction; around it the predictor learns from the layer after it.

        Learning reads as much as that layer's update writes, which is over by now, and a queue of its own never holds
        up later commands. The predictor's own weights are updated after this layer's: while the array computes
        predictions it leaves the memory no time for anything else.
        """
        if place not in self.places or not self.learns:
            yield from self.true.update(place, layer)
            return
        yield from self.true.summed(place, layer)
        if not self.true.last:
            return
        before = self.layers.index(layer) + 1
        later = list(zip(self.places, self.layers, strict=True))[before : before + 1]
        for place_later, layer_later in later:
            yield from self.steps.learn(place_later, layer_later)
        gradient = self.true.gradient(layer)
        yield self.steps.error(place, layer, gradient)
        yield self.quality_operands(layer, sgd_update(place, layer, BACKPROPAGATION, gradient))
        for _, layer_later in later:
            yield from self._adam_in_bp(layer_later)

    def quality_operands(self, layer: Layer, update: Step) -> Step:
        """The ``update`` with the operands by which it judges the layer's prediction."""
        return replace(
            update,
            operands={**update.operands, "d": layer_tensor(layer, "predicted")},
            fields={**update.fields, "quality": 1},
            numbers={"d": predictor_tensor("error"), "scale": layer_tensor(layer, "scale")},
        )

    def after_backward(self) -> Iterator[Step]:
        """The first layer's part of the gradient, and steps of Adam.

        In warm-up all weights are updated at once: in the batch that calibrates, a tensor's exponent comes from all of
        it.
        """
        if not self.true.last or not self.learns:
            return
        yield from self.steps.learn(self.places[0], self.layers[0])
        yield from self._adam_in_bp(self.layers[0])
        for name, (rows, _) in self.shapes.items():
            yield self.steps.adam(name, 0, rows, Phase.WARMUP)

    def _adam_in_bp(self, layer: Layer) -> Iterator[Step]:
        """Adam for the rows whose gradient the layer's part completes: those that no earlier layer needs."""
        earlier = self.layers.index(layer)
        first, end = self._reach(earlier), self._reach(earlier + 1)
        if first < end:
            yield self.steps.adam("fc", first, end - first, Phase.BP)
        if not earlier:
            yield self.steps.adam("conv", 0, CHANNELS, Phase.BP)

    def _reach(self, count: int) -> int:
        """Rows of the linear layer that the first ``count`` layers may need, in whole beats."""
        unit = self.config.beat_elements
        rows = max((layer.filter_elements - 1 for layer in self.layers[:count]), default=0)
        return min(self.rows, -(-rows // unit) * unit)

    # --- weights in and out -----------------------------------------------------------------------

    def programs(self) -> dict[str, list[Step]]:
        """Programs that copy the operand copies of the weights to where commands use them, and back."""
        end = Step(Opcode.END, Phase.ALL)
        return {
            PREDICTOR_LOAD: [*(self.steps.copy_weights(name, "staging", "weight") for name in self.shapes), end],
            PREDICTOR_SAVE: [*(self.steps.copy_weights(name, "weight", "staging") for name in self.shapes), end],
        }
