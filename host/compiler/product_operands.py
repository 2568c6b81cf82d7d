"""Products of two values among a partition's nodes: where in memory their operands and results lie.

Views that choose and arrange rows, such as those of attention's heads, cost nothing: they are followed by applying them
to the positions of a value's elements.
"""

import operator
from collections.abc import Mapping
from math import prod
from typing import Any, Protocol

import numpy as np
import torch
from torch import fx

from ...spec.config import Config
from .capture import Captured, shape_of
from .lowering import Kind, Layer
from .matrices import Places
from .module_checks import READS_INPUT, Refused, require
from .operator_sets import VIEWS
from .values import Value

__all__ = ["LONGEST_PITCH", "MULTIPLIERS", "ProductOperands"]

MULTIPLIERS = (torch.ops.aten.bmm.default, torch.ops.aten.mm.default)
"""Operators that multiply matrices."""

LONGEST_PITCH = (1 << 24) - 1
"""Operands from a row to the next at most: a command's fields have so many bits."""


class _Partition(Protocol):
    """A partition's knowledge of its nodes, with that of products."""

    captured: Captured
    config: Config
    layers: dict[fx.Node, Layer]
    reasons: dict[fx.Node, str]
    bases: dict[Any, tuple[fx.Node, bool, tuple[int, ...]]]
    repeated: set[fx.Node]

    @property
    def hosted(self) -> Mapping[fx.Node, str]: ...

    def to_host(self, node: fx.Node) -> None: ...

    def arranged(self, arg: Any) -> bool: ...


class ProductOperands:
    """The products of a partition.

    A product's result lies in memory as the last of the views on it that alone reads it and keeps its rows together.
    This view is its node for the partition.

    Attributes
    ----------
    sources: the two values that each product reads, by node
    places: those of operands and result, by node
    sizes: rows, reduction and columns, by node
    own: the operator, by node
    """

    def __init__(self, partition: _Partition):
        self.partition = partition
        self.sources: dict[fx.Node, list[fx.Node]] = {}
        self.places: dict[fx.Node, tuple[Places, Places, Places]] = {}
        self.sizes: dict[fx.Node, tuple[int, int, int]] = {}
        self.own: dict[fx.Node, fx.Node] = {}
        self._ahead: dict[fx.Node, Layer] = {}
        self._inside: set[fx.Node] = set()

    def classify(self, node: fx.Node) -> bool:
        """Classify a product, or a view that takes part in one; False for all other nodes."""
        if node in self._ahead:
            self._declare(node, self._ahead.pop(node))
        elif node not in self._inside:
            return node.target in MULTIPLIERS and self._product(node)
        return True

    def _declare(self, node: fx.Node, layer: Layer) -> None:
        self.partition.layers[node] = layer
        self.partition.bases[node] = (node, False, shape_of(node))

    def _product(self, node: fx.Node) -> bool:
        partition, config = self.partition, self.partition.config
        if not config.matmul or node.name in partition.captured.mutated:
            return False
        try:
            (count, rows, inner), columns = self._matrices(node.args[0]), self._matrices(node.args[1])[2]
            extents = rows, inner, columns
            require(count > 0 and min(extents) > 0, f"{count} matrices of {rows}x{inner} and {inner}x{columns}")
            path, result = self._home(node)
            home = path[-1]
            require(home not in partition.hosted, partition.hosted.get(home, ""))
            require(
                max(extents) <= min(65535, config.max_reduction), f"matrices of {rows}x{inner} and {inner}x{columns}"
            )
            operands = self._operands(node)
        except Refused as refused:
            partition.reasons[node] = str(refused)
            return False
        if operands is None:
            return False
        (_, one), (_, other) = operands
        for root, _ in operands:
            if root in partition.repeated:
                partition.to_host(root)
        self.sources[home], self.places[home] = [root for root, _ in operands], (one, other, result)
        self.sizes[home], self.own[home] = extents, node
        self._inside.update(path[:-1])
        layer = Layer(Kind.PRODUCT, "", inner, rows, 1, columns, rows, 1)
        if home is node:
            self._declare(node, layer)
        else:
            self._ahead[home] = layer
        return True

    def _matrices(self, arg: Any) -> tuple[int, int, int]:
        """Number, rows and columns of an operand's matrices."""
        shape = shape_of(arg)
        rows, columns = shape[-2:]
        return prod(shape[:-2]), rows, columns

    def _operands(self, node: fx.Node) -> list[tuple[fx.Node, Places]] | None:
        """The value and the places of each operand; None if one is the host's business."""
        found: list[tuple[fx.Node, Places]] = []
        for number, arg in enumerate(node.args[:2]):
            operand = self._operand(arg)
            if operand is not None and number and found[0][1].across and operand[1].across:
                operand = self._written(arg)  # the machine has no product of two that are transposed
            if operand is None:
                return None
            require(
                operand[1].pitch <= LONGEST_PITCH,
                f"its rows lie {operand[1].pitch} values apart, more than {LONGEST_PITCH}",
            )
            found.append(operand)
        return found

    def _operand(self, arg: Any) -> tuple[fx.Node, Places] | None:
        traced = self._trace(arg)
        places = None
        if traced is not None:
            places = Places.of(traced[1].reshape(self._matrices(arg)).numpy())
        if traced is None or places is None or traced[0] in self.partition.captured.inputs:
            return self._written(arg)
        return traced[0], places

    def _written(self, arg: Any) -> tuple[fx.Node, Places] | None:
        """An arrangement of values that the host writes for a product."""
        require(arg not in self.partition.captured.inputs, READS_INPUT)
        if not self.partition.arranged(arg):
            return None
        count, rows, columns = self._matrices(arg)
        return arg, Places(tuple(range(0, count * rows * columns, rows * columns)), columns)

    def _trace(self, node: Any) -> tuple[fx.Node, Any] | None:
        """The value that a node is a view of, and the positions of its elements there."""
        partition = self.partition
        root, flat, shape = partition.bases.get(node, (None, True, ()))
        if root is not None and not flat:
            if not root.meta["val"].dtype.is_floating_point:
                return None
            value = Value("", shape)
            positions = value.from_memory(np.arange(prod(shape)).reshape(value.memory_shape))
            return root, torch.from_numpy(np.ascontiguousarray(positions)).reshape(shape_of(node))
        views = node.target in VIEWS or node.target is operator.getitem
        before = self._trace(node.args[0]) if views and node in partition.repeated else None
        if before is None:
            return None
        return before[0], _applied(node, before[1])

    def _home(self, node: fx.Node) -> tuple[list[fx.Node], Places]:
        """The nodes from a product to the view as which its result lies, and the places of the result's matrices."""
        _, rows, _ = self._matrices(node.args[0])
        columns = self._matrices(node.args[1])[2]
        elements = torch.arange(prod(shape_of(node))).reshape(shape_of(node))
        matrices = elements.numpy().reshape(-1, rows, columns)
        path, ended, at = [node], 1, node
        places = Places.of(matrices)
        assert places is not None
        while len(at.users) == 1 and (user := next(iter(at.users))).target in VIEWS:
            elements = _applied(user, elements)
            if not isinstance(elements, torch.Tensor) or elements.numel() != matrices.size:
                break
            path.append(user)
            at = user
            where = np.empty(matrices.size, np.int64)
            where[elements.numpy().ravel()] = np.arange(matrices.size)
            found = Places.of(where[matrices]) if len(shape_of(user)) != 4 else None
            if found is not None and not found.across and user.name not in self.partition.captured.mutated:
                places, ended = found, len(path)
        return path[:ended], places


def _applied(view: fx.Node, positions: Any) -> Any:
    """A view of positions; ``positions`` are a tuple where the operator before gave one."""
    given = positions.contiguous() if isinstance(positions, torch.Tensor) else positions
    target: Any = view.target
    return target(given, *view.args[1:], **view.kwargs)
