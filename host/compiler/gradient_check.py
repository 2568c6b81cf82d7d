"""Checks that training reaches every parameter of a module: autograd goes through it once, without numbers."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from .module_checks import require

__all__ = ["check_gradients", "frames", "innermost"]


def innermost(module: nn.Module, frames: list[FrameType]) -> str:
    """Path of the last part of a module that is ``self`` in one of the frames; "" for the module itself."""
    paths = {part: name for name, part in module.named_modules()}
    owners = [owner for frame in frames if isinstance(owner := frame.f_locals.get("self"), nn.Module)]
    return next((paths[owner] for owner in reversed(owners) if owner in paths), "")


def check_gradients(module: nn.Module, args: tuple[Any, ...]) -> None:
    """Refuse a module with a parameter that no result's gradient reaches, and name the operator that ends it.

    Frozen parameters need none.
    """
    fake, watch = FakeTensorMode(allow_non_fake_inputs=True), _Watch(module)
    state = {name: _like(fake, tensor, False) for name, tensor in module.named_buffers()}
    named = {name: _like(fake, each, each.requires_grad) for name, each in module.named_parameters()}
    with _restored(module), fake, torch.enable_grad(), torch.random.fork_rng(devices=[]):
        inputs = tuple(_like(fake, value, False) if isinstance(value, torch.Tensor) else value for value in args)
        with watch:
            results = _tensors(torch.func.functional_call(module, state | named, inputs))
        require(not watch.missing, watch.missing)
        trained = {name: parameter for name, parameter in named.items() if parameter.requires_grad}
        sums = [result.sum() for result in results if result.requires_grad]
        found: Sequence[torch.Tensor | None] = [None] * len(trained)
        if sums and trained:
            found = torch.autograd.grad(sums, list(trained.values()), allow_unused=True)
    lost = next((name for name, gradient in zip(trained, found, strict=True) if gradient is None), None)
    require(lost is None, f"no gradient reaches the parameter {lost}{watch.reason}")


@contextlib.contextmanager
def _restored(module: nn.Module) -> Iterator[None]:
    """Put parameters and buffers back; functional_call leaves fake ones in a module that has two names."""
    before = [(part, dict(part._parameters), dict(part._buffers)) for part in module.modules()]
    try:
        yield
    finally:
        for part, parameters, buffers in before:
            part._parameters.update(parameters)
            part._buffers.update(buffers)


def _like(fake: FakeTensorMode, tensor: torch.Tensor, grad: bool) -> torch.Tensor:
    return fake.from_tensor(tensor.detach()).requires_grad_(grad)


class _Watch(TorchFunctionMode):
    """Notes the first operator without a derivative, and the first whose result isn't differentiable any more."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self._module, self.reason, self.missing = module, "", ""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if not self.missing and any(_missing(tensor) for tensor in _tensors(result)):
            self.missing = f"{self._where()}: PyTorch has no gradient of {_name(function)}"
        if not self.reason and _needs(args) and not _needs(result) and _real(result):
            self.reason = f": {self._where()}: {_name(function)} passes none on"
        return result

    def _where(self) -> str:
        return innermost(self._module, frames()) or "the network"


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", function))


def _missing(tensor: torch.Tensor) -> bool:
    return type(tensor.grad_fn).__name__ == "NotImplemented"


def _tensors(values: Any) -> list[torch.Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]


def _needs(values: Any) -> bool:
    return any(tensor.requires_grad for tensor in _tensors(values))


def _real(values: Any) -> bool:
    """True for tensors other than masks."""
    return any(tensor.dtype is not torch.bool for tensor in _tensors(values))


def frames() -> list[FrameType]:
    """The frames that are being executed, the outermost first."""
    found: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found[::-1]
