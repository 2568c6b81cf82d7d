"""Networks whose modules don't compute what their types say, or share parameters: refused by the module's name."""

import pytest
import torch
import torch.nn.utils.prune
from adagp.host.compiler.lowering import LoweringError, lower
from adagp.spec.presets import preset
from torch import nn

TINY = preset("tiny")


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


class Called(nn.Sequential):
    def __call__(self, x):
        return -super().__call__(x)


def replaced():
    network = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    network[1].forward = torch.tanh
    return network


def hooked(register, place=0):
    network = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    getattr(network[place] if place is not None else network, register)(lambda *_: None)
    return network


def gradient_hooked():
    network = nn.Sequential(nn.Linear(4, 4))
    network[0].bias.register_hook(lambda gradient: -gradient)
    return network


def twice(part="module"):
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    if part == "module":
        return nn.Sequential(first, nn.ReLU(), first)
    setattr(second, part.split()[0], getattr(first, part.split()[0]))
    if "memory" in part:
        second.weight = nn.Parameter(first.weight.detach())
    return nn.Sequential(first, nn.ReLU(), second)


def half_frozen():
    network = nn.Sequential(nn.Linear(4, 4))
    network[0].bias.requires_grad_(False)
    return network


def inside(module):
    return nn.Sequential(nn.Sequential(nn.Linear(4, 4), module))


@pytest.mark.filterwarnings(
    "ignore:.*weight_norm. is deprecated", "ignore:Lazy modules are a new", "ignore:Complex modules are a new"
)
@pytest.mark.parametrize("make, message", (
    (lambda: Residual(nn.Linear(4, 4)), r"^the network \(Residual\): has a forward of its own, which can't be seen$"),
    (lambda: inside(Residual(nn.Linear(4, 4))), r"^0\.1 \(Residual\): has a forward of its own"),
    (lambda: Called(nn.Linear(4, 4)), r"^the network \(Called\): its forward or __call__ is replaced, which can't be"),
    (replaced, r"^1 \(ReLU\): its forward or __call__ is replaced, which can't be seen$"),
    (lambda: hooked("register_forward_hook"), r"^0 \(Linear\): has a forward hook, which isn't called: remove it$"),
    (lambda: hooked("register_forward_pre_hook", 1), r"^1 \(ReLU\): has a forward pre-hook, which isn't called"),
    (lambda: hooked("register_full_backward_hook", None), r"^the network \(Sequential\): has a backward hook, which"),
    (lambda: hooked("register_full_backward_pre_hook"), r"^0 \(Linear\): has a backward pre-hook, which isn't called"),
    (gradient_hooked, r"^0 \(Linear\): its bias has a gradient hook, which isn't called: remove it$"),
    (twice, r"^2 \(Linear\): shares its weight with 0, shared weights are not supported$"),
    (lambda: twice("weight"), r"^2 \(Linear\): shares its weight with 0, "),
    (lambda: twice("bias"), r"^2 \(Linear\): shares its bias with 0, "),
    (lambda: twice("weight memory"), r"^2 \(Linear\): shares its weight with 0, "),
    (half_frozen, r"^0 \(Linear\): only one of weight and bias is frozen, which isn't supported in a Sequential$"),
    *((lambda dtype=dtype: inside(nn.Linear(4, 4).to(dtype)),
       rf"^0\.1 \(Linear\): its weight is {str(dtype)[6:]}, only float32 and float64 are supported$")
      for dtype in (torch.float16, torch.bfloat16, torch.complex64)),
    (lambda: inside(nn.utils.weight_norm(nn.Linear(4, 4))),
     r"^0\.1 \(Linear\): its weight is computed from other tensors \(weight_norm, pruning, parametrize\): make it a"),
    (lambda: inside(nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))),
     r"^0\.1 \(ParametrizedLinear\): its weight is computed from other tensors"),
    (lambda: inside(nn.utils.prune.random_unstructured(nn.Linear(4, 4), "bias", 0.5)), r"its bias is computed from"),
    (lambda: nn.Sequential(nn.LazyLinear(3)),
     r"^0 \(LazyLinear\): has no weights yet: run one batch through the network first$"),
))  # fmt: skip
def test_networks_that_would_be_trained_as_others_are_refused(make, message):
    with pytest.raises(LoweringError, match=message) as error:
        lower(make(), (4,), TINY)
    assert "\n" not in str(error.value)


def test_float64_identity_and_subclasses_without_a_forward_are_understood():
    class Named(nn.Sequential):
        """A Sequential by another name."""

    network = Named(nn.Identity(), nn.Linear(4, 3), nn.Identity(), nn.ReLU(), nn.Linear(3, 2)).double()
    layers = lower(network, (4,), TINY)
    assert [(layer.name, layer.relu) for layer in layers] == [("1.Linear", True), ("4.Linear", False)]
    assert lower(nn.Sequential(nn.Flatten(), nn.Linear(8, 3)), (2, 2, 2), TINY)[0].name == "1.Linear"
