"""Any module's operators by torch.export, after checks of its modules and parameters."""

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn

from .lowering import LoweringError
from .module_checks import Refused, check_module, check_parameters

__all__ = ["Captured", "capture", "shape_of"]


@dataclass(frozen=True)
class Captured:
    """A module's operators in order, and what its placeholders stand for.

    ``parameters``, ``buffers`` and ``mutated`` map nodes' names to state-dict names, ``mutated`` those of nodes whose
    results are buffers' new values. ``constants`` are tensors by node's name that no state dict holds. ``inputs`` are
    the module's arguments, ``results`` the nodes that it returns, in order. ``frozen``: parameters that aren't trained.
    """

    nodes: tuple[fx.Node, ...]
    parameters: dict[str, str]
    buffers: dict[str, str]
    constants: dict[str, torch.Tensor]
    mutated: dict[str, str]
    inputs: tuple[fx.Node, ...]
    results: tuple[fx.Node, ...]
    frozen: frozenset[str]


def capture(module: nn.Module, args: tuple[Any, ...]) -> Captured:
    """The operators that ``module`` executes on ``args`` when it trains; raises LoweringError."""
    owners: dict[int, tuple[str, nn.Parameter]] = {}
    for name, part in module.named_modules(remove_duplicate=False):
        try:
            check_module(part)
            check_parameters(part, owners, name, shared=True)
        except Refused as refused:
            raise LoweringError(f"{name or 'the network'} ({type(part).__name__}): {refused}") from None
    modes = {part: part.training for part in module.modules()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(module.train(), args).run_decompositions({})
    except Exception as error:  # a forward of the user's: anything can happen
        raise LoweringError(_told(module, error)) from None
    finally:
        for part, training in modes.items():
            part.training = training
    return _captured(program, module)


def shape_of(node: Any) -> tuple[int, ...]:
    """The shape of a node's result."""
    return tuple(node.meta["val"].shape)


def _told(module: nn.Module, error: Exception) -> str:
    """One line on why a module can't be captured, with the path of the innermost module at fault."""
    paths = {part: name for name, part in module.named_modules()}
    where, trace = "", error.__traceback__
    while trace is not None:
        owner = trace.tb_frame.f_locals.get("self")
        if isinstance(owner, nn.Module) and owner in paths:
            where = paths[owner]
        trace = trace.tb_next
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "no reason given")
    kind = type(error).__name__
    if "DataDependent" in kind or "data-dependent" in text.lower():
        text = f"its control flow or a shape depends on data: {text}"
    return f"{where or 'the network'} can't be captured by torch.export: {kind}: {text}"


def _captured(program: torch.export.ExportedProgram, module: nn.Module) -> Captured:
    signature = program.graph_signature
    stored = {**signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
    constants = {node: program.constants[name] for node, name in stored.items() if name in program.constants}
    buffers = {node: name for node, name in signature.inputs_to_buffers.items() if node not in constants}
    by_name = {node.name: node for node in program.graph.nodes}
    for node in program.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, torch._ops.HigherOrderOperator):
            raise LoweringError(f"{path_of(node) or 'the network'}: {node.target.name()} isn't supported")
    results = tuple(_result(by_name.get(str(name)), number) for number, name in enumerate(signature.user_outputs))
    complexes = [node for node in program.graph.nodes if _is_complex(node)]
    if complexes:
        raise LoweringError(f"{path_of(complexes[0]) or 'the network'}: complex tensors aren't supported")
    parameters = dict(module.named_parameters(remove_duplicate=False))
    used = {id(parameters[name]) for node, name in signature.inputs_to_parameters.items() if by_name[node].users}
    unused = [name for name in signature.inputs_to_parameters.values() if id(parameters[name]) not in used]
    if unused:
        raise LoweringError(f"nothing uses the parameter {unused[0]}: remove it")
    inputs = tuple(by_name[name] for name in signature.user_inputs if isinstance(name, str) and name in by_name)
    return Captured(
        tuple(program.graph.nodes), dict(signature.inputs_to_parameters), buffers, constants,
        dict(signature.buffers_to_mutate), inputs, results,
        frozenset(name for name, parameter in parameters.items() if not parameter.requires_grad),
    )  # fmt: skip


def _result(node: fx.Node | None, number: int) -> fx.Node:
    """A node that the network returns, after checks."""
    where = "the network's result" + (f" {number}" if number else "")
    if node is None or node.op != "call_function":
        raise LoweringError(f"{where} must be a tensor that the network computes")
    if not node.meta["val"].dtype.is_floating_point:
        raise LoweringError(f"{where} is of {node.meta['val'].dtype}, and must be real")
    return node


def path_of(node: fx.Node) -> str:
    """Path of the innermost module that executes a node, as the network names it."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]) if stack else ""


def _is_complex(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_complex()
