"""Any module's operators by torch.export, after checks of its modules and parameters."""

import contextlib
import io
import logging
import operator
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn

from .capture_guards import check_operator, check_statistics, own_gradients_refused, stop_gradients
from .decompositions import DECOMPOSITIONS
from .gradient_check import check_gradients, innermost
from .lowering import LoweringError
from .module_checks import Refused, check_module, check_parameters

__all__ = ["Captured", "capture", "capture_evaluation", "operator_of", "path_of", "shape_of"]


@dataclass(frozen=True)
class Captured:
    """A module's operators in order, and what its placeholders stand for.

    ``parameters``, ``buffers`` and ``mutated`` map nodes' names to state-dict names, ``mutated`` those of nodes whose
    results are buffers' new values. ``constants`` are tensors by node's name that no state dict holds. ``inputs`` are
    the module's arguments, ``results`` the nodes that it returns, in order. ``frozen``: parameters that aren't trained.
    ``unused``: parameters that no operator reads.
    """

    nodes: tuple[fx.Node, ...]
    parameters: dict[str, str]
    buffers: dict[str, str]
    constants: dict[str, torch.Tensor]
    mutated: dict[str, str]
    inputs: tuple[fx.Node, ...]
    results: tuple[fx.Node, ...]
    frozen: frozenset[str]
    unused: frozenset[str] = frozenset()

    def describe(self) -> str:
        """One line an operator: the module that executes it, its operands and its results' shapes."""
        names, lines = {**self.parameters, **self.buffers}, []
        for node in self.nodes:
            if node.target is operator.getitem:
                (source,) = node.all_input_nodes
                names[node.name] = f"{source.name}[{node.args[1]}]"
            elif node.op == "call_function":
                operands = ", ".join(names.get(each.name, each.name) for each in node.all_input_nodes)
                shapes = " ".join(str(list(tensor.shape)) for tensor in _results(node))
                where = path_of(node) or "the network"
                lines.append(f"{where}: {node.name} = {operator_of(node)}({operands}) -> {shapes}")
        return "\n".join(lines)


def capture(module: nn.Module, args: tuple[Any, ...], products: bool = False) -> Captured:
    """The operators that ``module`` executes on ``args`` when it trains; raises LoweringError.

    Parts in evaluation mode of a module in training mode stay in evaluation mode. With ``products``, attention is
    captured as the products and the softmax that it consists of.
    """
    owners: dict[int, tuple[str, nn.Parameter]] = {}
    for name, part in module.named_modules(remove_duplicate=False):
        try:
            check_module(part)
            check_statistics(part)
            check_parameters(part, owners, name, shared=True)
        except Refused as refused:
            raise LoweringError(f"{name or 'the network'} ({type(part).__name__}): {refused}") from None
    return _exported(module, args, training=True, products=products)


def capture_evaluation(module: nn.Module, args: tuple[Any, ...], products: bool = False) -> Captured:
    """The operators that a module which :func:`capture` takes executes in evaluation; raises LoweringError."""
    try:
        return _exported(module, args, training=False, products=products)
    except LoweringError as refused:
        raise LoweringError(f"in evaluation, {refused}") from None


def _exported(module: nn.Module, args: tuple[Any, ...], training: bool, products: bool) -> Captured:
    modes = {part: part.training for part in module.modules()}
    fixed = [part for part, mode in modes.items() if module.training and not mode]
    trained = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
    try:
        module.train(training)
        for part in fixed:
            part.training = False
        with own_gradients_refused(module):
            with _quiet():
                program = torch.export.export(module, args)
                stop_gradients(program, trained)
                program = program.run_decompositions(DECOMPOSITIONS if products else {})
            captured = _captured(program, module)
            if training:
                unused = next((name for name in captured.parameters.values() if name in captured.unused), None)
                if unused is not None:
                    raise LoweringError(f"nothing uses the parameter {unused}: remove it")
                check_gradients(module, args)
    except LoweringError:
        raise
    except Refused as refused:
        raise LoweringError(str(refused)) from None
    except Exception as error:  # a forward of the user's: anything can happen
        raise LoweringError(_told(module, args, error)) from None
    finally:
        for part, mode in modes.items():
            part.training = mode
    return captured


def shape_of(node: Any) -> tuple[int, ...]:
    """The shape of a node's result."""
    return tuple(node.meta["val"].shape)


def _told(module: nn.Module, args: tuple[Any, ...], error: Exception) -> str:
    """One line on why a module can't be captured, with the path of the innermost module at fault."""
    frames, trace = [], error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    where = innermost(module, frames)
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "no reason given")
    kind = type(error).__name__
    if "DataDependent" in kind or "data-dependent" in text.lower():
        return f"{where or 'the network'}: its control flow or a shape depends on data, and both must be fixed"
    shapes = ", ".join(str(list(each.shape)) for each in args if isinstance(each, torch.Tensor))
    return f"{where or 'the network'} can't be captured by torch.export from a batch {shapes}: {kind}: {text}"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch.export from printing; what it raises says the same."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _captured(program: torch.export.ExportedProgram, module: nn.Module) -> Captured:
    signature = program.graph_signature
    stored = {**signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
    constants = {node: program.constants[name] for node, name in stored.items() if name in program.constants}
    buffers = {node: name for node, name in signature.inputs_to_buffers.items() if node not in constants}
    by_name = {node.name: node for node in program.graph.nodes}
    for node in program.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, torch._ops.HigherOrderOperator):
            raise LoweringError(f"{path_of(node) or 'the network'}: {node.target.name()} isn't supported")
        if node.op == "call_function":
            try:
                check_operator(node)
            except Refused as refused:
                raise LoweringError(f"{path_of(node) or 'the network'}: {refused}") from None
        if any(not isinstance(extent, int) for tensor in _results(node) for extent in tensor.shape):
            where = path_of(node) or "the network"
            raise LoweringError(
                f"{where}: the shape of {operator_of(node)}'s result depends on data, and shapes must be fixed"
            )
    complexes = [node for node in program.graph.nodes if any(tensor.is_complex() for tensor in _results(node))]
    if complexes:
        raise LoweringError(f"{path_of(complexes[0]) or 'the network'}: complex tensors aren't supported")
    results = tuple(_result(by_name.get(str(name)), number) for number, name in enumerate(signature.user_outputs))
    parameters = dict(module.named_parameters(remove_duplicate=False))
    used = {id(parameters[name]) for node, name in signature.inputs_to_parameters.items() if by_name[node].users}
    unused = [name for name in signature.inputs_to_parameters.values() if id(parameters[name]) not in used]
    for name, parameter in signature.parameters_to_mutate.items():
        maker = f"{path_of(by_name[name]) or 'the network'}: {operator_of(by_name[name])}"
        raise LoweringError(f"{maker} changes the parameter {parameter} in the forward pass, which isn't supported")
    inputs = tuple(by_name[name] for name in signature.user_inputs if isinstance(name, str) and name in by_name)
    return Captured(
        tuple(program.graph.nodes), dict(signature.inputs_to_parameters), buffers, constants,
        dict(signature.buffers_to_mutate), inputs, results,
        frozenset(name for name, parameter in parameters.items() if not parameter.requires_grad), frozenset(unused),
    )  # fmt: skip


def _result(node: fx.Node | None, number: int) -> fx.Node:
    """A node that the network returns, after checks."""
    where = "the network's result" + (f" {number}" if number else "")
    if node is None or node.op != "call_function":
        raise LoweringError(f"{where} must be a tensor that the network computes")
    if not node.meta["val"].dtype.is_floating_point:
        maker = f"{path_of(node) or 'the network'}: {operator_of(node)}"
        raise LoweringError(f"{maker} gives {where} as {node.meta['val'].dtype}, and it must be real")
    return node


def path_of(node: fx.Node) -> str:
    """Path of the innermost module that executes a node, as the network names it."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]) if stack else ""


def _results(node: fx.Node) -> list[torch.Tensor]:
    """The tensors that a node gives, without numbers."""
    value = node.meta.get("val")
    return [each for each in (value if isinstance(value, (tuple, list)) else [value]) if isinstance(each, torch.Tensor)]


def operator_of(node: fx.Node) -> str:
    """Name of a node's operator as a user knows it: ``batch_norm`` for ``_native_batch_norm_legit_functional``."""
    name = str(getattr(node.target, "_opname", node.name)).strip("_")
    return name.removeprefix("native_").removesuffix("_functional").removesuffix("_legit")
