"""The cost of a batch, in multiply-accumulates of the layers whose weights can be predicted."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from ...algorithm.layers import PredictedWeight, predicted_weights
from ...algorithm.predictor import PredictorSettings
from ...spec.numerics import KERNEL
from ...spec.schedule import PREDICTING
from .dni import HIDDEN
from .ideas import IDEAS, gp_macs

__all__ = ["BatchCosts", "batch_costs"]


@dataclass(frozen=True)
class BatchCosts:
    """MACs of a batch's parts.

    ``forward``; ``data`` and ``weight``: backward to a layer's inputs, where they aren't the batch's own, and to its
    weights; ``predict``: the predictor's forward, for all layers; ``learn``: what training it takes beside that, to its
    weights and to its hidden values. ``guess``: forward of the networks of :mod:`.dni`. ``layers``: forward and data of
    each, in order. ``halved``: of a batch of plain training with halved images, where that is wanted.
    """

    forward: int
    data: int
    weight: int
    predict: int
    learn: int
    guess: int
    layers: tuple[tuple[int, int], ...]
    halved: int | None = None

    @property
    def bp(self) -> int:
        """Cost of a batch of plain training."""
        return self.forward + self.data + self.weight

    def of(self, phase: str, source: str) -> int:
        """Cost of a batch in ``phase`` ("warmup", "bp", "gp"), gradients of ``source``, "dni" or one of :mod:`.ideas`.

        Guessers learn from outputs that are cut off, so that their first layer has no gradient of its input. In GP
        batches ``last``, ``mean`` and ``zero`` are updates alone: no gradient needs what forward computes.
        """
        if source == "dni":
            return self.forward + self.weight + self.guess if phase == "gp" else self.bp + 5 * self.guess // 2
        if source == "coarse" and phase == "gp":
            assert self.halved is not None  # or it would cost nothing
            return self.halved
        if source in IDEAS:
            return gp_macs(source, self.layers) if phase == "gp" else self.bp
        predicts = source in PREDICTING
        if phase != "gp":
            return self.bp + (self.predict + self.learn if predicts else 0)
        return self.forward + self.predict if predicts else 0


def batch_costs(network: nn.Module, run: Callable[[nn.Module], object], settings: PredictorSettings) -> BatchCosts:
    """The costs of a batch as ``run`` gives it to the network."""
    weights = predicted_weights(network, set(network.parameters()))
    layers: dict[str, list[int]] = {weight.name: [0, 0] for weight in weights}
    guess = 0

    def count(weight):
        def seen(module, args, kwargs, result):
            nonlocal guess
            results = sum(y.numel() for y in weight.outputs(args, kwargs, result)) * _sentences(weight, result)
            layers[weight.name][0] += results * weight.elements
            layers[weight.name][1] += results * weight.elements * _is_inside(weight, (*args, *kwargs.values()))
            guess += 2 * results * HIDDEN

        return seen

    hooks = [weight.module.register_forward_hook(count(weight), with_kwargs=True) for weight in weights]
    training = network.training
    try:
        with torch.enable_grad():
            run(network.eval())
    finally:
        network.train(training)
        for hook in hooks:
            hook.remove()
    hidden = settings.channels * settings.windows**2
    conv = sum(len(w.weight) for w in weights) * KERNEL**2 * hidden
    linear = sum(w.weight.numel() for w in weights) * hidden
    macs, data = (sum(of[place] for of in layers.values()) for place in (0, 1))
    by_layer = tuple((forward, back) for forward, back in layers.values())
    return BatchCosts(macs, data, macs, conv + linear, conv + 2 * linear, guess, by_layer)


def _is_inside(weight: PredictedWeight, inputs: tuple) -> bool:
    """True if backward has to go on before the layer, whose input depends on weights."""
    if isinstance(weight.module, nn.MultiheadAttention) and weight.name.endswith("out_proj.weight"):
        return True
    return any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs)


def _sentences(weight: PredictedWeight, result) -> int:
    """The number of sentences that a layer's outputs are a mean of; attention's projections give the whole batch's."""
    module = weight.module
    if not isinstance(module, nn.MultiheadAttention) or weight.name.endswith("out_proj.weight"):
        return 1
    attended = result[0]
    return attended.shape[0 if module.batch_first else 1] if attended.dim() == 3 else 1
