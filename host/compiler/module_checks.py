"""Checks that a module computes the function its type is known for, with parameters of its own."""

import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.utils import parametrize

__all__ = ["READS_INPUT", "Refused", "check_module", "check_parameters", "check_used", "is_depthwise", "require"]

MOST_GROUPS = 256
"""Groups of a convolution at most that the machine computes: each takes commands of its own."""

READS_INPUT = "it reads the network's input, which must go through a convolution, linear layer, pool or ReLU first"
"""The reason for operators that can't read the ring of inputs, which only operand A of some commands can."""

HOOKS = {
    "_forward_hooks": "forward hook", "_forward_pre_hooks": "forward pre-hook",
    "_backward_hooks": "backward hook", "_backward_pre_hooks": "backward pre-hook",
}  # fmt: skip
"""Kinds of hooks by the attribute in which a module keeps them."""
DTYPES = (torch.float32, torch.float64)
MADE = "its {} is computed from other tensors (weight_norm, pruning, parametrize): make it a plain parameter first"


class Refused(Exception):
    """The reason why a module can't be lowered, from code that doesn't know the module's name."""


def require(ok: bool, reason: str) -> None:
    """Raise :class:`Refused` with the reason unless ``ok``."""
    if not ok:
        raise Refused(reason)


def is_depthwise(groups: int, channels: int, filters: int) -> bool:
    """True if each channel of a convolution has one filter of its own; refuses more other groups than MOST_GROUPS."""
    alone = groups == channels == filters > 1
    require(alone or groups <= MOST_GROUPS, f"groups = {groups}, more than {MOST_GROUPS}")
    return alone


def check_module(module: nn.Module) -> None:
    """Refuse a module whose call does something else than its type's ``forward``, or that has no weights yet."""
    require(not isinstance(module, LazyModuleMixin), "has no weights yet: run one batch through the network first")
    for name in ("weight", "bias"):
        made = parametrize.is_parametrized(module, name) or isinstance(vars(module).get(name), torch.Tensor)
        require(not made, MADE.format(name))
    if isinstance(module, nn.Sequential):
        require(type(module).forward is nn.Sequential.forward, "has a forward of its own, which can't be seen")
    called = isinstance(module, nn.ParameterList | nn.ParameterDict) or type(module).__call__ is nn.Module.__call__
    require(called and "forward" not in vars(module), "its forward or __call__ is replaced, which can't be seen")
    for attribute, kind in HOOKS.items():
        require(not getattr(module, attribute), f"has a {kind}, which isn't called: remove it")


def check_parameters(
    module: nn.Module, owners: dict[int, tuple[str, nn.Parameter]], name: str, shared: bool = False
) -> None:
    """Refuse parameters that aren't real floats, of the earlier modules' type, or are hooked, or that one of them has.

    ``owners``: names of earlier modules and their parameters by the place in memory; this module's are added.
    ``shared``: modules may have the same parameter, but not two parameters in the same memory.
    """
    for part, parameter in module.named_parameters(recurse=False):
        dtype = str(parameter.dtype).removeprefix("torch.")
        require(parameter.dtype in DTYPES, f"its {part} is {dtype}, only float32 and float64 are supported")
        require(parameter.numel() > 0, f"its {part} has no elements")
        require(not parameter._backward_hooks, f"its {part} has a gradient hook, which isn't called: remove it")
        before, earlier = next(iter(owners.values()), (name, parameter))
        require(
            earlier.dtype == parameter.dtype,
            f"its {part} is {dtype}, and parameters of {before} are {str(earlier.dtype).removeprefix('torch.')}:"
            " all must have one type",
        )
        place = parameter.data_ptr() or id(parameter)
        first, other = owners.setdefault(place, (name, parameter))
        same = shared and other is parameter
        require(first == name or same, f"shares its {part} with {first}, shared weights are not supported")


def check_used(module: nn.Module) -> None:
    """Raise Refused if a Sequential or a layer of one has parameters or modules that its own forward doesn't use."""
    chain = isinstance(module, nn.Sequential)
    used = () if chain else ("weight", "bias")
    more = [part for part, _ in module.named_parameters(recurse=False) if part not in used]
    require(not more, f"nothing uses its parameter {', '.join(more)}: remove it")
    inner = [] if chain else [part for part, _ in module.named_children()]
    require(not inner, f"nothing calls its module {', '.join(inner)}: remove it")
