"""The weights whose gradients can be predicted, and the outputs from which the predictor works."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .reorganise import channels_first, joined, reorganise

__all__ = ["PredictedWeight", "frozen_parameters", "predicted_weights"]

Outputs = Callable[[tuple, Mapping, Any], list[Tensor]]
"""Function from a call's arguments, keyword arguments and result to outputs [batch, channels, *places]. Their channels,
one after the other, are the weight's filters."""


@dataclass(frozen=True)
class PredictedWeight:
    """A weight [filters, ...] of ``module``, with the function that gives its filters' outputs."""

    name: str
    module: nn.Module
    weight: nn.Parameter
    outputs: Outputs

    @property
    def elements(self) -> int:
        """Number of weights in a filter."""
        return self.weight[0].numel()

    def reorganised(self, args: tuple, kwargs: Mapping, result, windows: int) -> Tensor:
        """Reorganised output [filters, windows, windows] of a call, see :func:`.reorganise.reorganise`."""
        return joined([reorganise(output, windows) for output in self.outputs(args, kwargs, result)])


def _conv(args, kwargs, result) -> list[Tensor]:
    return [result if result.dim() == 4 else result.unsqueeze(0)]


def _linear(args, kwargs, result) -> list[Tensor]:
    return [channels_first(result)]


def _linear_of_sequences(args, kwargs, result) -> list[Tensor]:
    """Outputs of a result [tokens, batch, channels], the default inside of Transformer layers."""
    return [channels_first(result.transpose(0, 1) if result.dim() == 3 else result)]


def _attention(module: nn.MultiheadAttention) -> Iterator[tuple[str, Outputs]]:
    """The projections of an attention, which are no modules.

    The outputs of the projections of query, key and value can't be seen. Their mean is the output for the mean input.
    """

    def batched(x):
        x = x if x.dim() == 3 else x.unsqueeze(0)
        return x if module.batch_first or x.dim() < 3 else x.transpose(0, 1)

    def projected(number, weight, args, kwargs):
        """Output of the projection of the mean query, key or value."""
        inputs = (*args, *(kwargs[name] for name in ("query", "key", "value")[len(args) :]))
        mean = batched(inputs[number]).detach().mean(0, keepdim=True, dtype=torch.float32)
        size, bias = module.embed_dim, module.in_proj_bias
        offset = None if bias is None else bias[number * size : (number + 1) * size].float()
        return channels_first(F.linear(mean, weight.float(), offset))

    def merged(args, kwargs, result):
        weights = module.in_proj_weight.chunk(3)
        return [projected(number, weight, args, kwargs) for number, weight in enumerate(weights)]

    def separate(number, name):
        return lambda args, kwargs, result: [projected(number, module.get_parameter(name), args, kwargs)]

    if module.in_proj_weight is not None:
        yield "in_proj_weight", merged
    else:
        for number, name in enumerate(("q_proj_weight", "k_proj_weight", "v_proj_weight")):
            yield name, separate(number, name)
    yield "out_proj.weight", lambda args, kwargs, result: [channels_first(batched(result[0]))]


def _tokens_first(network: nn.Module) -> set[int]:
    """Linear layers of PyTorch's Transformer layers without ``batch_first``, by id."""
    layers = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
    found = (m for m in network.modules() if isinstance(m, layers) and not m.self_attn.batch_first)
    return {id(part) for layer in found for part in (layer.linear1, layer.linear2)}


def _of(module: nn.Module, tokens_first: bool) -> Iterator[tuple[str, Outputs]]:
    """Paths of a module's own weights, and their outputs."""
    if isinstance(module, nn.MultiheadAttention):
        yield from _attention(module)
    elif isinstance(module, nn.Conv2d):
        yield "weight", _conv
    elif isinstance(module, nn.Linear):
        yield "weight", _linear_of_sequences if tokens_first else _linear


def predicted_weights(network: nn.Module, trained: set[nn.Parameter]) -> list[PredictedWeight]:
    """All weights of ``network`` that are in ``trained`` and can be predicted, each once, by name in order.

    Conv2d with any groups, Linear, the projections of MultiheadAttention. The first dimension of a Linear's output is
    taken as the batch; in PyTorch's Transformer layers without ``batch_first`` the second is. A weight that several
    modules share is named after the first; all of them give outputs for it.
    """
    inside = {id(child.out_proj) for child in network.modules() if isinstance(child, nn.MultiheadAttention)}
    tokens_first = _tokens_first(network)
    names: dict[nn.Parameter, str] = {}
    found = []
    for path, module in network.named_modules():
        if id(module) in inside:
            continue
        parameters = dict(module.named_parameters(remove_duplicate=False))  # a weight that is made of others is none
        for part, outputs in _of(module, id(module) in tokens_first):
            weight = parameters.get(part)
            if weight is not None and weight in trained and weight.requires_grad and weight.numel():
                name = names.setdefault(weight, f"{path}.{part}".lstrip("."))
                found.append(PredictedWeight(name, module, weight, outputs))
    return found


def frozen_parameters(network: nn.Module, trained: set[nn.Parameter], predicted: set[nn.Parameter]) -> list[str]:
    """Names of the parameters that only BP batches train."""
    return [name for name, p in network.named_parameters() if p in trained and p.requires_grad and p not in predicted]
