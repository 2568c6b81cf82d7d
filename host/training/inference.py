"""Inference on a device: logits of images, and the loss and accuracy of a network over them."""

import numpy as np

from ...spec.commands import Phase
from ...spec.phases import EVALUATION
from ..devices.device import Device
from .loss import softmax_cross_entropy
from .network import Network

__all__ = ["evaluate", "predict"]


class _Fitted:
    """Exponents of an evaluation's own, in place of training's until :meth:`put_back`."""

    def __init__(self, network: Network, device: Device):
        self.network, self.device, self.fits = network, device, 0
        compiled = network.compiled
        commands = [line.command for program in (compiled.program, compiled.calibrating) for line in program]
        numbers = sorted({each.out_id for each in commands if each.phase_mask & Phase.EVAL and each.track})
        self.trained = {number: device.exponents(number)[0] for number in numbers}

    def fit(self, x_NCHW: np.ndarray) -> None:
        """Calibrate with each micro-batch of a batch, and leave the batch written; later fits lower no exponent."""
        compiled, highest = self.network.compiled, self._now() if self.fits else {}
        for part in range(compiled.micro_batches):  # a batch that calibrates has its first micro-batch alone
            first = part * (self.network.batch // compiled.micro_batches)
            self.network.write_input(self.device, np.roll(x_NCHW, -first, axis=0))
            _logits(self.network, self.device, calibrate=True)
            highest = {number: max(found, highest.get(number, found)) for number, found in self._now().items()}
        for number, exponent in highest.items():
            self.device.set_exponents(number, exponent)
        self.network.write_input(self.device, x_NCHW)
        self.fits += 1

    def logits(self, x_NCHW: np.ndarray) -> list[np.ndarray]:
        """Logits of a batch that was written; if values saturate, they are computed again after a fit."""
        if not self.fits:
            self.fit(x_NCHW)
        before = self._saturations()
        found = _logits(self.network, self.device)
        if self._saturations() == before:
            return found
        self.fit(x_NCHW)
        return _logits(self.network, self.device)

    def put_back(self) -> None:
        """Give training its exponents again."""
        for number, exponent in self.trained.items():
            self.device.set_exponents(number, exponent)

    def _now(self) -> dict[int, int]:
        return {number: self.device.exponents(number)[0] for number in self.trained}

    def _saturations(self) -> int:
        return self.device.counters(EVALUATION)["saturations"]


def _logits(network: Network, device: Device, calibrate: bool = False) -> list[np.ndarray]:
    """Logits [N, classes] of each micro-batch of the batch that was written."""
    network.start(device, EVALUATION, calibrate=calibrate)
    network.wait(device)
    logits = []
    for _ in range(network.passes):
        logits.append(network.read_logits(device))
        device.resume()
        network.wait(device)
    return logits


def predict(network: Network, device: Device, x_NCHW: np.ndarray) -> np.ndarray:
    """Logits [N, classes] of any number of images; the last batch is filled up with its own images.

    Running statistics may give results of another magnitude than those of training's batches, for which the exponents
    are. So the results of a network that has such statistics get exponents of their own: the first batch calibrates
    them, and a batch in which values saturate raises them. Then those of training are put back.
    """
    fitted = _Fitted(network, device) if network.has_running_statistics else None
    parts = []
    try:
        for start in range(0, len(x_NCHW), network.batch):
            part = x_NCHW[start : start + network.batch]
            whole = np.resize(part, (network.batch, *part.shape[1:]))
            network.write_input(device, whole)
            logits = fitted.logits(whole) if fitted else _logits(network, device)
            parts.append(np.concatenate(logits)[: len(part)])
    finally:
        if fitted:
            fitted.put_back()
    return np.concatenate(parts)


def evaluate(network: Network, device: Device, x_NCHW: np.ndarray, y_N: np.ndarray) -> tuple[float, float]:
    """Mean loss and accuracy over a set of images."""
    logits_NK = predict(network, device, x_NCHW)
    loss, _ = softmax_cross_entropy(logits_NK, y_N)
    return loss, float(np.mean(logits_NK.argmax(axis=1) == y_N))
