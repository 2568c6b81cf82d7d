"""A host island put by hand between two layers of a chain, for tests of the run time without the compiler's own."""

from dataclasses import replace
from itertools import count

import torch
from adagp.host.compiler import compiler
from adagp.host.compiler.ir import BACKPROPAGATION, Step
from adagp.host.compiler.islands import Island, Stop
from adagp.host.compiler.tensors import Tensor
from adagp.host.compiler.values import Value
from adagp.host.training import network
from adagp.spec.commands import Opcode, Phase
from torch import nn

__all__ = ["NormReLU", "put_island"]

MODULE = "norm"


class NormReLU(nn.Module):
    """Two convolutions with batch norm, dropout and ReLU between them, whose device layers are a Sequential."""

    def __init__(self, channels, n_classes, dropout=0.0, size=4):
        super().__init__()
        self.first = nn.Conv2d(channels, 6, 3, padding=1)
        self.norm, self.dropout = nn.BatchNorm2d(6), dropout
        self.second = nn.Conv2d(6, n_classes, size)

    def forward(self, x):
        x = nn.functional.relu(self.norm(self.first(x)))
        return self.second(nn.functional.dropout(x, self.dropout, self.training)).flatten(1)


def function(module):
    """The island's computation as the compiler would give it."""

    def compute(parameters, buffers, inputs, *, training, seed):
        mean, variance = buffers[f"{MODULE}.running_mean"], buffers[f"{MODULE}.running_var"]
        y = nn.functional.batch_norm(
            inputs[0], mean, variance, parameters[f"{MODULE}.weight"], parameters[f"{MODULE}.bias"], training
        ).relu()
        if training and module.dropout:
            keep = torch.rand(y.shape, generator=torch.Generator().manual_seed(seed)) >= module.dropout
            y = y * keep / (1 - module.dropout)
        batches = buffers[f"{MODULE}.num_batches_tracked"] + 1
        moved = {f"{MODULE}.running_mean": mean, f"{MODULE}.running_var": variance}
        return [y], {**moved, f"{MODULE}.num_batches_tracked": batches} if training else {}

    return compute


def put_island(monkeypatch, module, image, batch):
    """Make networks of ``module``, a NormReLU, have an island between its convolutions."""
    result, gradient = f"{MODULE}.output", f"{MODULE}.input_gradient"
    before, after = "first.Conv2d", "second.Conv2d"
    value, shape = f"{before}.output", (batch, 6, *image[1:])
    island = Island(
        MODULE, ("aten.batch_norm", "aten.relu"), (value,), (result,), (f"{MODULE}.weight", f"{MODULE}.bias"),
        tuple(f"{MODULE}.{name}" for name in ("running_mean", "running_var", "num_batches_tracked")), function(module),
    )  # fmt: skip
    steps_of, tensors_of, compile_of, lower_of = (
        compiler.batch_steps, compiler._tensors, network.compile_network, network.lower,
    )  # fmt: skip

    def lower(_, shape, config):
        names = nn.Sequential()
        names.add_module("first", module.first)
        names.add_module("second", module.second)
        return lower_of(names, shape, config)

    def steps(layers, source):
        seen = 0
        for step in steps_of(layers, source):
            own = layers[step.layer].name
            renamed = {value: result} if own == after else {f"{before}.gradient": gradient} if own == before else {}
            step = replace(step, operands={key: renamed.get(name, name) for key, name in step.operands.items()})
            if seen == 0 and step.layer == 1:
                yield Step(Opcode.HOST, Phase.ALL)
                seen += 1
            if seen == 1 and gradient in step.operands.values():
                yield Step(Opcode.HOST, BACKPROPAGATION)
                seen += 1
            yield step
        assert seen == 2

    def tensors(layers, batch, config):
        found = list(tensors_of(layers, batch, config))
        operand = next(tensor.dtype for _, tensor in found)
        numbers = count(1 + max(tensor.number for _, tensor in found))
        n, c, h, w = shape
        return [*found, *(("activations", Tensor(name, (n, h, w, c), operand, next(numbers))) for name in (
            result, gradient,
        ))]  # fmt: skip

    def compiled(layers, batch, config, ring_entries=1, source=None):
        made = compile_of(layers, batch, config, ring_entries, source)
        loss = Phase.ALL & ~Phase.GP if source is not None else Phase.ALL
        stops = (
            Stop("forward", island, Phase.ALL, (value,), (result,)),
            Stop("loss", None, loss),
            Stop("backward", island, BACKPROPAGATION, (f"{before}.gradient",), (gradient,)),
        )
        values = {name: Value(name, shape) for name in (value, result)}
        return replace(made, stops=stops, values=values)

    monkeypatch.setattr(compiler, "batch_steps", steps)
    monkeypatch.setattr(compiler, "_tensors", tensors)
    monkeypatch.setattr(network, "lower", lower)
    monkeypatch.setattr(network, "compile_network", compiled)
