"""Guards of a capture: torch.export drops gradients that a network stops, replaces or hooks, and some statistics."""

import contextlib
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx, nn

from .gradient_check import frames, innermost
from .lowering import LoweringError
from .module_checks import require

__all__ = ["check_operator", "check_statistics", "own_gradients_refused", "stop_gradients"]

_ATEN = torch.ops.aten
_GRAD_ENABLED = torch.ops.higher_order.wrap_with_set_grad_enabled
_HOOKS = ("register_hook", "register_post_accumulate_grad_hook")


def check_statistics(module: nn.Module) -> None:
    """Refuse running statistics that depend on the number of batches so far."""
    own = isinstance(module, nn.modules.batchnorm._BatchNorm) and module.track_running_stats
    require(not own or module.momentum is not None, "momentum = None isn't supported: give it a number")


def check_operator(node: fx.Node) -> None:
    """Refuse an operator that keeps statistics which a capture loses."""
    if node.target is _ATEN.instance_norm.default:
        lost = node.args[3] is not None and node.args[5]
        require(not lost, "instance_norm with running statistics isn't supported: track_running_stats must be False")


@contextlib.contextmanager
def own_gradients_refused(module: nn.Module) -> Iterator[None]:
    """Raise LoweringError when ``module`` calls a function with a backward pass of its own or hooks a gradient."""
    apply = vars(torch.autograd.Function)["apply"].__func__

    def where() -> str:
        return innermost(module, frames()) or "the network"

    def refuse_function(cls, *args, **kwargs):
        if cls.__module__.startswith("torch.") and not cls.__module__.startswith("torch.utils."):
            return apply(cls, *args, **kwargs)
        raise LoweringError(f"{where()}: the backward pass of {cls.__name__} (torch.autograd.Function) isn't supported")

    def refuse_hook(tensor, *args, **kwargs):
        raise LoweringError(f"{where()}: a hook on a tensor's gradient isn't called: remove it")

    changes: list[tuple[type, str, Any]] = [(torch.autograd.Function, "apply", classmethod(refuse_function))]
    changes += [(torch.Tensor, name, refuse_hook) for name in _HOOKS]
    before = [vars(owner).get(name) for owner, name, _ in changes]
    try:
        for owner, name, changed in changes:
            setattr(owner, name, changed)
        yield
    finally:
        for (owner, name, _), value in zip(changes, before, strict=True):
            delattr(owner, name) if value is None else setattr(owner, name, value)


def stop_gradients(program: torch.export.ExportedProgram, trained: set[str]) -> None:
    """Detach what is computed under torch.no_grad from the parameters ``trained``; decompositions forget the first."""
    named = program.graph_signature.inputs_to_parameters
    learning: set[fx.Node] = set()
    for node in program.graph.nodes:
        if named.get(node.name) in trained or learning.intersection(node.all_input_nodes):
            learning.add(node)
        if node.target is _GRAD_ENABLED and node in learning:
            _detach(program.graph_module, node, within=False)


def _detach(module: fx.GraphModule, node: fx.Node, within: bool) -> None:
    args: list[Any] = list(node.args)
    enabled, part = args[0], operator.attrgetter(str(args[1].target))(module)
    if enabled and within:
        raise LoweringError("torch.enable_grad within torch.no_grad isn't supported")
    for each in part.graph.nodes:
        if each.target is _GRAD_ENABLED:
            _detach(part, each, within or not enabled)
    if enabled:
        return
    (output,) = part.graph.find_nodes(op="output")

    def detached(result: fx.Node) -> fx.Node:
        if not isinstance(result.meta["val"], torch.Tensor) or not result.meta["val"].dtype.is_floating_point:
            return result
        with part.graph.inserting_before(output):
            made = part.graph.call_function(_ATEN.detach.default, (result,))
        made.meta = dict(result.meta)
        return made

    output.args = (fx.node.map_arg(output.args[0], detached),)
    part.recompile()
