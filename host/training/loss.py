"""Softmax cross-entropy on the host, in float64."""

import numpy as np

__all__ = ["softmax_cross_entropy"]


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
