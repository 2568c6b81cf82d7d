"""Losses on the host, in float64: softmax cross-entropy, and any function of torch."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ..islands.runtime import fixed_threads

__all__ = ["Loss", "loss_and_gradients", "softmax_cross_entropy"]

Loss = Callable[..., torch.Tensor]
"""A loss of a network's results, which are tensors of float64, and then of a batch's targets, whatever they are."""


def loss_and_gradients(loss: Loss, results: Sequence[np.ndarray], *targets: Any) -> tuple[float, list[np.ndarray]]:
    """The loss of a batch, and its gradient by each result; those that it doesn't depend on have zeros."""
    given = [torch.from_numpy(np.asarray(result, np.float64)).requires_grad_() for result in results]
    with fixed_threads():
        value = loss(*given, *targets)
        if value.numel() != 1:
            raise ValueError(f"a loss must be one number, not a tensor of the shape {tuple(value.shape)}")
        found = torch.autograd.grad(value, given, allow_unused=True, materialize_grads=True)
    return float(value.detach()), [gradient.numpy() for gradient in found]


def softmax_cross_entropy(logits_NK: np.ndarray, labels_N: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean loss over the batch and its gradient with respect to the logits, [N, K]."""
    logits_NK = np.asarray(logits_NK, np.float64)
    shifted_NK = logits_NK - logits_NK.max(axis=1, keepdims=True)
    exp_NK = np.exp(shifted_NK)
    sum_N = exp_NK.sum(axis=1)
    rows = np.arange(len(labels_N))
    loss = float(np.mean(np.log(sum_N) - shifted_NK[rows, labels_N]))
    gradient_NK = exp_NK / sum_N[:, None]
    gradient_NK[rows, labels_N] -= 1
    return loss, gradient_NK / len(labels_N)
