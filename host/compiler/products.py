"""Products of two values as commands: one for each pair of matrices, of which one has the filters' part.

A matrix of Y = A B that lies with its reduction along memory's rows is X, or filters; see :func:`product_steps`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ...spec.commands import CMode, Opcode, Phase
from .ir import BACKPROPAGATION, Step
from .layer_steps import sum_step
from .matrices import Matrices, Multiplication, Places
from .values import Value, output_name

__all__ = ["Product", "SharedGradient", "product_steps", "shared_gradients"]


@dataclass(frozen=True)
class Product:
    """A batch of matrix products: ``places`` are those of the two operands and of the result in their values."""

    name: str
    inputs: tuple[str, str]
    places: tuple[Places, Places, Places]
    rows: int
    inner: int
    columns: int
    parameters: tuple[str, ...] = ()

    @property
    def output(self) -> str:
        """Name of the value that it makes."""
        return output_name(self.name)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of its forward pass."""
        return len(self.places[0].firsts) * self.rows * self.inner * self.columns

    def elements(self, number: int) -> np.ndarray:
        """Positions of an operand's elements in its value."""
        rows, columns = ((self.rows, self.inner), (self.inner, self.columns))[number]
        return self.places[number].elements(rows, columns)

    def forward(self) -> Multiplication:
        """The product."""
        a, b, out = (Matrices(*each) for each in zip((*self.inputs, self.output), self.places, strict=True))
        return Multiplication(self.name, a, b, out, self.rows, self.inner, self.columns)

    def gradient(self, number: int, gradient: str, result: str) -> Multiplication:
        """The gradient of an operand, in the tensor ``result``, from that of the product."""
        a, b = (Matrices(*each).turned() for each in zip(self.inputs, self.places, strict=False))
        out, given = Matrices(result, self.places[number]), Matrices(gradient, self.places[2])
        if number == 0:
            return Multiplication(self.name, given, b, out, self.rows, self.columns, self.inner)
        return Multiplication(self.name, a, given, out, self.inner, self.rows, self.columns)


def product_steps(product: Multiplication, phases: Phase) -> Iterator[Step]:
    """The commands of a product, by which of its operands have the reduction along the rows of memory.

    ========= ========= ================ ======= =======
    A         B         command          A is    B is
    ========= ========= ================ ======= =======
    along     along     FORWARD          X       filters
    along     across    BACKWARD_DATA    dY      filters
    across    across    BACKWARD_WEIGHT  dY      X
    ========= ========= ================ ======= =======
    """
    p = product.along()
    assert not (p.a.places.across and p.b.places.across), product.name
    roles, sizes = {"a": p.a, "b": p.b, "out": p.out}, (p.rows, p.inner, p.columns)
    if p.a.places.across:
        opcode, pitches = Opcode.BACKWARD_WEIGHT, {"x_pitch": "a", "y_pitch": "b", "d_pitch": "out"}
        roles |= {"a": p.b, "b": p.a}
        pixels, q, c = p.inner, p.rows, p.columns
    elif p.b.places.across:
        opcode, pitches = Opcode.FORWARD, {"x_pitch": "a", "d_pitch": "b", "y_pitch": "out"}
        pixels, c, q = sizes
    else:
        opcode, pitches = Opcode.BACKWARD_DATA, {"y_pitch": "a", "d_pitch": "b", "x_pitch": "out"}
        pixels, q, c = sizes
    fields = {"track": 1, **{field: roles[operand].places.pitch for field, operand in pitches.items()}}
    shape = {"n": 1, "h": pixels, "w": 1, "c": c, "oh": pixels, "ow": 1, "q": q, "r": 1, "s": 1, "stride": 1}
    operands = {operand: each.tensor for operand, each in roles.items()}
    for firsts in zip(*(each.places.firsts for each in roles.values()), strict=True):
        offsets = dict(zip(roles, firsts, strict=True))
        yield Step(opcode, phases, 0, operands, fields, shape, offsets=offsets, name=p.name, product=product)


@dataclass
class SharedGradient:
    """A tensor of a value's gradient that several products write, each its own elements; ``left`` are still to come.

    ``whole``: they are all elements, so that nothing else is in it.
    """

    tensor: str
    value: Value
    written: np.ndarray
    left: int = 0

    def zeros(self, owner: str) -> Iterator[Step]:
        """Zeros for the elements that no product writes."""
        if not self.written.all():
            step = sum_step(self.value.memory_shape, owner, self.value.name, self.tensor, CMode.NONE)
            yield Step(
                step.opcode, BACKPROPAGATION, 0, step.operands, {"const_mantissa": 0}, step.shape, name=step.name
            )


def shared_gradients(
    products: Iterable[Product], values: dict[str, Value], wanted: set[str]
) -> dict[tuple[str, int], SharedGradient]:
    """The tensors for gradients of products' operands, by product and number of operand.

    Products whose operands have no element of a value in common share one. ``products``: those that have a gradient,
    in the order of the backward pass.
    """
    found: dict[tuple[str, int], SharedGradient] = {}
    by_value: dict[str, list[SharedGradient]] = {}
    for product in products:
        for number, name in enumerate(product.inputs):
            if name not in wanted:
                continue
            elements = product.elements(number).ravel()
            shared = next((each for each in by_value.get(name, ()) if not each.written[elements].any()), None)
            if shared is None:
                empty = np.zeros(np.prod(values[name].shape), bool)
                shared = SharedGradient(f"{product.name}.input_gradient{number}", values[name], empty)
                by_value.setdefault(name, []).append(shared)
            shared.written[elements] = True
            shared.left += 1
            found[product.name, number] = shared
    return found
