"""The predictor's own steps: prediction, error, gradient, Adam and copies of its weights."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ...spec.commands import CMode, Opcode, Phase
from ...spec.numerics import CHANNELS, HIDDEN, KERNEL, WINDOWS, window_sizes
from .filter_split import Part
from .ir import BACKPROPAGATION, HYPER, Step
from .lowering import Kind, Layer
from .quantise import constant
from .tensors import PREDICTOR, layer_tensor, predictor_tensor
from .window_sums import SUMS, sum_steps

__all__ = ["ADAM_HYPER", "BETAS", "GRADIENTS", "INPUTS", "SHARED", "PredictorSteps", "calibrated_once"]

ADAM_HYPER = HYPER + 3
"""Hyper-parameter index of Adam's, see spec/commands.py."""
BETAS = (0.9, 0.999)
"""Adam's betas: torch's."""


GRADIENTS = tuple(predictor_tensor("gradient", name) for name in ("conv", "fc"))
"""The gradient of the predictor's layers."""
INPUTS = tuple(predictor_tensor(name) for name in ("reorganised", "hidden"))
"""Tensors that the predictor computes in its forward pass."""
SHARED = (*INPUTS, *(predictor_tensor(name) for name in ("hidden_gradient", "error")), *GRADIENTS)
"""The predictor's tensors whose exponents all layers share."""


def calibrated_once(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps of a batch that calibrates; only the first that writes a shared tensor finds its exponent.

    An exponent from two layers would need the maxima of both, which may be on different devices.
    """
    seen: set[str] = set()
    for step in steps:
        written = step.numbers.get("out", step.operands.get("out", ""))
        again = written in seen and step.fields.get("track")
        yield replace(step, fields={**step.fields, "track": 0}) if again else step
        if written in SHARED and step.fields.get("track"):
            seen.add(written)


class PredictorSteps:
    """Steps of a predictor.

    Parameters
    ----------
    batch: images of a micro-batch
    shapes: rows and elements of a row, by the predictor's layers
    number, count: the micro-batch's place in the batch, and how many there are
    """

    def __init__(self, batch: int, shapes: Mapping[str, tuple[int, int]], number: int = 0, count: int = 1):
        self.batch, self.shapes, self.number, self.count = batch, shapes, number, count

    def reorganise(self, place: int, layer: Layer, part: Part, phases: Phase) -> Iterator[Step]:
        """After the forward pass of some filters: their reorganised output, added to that of earlier micro-batches."""
        if layer.kind is Kind.DEPTHWISE:
            for step in sum_steps(self.batch, place, layer, phases, self.number, self.count):
                yield from self._tracked(step)
        else:
            yield from self._tracked(self._reorganise(place, layer, part, phases))

    def predict(self, place: int, layer: Layer, part: Part, phases: Phase) -> Iterator[Step]:
        """After the reorganised output of some filters: their hidden values, and in GP predictions."""
        yield from self.hide(place, layer, part, phases)
        if phases & Phase.GP:
            yield self.prediction(place, layer, part)

    def hide(self, place: int, layer: Layer, part: Part, phases: Phase) -> Iterator[Step]:
        """The hidden values of some filters."""
        values, hidden = part.first * SUMS, part.first * HIDDEN
        yield from self._tracked(Step(
            Opcode.FORWARD, phases, place,
            {"a": layer_tensor(layer, "reorganised"), "b": predictor_tensor("weight", "conv"),
             "out": layer_tensor(layer, "hidden")},
            {"bias": 1, "relu": 1, "track": 1, "predictor": 1}, {**_conv_shape(layer), "n": part.filters},
            {"a": predictor_tensor("reorganised"), "out": predictor_tensor("hidden")}, {"a": values, "out": hidden},
        ))  # fmt: skip

    def prediction(self, place: int, layer: Layer, part: Part) -> Step:
        """The predictions of some filters in GP."""
        shape = {**_fc_shape(layer), "n": part.filters}
        offsets = {"a": part.first * HIDDEN, "out": part.first * layer.filter_elements}
        return replace(self._fc(place, layer, Phase.GP, "prediction"), shape=shape, offsets=offsets)

    def _tracked(self, step: Step) -> Iterator[Step]:
        """The step, which in GP leaves exponents as they are if a batch has several micro-batches.

        All layers share these exponents, so a pipeline's stages would have to wait for each other at the end of GP.
        """
        gp = step.phases & Phase.GP
        if self.count == 1 or not gp:
            yield step
            return
        if others := step.phases & ~Phase.GP:
            yield replace(step, phases=others)
        yield replace(step, phases=gp, fields={**step.fields, "track": 0})

    def _reorganise(self, place: int, layer: Layer, part: Part, phases: Phase) -> Step:
        """The means of some filters' windows, from the sums that the drain has of the forward pass."""
        mantissa, exponent = constant(1 / (self.count * self.batch * window_sizes(layer.oh, layer.ow)))
        elements = dict.fromkeys(("n", "h", "w", "oh", "ow", "r", "s", "stride"), 1)
        elements |= dict.fromkeys(("c", "q"), part.filters * SUMS)
        added, result, number = CMode.ADD if self.number else CMode.NONE, part.first * SUMS, "reorganised"
        so_far = ["c"] * (added is CMode.ADD)
        return Step(
            Opcode.REORGANISE, phases, place, dict.fromkeys(["out", *so_far], layer_tensor(layer, "reorganised")),
            {"const_mantissa": mantissa, "const_exponent": exponent, "track": 1, "c_mode": int(added)}, elements,
            {"a": layer_tensor(layer, "output"), **dict.fromkeys(["out", *so_far], predictor_tensor(number))},
            dict.fromkeys(["out", *so_far], result),
        )  # fmt: skip

    def error(self, place: int, layer: Layer, gradient: str) -> Step:
        """The prediction less the true gradient, which is in the tensor ``gradient``, over the layer's scale."""
        step = self._fc(place, layer, BACKPROPAGATION, "error")
        return replace(
            step,
            operands={**step.operands, "c": gradient},
            fields={**step.fields, "c_mode": int(CMode.SUB), "track": 1},
            numbers={**step.numbers, "scale": layer_tensor(layer, "scale")},
        )

    def _fc(self, place: int, layer: Layer, phases: Phase, result: str) -> Step:
        """The predictor's linear layer; its result isn't tracked, for no batch before the first of GP predicts."""
        operands = {
            "a": layer_tensor(layer, "hidden"), "b": predictor_tensor("weight", "fc"),
            "out": layer_tensor(layer, "predicted"),
        }  # fmt: skip
        numbers = {"a": predictor_tensor("hidden"), "out": predictor_tensor(result)}
        fields = {"bias": 1, "y_pitch": layer.filter_elements, "predictor": 1}
        return Step(Opcode.FORWARD, phases, place, operands, fields, _fc_shape(layer), numbers)

    def learn(self, place: int, layer: Layer) -> Iterator[Step]:
        """Add the layer's part to the predictor's gradient."""
        hidden, predicted = layer_tensor(layer, "hidden"), layer_tensor(layer, "predicted")
        hidden_gradient, error = layer_tensor(layer, "hidden_gradient"), predictor_tensor("error")
        pitched = {"track": 1, "y_pitch": layer.filter_elements, "predictor": 1}
        yield Step(
            Opcode.BACKWARD_WEIGHT, BACKPROPAGATION, place, {"a": hidden, "b": predicted, **_added_to("fc")},
            {"bias": 1, "c_mode": int(CMode.ADD), **pitched}, _fc_shape(layer),
            {"a": predictor_tensor("hidden"), "b": error},
        )  # fmt: skip
        yield Step(
            Opcode.BACKWARD_DATA, BACKPROPAGATION, place,
            {"a": predicted, "b": predictor_tensor("weight", "fc"), "c": hidden, "out": hidden_gradient},
            {"c_mode": int(CMode.MASK), **pitched}, _fc_shape(layer),
            {"a": error, "c": predictor_tensor("hidden"), "out": predictor_tensor("hidden_gradient")},
        )  # fmt: skip
        yield Step(
            Opcode.BACKWARD_WEIGHT, BACKPROPAGATION, place,
            {"a": layer_tensor(layer, "reorganised"), "b": hidden_gradient, **_added_to("conv")},
            {"bias": 1, "track": 1, "c_mode": int(CMode.ADD), "predictor": 1}, _conv_shape(layer),
            {"a": predictor_tensor("reorganised"), "b": predictor_tensor("hidden_gradient")},
        )  # fmt: skip

    def adam(self, name: str, first: int, rows: int, phases: Phase) -> Step:
        """A step of Adam for ``rows`` of one of the predictor's layers, from the ``first`` on."""
        parts = {"a": "gradient", "b": "weight", "c": "low", "d": "second", "out": "first"}
        operands = {operand: predictor_tensor(part, name) for operand, part in parts.items()}
        _, elements = self.shapes[name]
        fields = {"count": rows * elements, "hyper": ADAM_HYPER}
        offsets = dict.fromkeys(operands, first * elements)
        return Step(Opcode.ADAM, phases, 0, operands, fields, offsets=offsets, name=PREDICTOR)

    def clear_gradient(self, name: str) -> Step:
        """Set the gradient of one of the predictor's layers to zero."""
        gradient = predictor_tensor("gradient", name)
        return self._scaled(name, BACKPROPAGATION, gradient, gradient, 0)

    def copy_weights(self, name: str, source: str, result: str) -> Step:
        """Copy the operand copies of one of the predictor's layers from one tensor to another."""
        step = self._scaled(name, Phase.ALL, predictor_tensor(source, name), predictor_tensor(result, name), 1)
        return replace(step, numbers=dict.fromkeys(("a", "out"), predictor_tensor("weight", name)))

    def _scaled(self, name: str, phases: Phase, source: str, result: str, factor: int) -> Step:
        """A tensor of one of the predictor's layers times an integer."""
        rows, elements = self.shapes[name]
        shape = {"n": 1, "h": rows, "w": 1, "c": elements, "oh": rows, "ow": 1, "q": elements}
        return Step(
            Opcode.AVGPOOL, phases, 0, {"a": source, "out": result}, {"const_mantissa": factor},
            {**shape, "r": 1, "s": 1, "stride": 1}, name=PREDICTOR,
        )  # fmt: skip


def _conv_shape(layer: Layer) -> dict[str, int]:
    """The convolution's geometry, by command field, with the layer's filters as images."""
    size = dict.fromkeys(("h", "w", "oh", "ow"), WINDOWS)
    return {"n": layer.q, "c": 1, **size, "q": CHANNELS, "r": KERNEL, "s": KERNEL, "stride": 1, "pad_y": 1, "pad_x": 1}


def _fc_shape(layer: Layer) -> dict[str, int]:
    """The linear layer's geometry in the same way."""
    single = dict.fromkeys(("h", "w", "oh", "ow", "r", "s", "stride"), 1)
    return {"n": layer.q, "c": HIDDEN, **single, "q": layer.filter_elements - 1}


def _added_to(name: str) -> dict[str, str]:
    """Operands of a command that adds to the gradient of one of the predictor's layers."""
    return dict.fromkeys(("c", "out"), predictor_tensor("gradient", name))
