"""Networks that can't be trained are refused in one line, which names the module at fault, and nothing is printed."""

import io
import sys
from dataclasses import replace

import pytest
import torch
from adagp.host.compiler.compiler import compile_network
from adagp.host.compiler.front_end import graph_of
from adagp.host.compiler.lowering import LoweringError
from adagp.host.compiler.memory_plan import PlanError
from adagp.spec.presets import preset
from torch import nn
from torch.nn import functional

TINY, SHAPE, BATCH = preset("tiny"), (3, 8, 8), 4


class Part(nn.Module):
    """Two convolutions, and a function of them and the input between them."""

    def __init__(self, between):
        super().__init__()
        self.between = between
        self.one, self.two = (nn.Conv2d(3, 3, 3, padding=1) for _ in range(2))

    def forward(self, x):
        return self.two(self.between(self.one(x)))


class Network(nn.Module):
    """The part is two levels down, and a convolution follows."""

    def __init__(self, between):
        super().__init__()
        self.block = nn.Sequential(nn.ReLU(), Part(between))
        self.head = nn.Conv2d(3, 2, 1)

    def forward(self, x):
        return self.head(self.block(x))


def straight_through(y):
    return y + (torch.round(y) - y).detach()


DEPENDS = r"^block\.1: its control flow or a shape depends on data, and both must be fixed$"
NO_WAY = r"^no gradient reaches the parameter block\.1\.one\.weight: block\.1: "
CASES = {
    "a branch by data": (lambda y: y if y.sum() > 0 else -y, DEPENDS),
    "a loop by data": (lambda y: sum(y * n for n in range(int(y.sum()))), DEPENDS),
    "a slice by data": (lambda y: y[: int(y.sum().item())], DEPENDS),
    "a mask that selects": (
        lambda y: y[y.sum((1, 2, 3)) > 0], r"^block\.1: the shape of index's result depends on data, and shapes must",
    ),
    "unique values": (
        lambda y: torch.unique(y).view(1, -1, 1, 1).expand(1, 3, 8, 8), r"^block\.1: .* depends on data",
    ),
    "a conditional": (
        lambda y: torch.cond(y.sum() > 0, torch.sin, torch.cos, (y,)), r"^block\.1: cond isn't supported",
    ),
    "no derivative": (lambda y: torch.heaviside(y, y), r"^block\.1: PyTorch has no gradient of heaviside$"),
    "integers": (lambda y: (4 * y).int().float(), NO_WAY + "int passes none on$"),
    "indices": (
        lambda y: functional.one_hot(y.argmax(1), 3).permute(0, 3, 1, 2).float(), NO_WAY + "argmax passes none on$",
    ),
    "detached": (lambda y: y.detach(), NO_WAY + "detach passes none on$"),
    "complex": (lambda y: torch.fft.fft2(y).abs(), r"^block\.1: complex tensors aren't supported$"),
    "shapes that don't fit": (lambda y: y @ torch.zeros(5, 8), r"^block\.1 can't be captured by .* from a batch "),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refusals_name_the_module(case, capsys, caplog):
    between, message = CASES[case]
    with pytest.raises(LoweringError, match=message) as caught:
        graph_of(Network(between), SHAPE, BATCH, TINY)
    assert "\n" not in str(caught.value)
    assert capsys.readouterr() == ("", "")
    assert not [record for record in caplog.records if record.levelname != "DEBUG"]


def test_what_capturing_prints_elsewhere_is_left(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with pytest.raises(LoweringError):
        graph_of(Network(CASES["a branch by data"][0]), SHAPE, BATCH, TINY)
    print("later", file=sys.stderr)
    assert stream.getvalue() == "later\n"


class Result(nn.Module):
    """A convolution without a gradient, or one with a result of another type."""

    def __init__(self, forward):
        super().__init__()
        self.one, self.function = nn.Conv2d(3, 3, 3, padding=1), forward

    def forward(self, x):
        return self.function(self, x)


@pytest.mark.parametrize(("forward", "message"), [
    (lambda m, x: m.one(x).int(), r"^part: to_copy gives the network's result as torch\.int32, and it must be real$"),
    (lambda m, x: m.one(x).argmax(1), r"^part: argmax gives the network's result as torch\.int64, and it must be real"),
    (
        lambda m, x: torch.no_grad()(m.one)(x) + x,
        r"^no gradient reaches the parameter part\.one\.weight: part\.one: conv2d passes none on$",
    ),
])  # fmt: skip
def test_results(forward, message):
    outer = nn.Sequential()
    outer.add_module("part", Result(forward))
    with pytest.raises(LoweringError, match=message):
        graph_of(outer, SHAPE, BATCH, TINY)


@pytest.mark.parametrize("between", [torch.relu, torch.detach])
def test_frozen_parameters_are_no_mistake(between):
    module = Network(between)
    for parameter in module.block[1].one.parameters():
        parameter.requires_grad_(False)
    graph = graph_of(module, SHAPE, BATCH, TINY)
    assert {name for node in graph.nodes for name in node.parameters if "two.weight" in name} == {"block.1.two.weight"}


def test_gradients_that_go_another_way_are_no_mistake():
    graph = graph_of(Network(straight_through), SHAPE, BATCH, TINY)
    assert [layer.name for layer in graph.layers if layer.parameters[0]] == [
        "block.1.one.Conv2d",
        "block.1.two.Conv2d",
        "head.Conv2d",
    ]


def test_the_check_leaves_weights_statistics_and_random_numbers_as_they_are():
    module = nn.Sequential(nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3), nn.Dropout())
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    graph_of(module, SHAPE, BATCH, TINY)
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert all(parameter.grad is None for parameter in module.parameters())


def test_a_network_too_large_for_the_memory_says_what_it_needs_and_which_batch_fits():
    module = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 8, 3))
    small = replace(TINY, n_tensors=128, dram=replace(TINY.dram, capacity_bytes=1 << 18))

    def plan(batch, config=small):
        return compile_network(graph_of(module, (3, 16, 16), batch, config), batch, config).plan

    with pytest.raises(
        PlanError, match=r"^network needs (\S+) MiB at batch 64, .* has 0\.2 MiB \(a batch of about"
    ) as caught:
        plan(64)
    text = str(caught.value)
    needed, fits = float(text.split()[2]), int(text.partition("about ")[2].split()[0])
    roomy = replace(small, dram=TINY.dram)
    assert abs(needed - plan(64, roomy).n_bytes / (1 << 20)) <= 0.05  # nothing of it can share memory
    assert 1 < fits < 64 and plan(fits).n_bytes <= 1 << 18
    with pytest.raises(PlanError):
        plan(2 * fits)
