"""The predictor of gradients (paper, section 3.6) as commands: one small network, shared by all layers.

It is given a layer's reorganised output, four values a filter, the filters being its batch: a convolution, a ReLU and
one linear layer, which for a layer of r outputs is only its first r rows. What it gives, times the layer's scale, are
the gradients of the filters; biases aren't predicted.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...spec.commands import CMode, Opcode, Phase, Source
from ...spec.config import Config
from ...spec.numerics import CHANNELS, HIDDEN, KERNEL, WINDOWS, window_sizes
from .batch import BACKPROPAGATION, HYPER, Step
from .filter_split import Part, cut
from .lowering import Kind, Layer, LoweringError
from .quantise import constant, operand_type
from .tensors import Tensor

__all__ = ["ADAM_HYPER", "BETAS", "PREDICTION_EXPONENT", "Predictor"]

PREDICTION_EXPONENT = -10
"""Gradients over their layer's scale are near 1: of 16 bits, five are left above that."""
ADAM_HYPER = HYPER + 3
"""Hyper-parameter index of Adam's, see spec/commands.py."""
BETAS = (0.9, 0.999)
STATE = (("weight", None), ("low", np.dtype("<i2")), ("first", np.dtype("<i4")), ("second", np.dtype("<i8")))


class Predictor:
    """Tensors and commands of the predictor for a network's ``layers``; raises LoweringError for too large ones.

    ``source``: whether its predictions are taken as they are (``predicted``) or with signs at ``random``.
    """

    guesses = True

    def __init__(self, layers: list[Layer], batch: int, config: Config, source: str = "predicted"):
        self.source = source
        self.layers = [layer for layer in layers if layer.kind is Kind.GEMM]
        self.batch, self.config = batch, config
        self.rows = max(layer.filter_elements - 1 for layer in self.layers)
        for layer in self.layers:
            for what, value, field in (
                ("filters", layer.q, "n_filters"), ("weights in a filter", layer.filter_elements - 1, "n_predicted"),
            ):  # fmt: skip
                if value > getattr(config, field):
                    most = f"the predictor of {config.name} is for {getattr(config, field)}"
                    raise LoweringError(f"{layer.name} has {value} {what}, {most}")

    @property
    def scales(self) -> list[str]:
        """Names of the layers' scales."""
        return [f"{layer.name}.scale" for layer in self.layers]

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Of its two layers: filters and elements of a filter's row."""
        return {"conv": (CHANNELS, KERNEL * KERNEL + 1), "fc": (self.rows, HIDDEN + 1)}

    def tensors(self, number: int) -> Iterator[tuple[str, Tensor]]:
        """All tensors and their group in memory ("" for what has only a number), numbered from ``number`` on."""
        operand = operand_type(self.config.operand_width)

        def numbered(group, name, shape, dtype=operand):
            nonlocal number
            number += 1
            return group, Tensor(name, shape, dtype, number - 1)

        for name, shape in self.shapes.items():
            yield "state", Tensor(f"predictor.{name}.staging", shape, operand, -1)
            for what, dtype in STATE:
                if what == "low":
                    yield "state", Tensor(f"predictor.{name}.low", shape, np.dtype("<i2"), -1)
                else:
                    group = "predictor" if what == "weight" else "state"
                    yield numbered(group, f"predictor.{name}.{what}", shape, dtype or operand)
            yield numbered("state", f"predictor.{name}.gradient", shape)
        for name in ("reorganised", "hidden", "hidden_gradient", "prediction", "error"):
            yield numbered("", f"predictor.{name}", ())
        for layer in self.layers:
            yield numbered("", f"{layer.name}.scale", ())
            n, windows = layer.q, (WINDOWS, WINDOWS)
            yield "activations", Tensor(f"{layer.name}.reorganised", (n, *windows, 1), operand, -1)
            yield "activations", Tensor(f"{layer.name}.hidden", (n, *windows, CHANNELS), operand, -1)
            yield "activations", Tensor(f"{layer.name}.hidden_gradient", (n, *windows, CHANNELS), operand, -1)
            yield "activations", Tensor(f"{layer.name}.predicted", (n, layer.filter_elements), operand, -1)

    # --- forward ----------------------------------------------------------------------------------

    def parts(self, layer: Layer) -> list[Part]:
        """How the layer's filters are cut in GP; only where predictions are taken as they are."""
        behind = self.layers[self.layers.index(layer) + 1 :] if self.source == "predicted" else None
        return [Part(0, layer.q)] if behind is None else cut(layer, behind, self.batch, self.config)

    def forward(self, place: int, layer: Layer, forward: Step, update: Step) -> Iterator[Step]:
        """The layer's ``forward``, what the predictor does with its result, and in GP its ``update``."""
        forward.fields["reorganise"] = 1
        parts = self.parts(layer)
        update = replace(update, **self.given(layer, update))
        if len(parts) == 1:
            yield forward
            yield from self.predict(place, layer, parts[0], Phase.TRAIN)
            yield update
            return
        yield replace(forward, phases=Phase.ALL & ~Phase.GP)
        yield from self.predict(place, layer, Part(0, layer.q), BACKPROPAGATION)
        for part in parts:
            shape = {"n": self.batch, **layer.geometry(), "q": part.filters}
            rows = part.first * layer.filter_elements
            yield replace(
                forward, phases=Phase.GP, shape=shape, fields={**forward.fields, "y_pitch": layer.q},
                offsets={"b": rows, "out": part.first},
            )  # fmt: skip
            yield from self.predict(place, layer, part, Phase.GP)
            fields = {**update.fields, "count": part.filters * layer.filter_elements}
            yield replace(update, fields=fields, offsets=dict.fromkeys(update.operands, rows))

    def predict(self, place: int, layer: Layer, part: Part, phases: Phase) -> Iterator[Step]:
        """Behind the forward pass of some filters; in GP as far as the prediction."""
        mantissa, exponent = constant(1 / (self.batch * window_sizes(layer.oh, layer.ow)))
        elements = dict.fromkeys(("n", "h", "w", "oh", "ow", "r", "s", "stride"), 1)
        elements |= dict.fromkeys(("c", "q"), part.filters * WINDOWS * WINDOWS)
        values, hidden = part.first * WINDOWS * WINDOWS, part.first * HIDDEN
        yield Step(
            Opcode.REORGANISE, phases, place, {"out": f"{layer.name}.reorganised"},
            {"const_mantissa": mantissa, "const_exponent": exponent, "track": 1}, elements,
            {"a": f"{layer.name}.output", "out": "predictor.reorganised"}, {"out": values},
        )  # fmt: skip
        yield Step(
            Opcode.FORWARD, phases, place,
            {"a": f"{layer.name}.reorganised", "b": "predictor.conv.weight", "out": f"{layer.name}.hidden"},
            {"bias": 1, "relu": 1, "track": 1, "predictor": 1}, {**self._conv(layer), "n": part.filters},
            {"a": "predictor.reorganised", "out": "predictor.hidden"}, {"a": values, "out": hidden},
        )  # fmt: skip
        if phases & Phase.GP:
            predict = self._fc(place, layer, Phase.GP, "prediction")
            assert predict.shape is not None
            offsets = {"a": hidden, "out": part.first * layer.filter_elements}
            yield replace(predict, shape={**predict.shape, "n": part.filters}, offsets=offsets)

    def given(self, layer: Layer, true: Step) -> dict:
        """What an UPDATE of GP is given instead of the true gradient ``true`` would."""
        source = Source.RANDOM if self.source == "random" else Source.GIVEN
        return {
            "operands": {**true.operands, "a": f"{layer.name}.predicted"},
            "fields": {**true.fields, "source": int(source)},
            "numbers": {"a": "predictor.prediction", "scale": f"{layer.name}.scale"},
        }

    # --- backward ---------------------------------------------------------------------------------

    def begin(self) -> Iterator[Step]:
        """Before the backward pass: no gradient so far."""
        for name in self.shapes:
            gradient = f"predictor.{name}.gradient"
            yield self._copy(name, BACKPROPAGATION, gradient, gradient, 0)

    def compare(self, place: int, layer: Layer) -> Step:
        """Prediction less true gradient, over the layer's scale."""
        return self._fc(place, layer, BACKPROPAGATION, "error", CMode.SUB)

    def judged(self, layer: Layer, true: Step) -> dict:
        """What an UPDATE is given to judge the prediction by."""
        return {
            "operands": {**true.operands, "d": f"{layer.name}.predicted"},
            "fields": {**true.fields, "quality": 1},
            "numbers": {"d": "predictor.error", "scale": f"{layer.name}.scale"},
        }

    def learn(self, place: int, layer: Layer) -> Iterator[Step]:
        """The layer's part of the predictor's gradient."""
        name, error = layer.name, "predictor.error"
        pitched = {"track": 1, "y_pitch": layer.filter_elements, "predictor": 1}
        yield Step(
            Opcode.BACKWARD_WEIGHT, BACKPROPAGATION, place,
            {"a": f"{name}.hidden", "b": f"{name}.predicted", **self._sum("fc")},
            {"bias": 1, "c_mode": int(CMode.ADD), **pitched}, self._linear(layer),
            {"a": "predictor.hidden", "b": error},
        )  # fmt: skip
        yield Step(
            Opcode.BACKWARD_DATA, BACKPROPAGATION, place,
            {"a": f"{name}.predicted", "b": "predictor.fc.weight", "c": f"{name}.hidden",
             "out": f"{name}.hidden_gradient"},
            {"c_mode": int(CMode.MASK), **pitched}, self._linear(layer),
            {"a": error, "c": "predictor.hidden", "out": "predictor.hidden_gradient"},
        )  # fmt: skip
        yield Step(
            Opcode.BACKWARD_WEIGHT, BACKPROPAGATION, place,
            {"a": f"{name}.reorganised", "b": f"{name}.hidden_gradient", **self._sum("conv")},
            {"bias": 1, "track": 1, "c_mode": int(CMode.ADD), "predictor": 1}, self._conv(layer),
            {"a": "predictor.reorganised", "b": "predictor.hidden_gradient"},
        )  # fmt: skip

    def step(self, layer: Layer) -> Iterator[Step]:
        """In BP a step of Adam for what the layer's part of the gradient completes: what no earlier layer needs."""
        earlier = self.layers.index(layer)
        first, end = self._reach(earlier), self._reach(earlier + 1)
        if first < end:
            yield self._adam("fc", first, end - first, Phase.BP)
        if not earlier:
            yield self._adam("conv", 0, CHANNELS, Phase.BP)

    def end(self) -> Iterator[Step]:
        """Behind the backward pass: in warm-up a step of Adam.

        All weights at once: in the batch that calibrates, a tensor's exponent comes from all of it.
        """
        for name, (rows, _) in self.shapes.items():
            yield self._adam(name, 0, rows, Phase.WARMUP)

    def copies(self, into_window: bool) -> Iterator[Step]:
        """The operand copies of the weights from where the host puts them to where they are used, or back."""
        for name in self.shapes:
            weight, staging = f"predictor.{name}.weight", f"predictor.{name}.staging"
            source, result = (staging, weight) if into_window else (weight, staging)
            yield self._copy(name, Phase.ALL, source, result, 1, dict.fromkeys(("a", "out"), weight))

    # --- shapes -----------------------------------------------------------------------------------

    def _reach(self, count):
        """Rows of the linear layer that the first ``count`` layers may need, in whole beats."""
        unit = self.config.beat_elements
        rows = max((layer.filter_elements - 1 for layer in self.layers[:count]), default=0)
        return min(self.rows, -(-rows // unit) * unit)

    def _adam(self, name, first, rows, phases):
        """A step of Adam for rows of one of the predictor's layers."""
        what = {"a": "gradient", "b": "weight", "c": "low", "d": "second", "out": "first"}
        operands = {operand: f"predictor.{name}.{part}" for operand, part in what.items()}
        _, elements = self.shapes[name]
        fields = {"count": rows * elements, "hyper": ADAM_HYPER}
        return Step(
            Opcode.ADAM, phases, 0, operands, fields, offsets=dict.fromkeys(operands, first * elements),
            name="predictor",
        )  # fmt: skip

    def _fc(self, place, layer, phases, result, c_mode=CMode.NONE):
        operands = {"a": f"{layer.name}.hidden", "b": "predictor.fc.weight", "out": f"{layer.name}.predicted"}
        numbers = {"a": "predictor.hidden", "out": f"predictor.{result}"}
        if c_mode == CMode.SUB:
            operands["c"] = f"{layer.name}.weight_gradient"
            numbers["scale"] = f"{layer.name}.scale"
        track = int(c_mode == CMode.SUB)  # a prediction's exponent stands, for no batch before the first GP makes one
        fields = {
            "bias": 1, "track": track, "c_mode": int(c_mode), "y_pitch": layer.filter_elements, "predictor": 1,
        }  # fmt: skip
        return Step(Opcode.FORWARD, phases, place, operands, fields, self._linear(layer), numbers)

    def _conv(self, layer):
        size = dict.fromkeys(("h", "w", "oh", "ow"), WINDOWS)
        return {"n": layer.q, "c": 1, **size, "q": CHANNELS, "r": KERNEL, "s": KERNEL, "stride": 1, "pad_y": 1,
                "pad_x": 1}  # fmt: skip

    def _linear(self, layer):
        single = dict.fromkeys(("h", "w", "oh", "ow", "r", "s", "stride"), 1)
        return {"n": layer.q, "c": HIDDEN, **single, "q": layer.filter_elements - 1}

    def _copy(self, name, phases, source, result, constant, numbers=()):
        """One of the predictor's layers times a constant."""
        rows, elements = self.shapes[name]
        shape = {"n": 1, "h": rows, "w": 1, "c": elements, "oh": rows, "ow": 1, "q": elements}
        return Step(
            Opcode.AVGPOOL, phases, 0, {"a": source, "out": result}, {"const_mantissa": constant},
            {**shape, "r": 1, "s": 1, "stride": 1}, dict(numbers), name="predictor",
        )  # fmt: skip

    def _sum(self, name):
        return dict.fromkeys(("c", "out"), f"predictor.{name}.gradient")
