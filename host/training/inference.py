"""Inference on a device: logits of images, and the loss and accuracy of a network over them."""

import numpy as np

from ...spec.phases import EVALUATION
from ..devices.device import Device
from .loss import softmax_cross_entropy
from .network import Network

__all__ = ["evaluate", "predict"]


def predict(network: Network, device: Device, x_NCHW: np.ndarray) -> np.ndarray:
    """Logits [N, classes] of any number of images; the last batch is filled up with its own images."""
    parts = []
    for start in range(0, len(x_NCHW), network.batch):
        part = x_NCHW[start : start + network.batch]
        network.write_input(device, np.resize(part, (network.batch, *part.shape[1:])))
        network.start(device, EVALUATION)
        network.wait(device)
        logits = []
        for _ in range(network.passes):
            logits.append(network.read_logits(device))
            device.resume()
            network.wait(device)
        parts.append(np.concatenate(logits)[: len(part)])
    return np.concatenate(parts)


def evaluate(network: Network, device: Device, x_NCHW: np.ndarray, y_N: np.ndarray) -> tuple[float, float]:
    """Mean loss and accuracy over a set of images."""
    logits_NK = predict(network, device, x_NCHW)
    loss, _ = softmax_cross_entropy(logits_NK, y_N)
    return loss, float(np.mean(logits_NK.argmax(axis=1) == y_N))
