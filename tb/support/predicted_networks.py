"""Networks whose gradients are predicted on the golden model, and the predictor in PyTorch's float64 beside it."""

from dataclasses import replace

import numpy as np
import torch
from adagp.host.compiler.predictor_steps import ADAM_HYPER
from adagp.host.compiler.quantise import constant, dequantise, join_master
from adagp.host.devices.golden import GoldenDevice
from adagp.host.training.loss import softmax_cross_entropy
from adagp.host.training.models import build_model
from adagp.host.training.network import Network
from adagp.spec.commands import Adam
from adagp.spec.phases import GP
from adagp.spec.presets import preset
from torch import nn

__all__ = [
    "BATCH", "BETA1", "BETA2", "CLASSES", "CONFIG", "RATE", "SHAPE", "Reference", "Run", "near", "pooled", "positive",
    "set_adam",
]  # fmt: skip

CONFIG = replace(preset("ecp5"), variant="efficient", depthwise=True)
SHAPE, CLASSES, BATCH = (1, 8, 8), 10, 16
RATE, BETA1, BETA2 = 1e-3, 0.9, 0.999


def depthwise_layers():
    """Depthwise convolutions of strides 1 and 2, with and without a bias, that a ReLU doesn't follow."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Conv2d(8, 6, 1),
        nn.ReLU(), nn.Conv2d(6, 6, (4, 5), 2, 2, groups=6, bias=False), nn.Conv2d(6, 5, 1), nn.ReLU(), nn.Flatten(),
        nn.Linear(5 * 5 * 4, CLASSES),
    )  # fmt: skip


def set_adam(device):
    first, second = round(BETA1 * 65536), round(BETA2 * 65536)
    values = {
        Adam.RATE: constant(RATE), Adam.BETA1: (first, -16), Adam.REST1: (65536 - first, -16),
        Adam.BETA2: (second, -16), Adam.REST2: (65536 - second, -16), Adam.EPSILON: (1, 0),
    }  # fmt: skip
    for place, value in values.items():
        device.set_hyper(ADAM_HYPER + place, *value)


def single_layer():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(SHAPE[1] * SHAPE[2], CLASSES))


class Joined(nn.Module):
    """A depthwise convolution whose results lie beside another convolution's, a pitch apart."""

    def __init__(self):
        super().__init__()
        self.first, self.other = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 3, 1)
        self.inner = nn.Conv2d(4, 4, 3, padding=1, groups=4)
        self.last = nn.Conv2d(7, CLASSES, 8)

    def forward(self, x):
        x = self.first(x)
        return self.last(torch.cat([self.other(x), self.inner(x)], 1)).flatten(1)


OWN = {"single": single_layer, "depthwise": depthwise_layers, "joined": Joined}
"""Networks by name, beside the built-in ones."""


class Run:
    """A network on the golden device, trained with random images.

    ``means`` are the reorganised outputs of the last batch with stops, by layer, from each micro-batch's outputs.
    """

    def __init__(self, model="digits-cnn", predict=True, device=GoldenDevice, micro_batches=1):
        torch.manual_seed(1)
        self.rng = np.random.default_rng(1)
        module = OWN[model]() if model in OWN else build_model(model, SHAPE, CLASSES, 1)
        self.module = module
        source = "predicted" if predict else None
        self.network = Network(module, SHAPE, BATCH, CONFIG, source=source, micro_batches=micro_batches)
        self.parts, self.means = micro_batches, {}
        self.device = device(CONFIG)
        self.network.load_state(self.device, module.state_dict(), seed=1)
        self.network.set_hyper(self.device, 0.05, 0.9, 0.0)
        set_adam(self.device)
        self.calibrate = True

    def batch(self, phase, x=None):
        """One batch, of images ``x`` if they are given; returns exponents as they were in it."""
        x = self.rng.random((BATCH, *SHAPE)) if x is None else x
        self.network.write_input(self.device, x)
        self.network.start(self.device, phase, calibrate=self.calibrate)
        self.calibrate = False
        exponents = self.exponents()
        self.network.wait(self.device)
        if phase != GP:
            labels = self.rng.integers(0, CLASSES, BATCH)
            self.means = dict.fromkeys((layer.name for layer in self.network.trained), 0)
            for part in np.split(labels, self.parts)[: self.network.passes]:
                for layer in self.network.trained:
                    self.means[layer.name] += pooled(self, layer, exponents) / self.network.passes
                _, gradient = softmax_cross_entropy(self.network.read_logits(self.device), part)
                self.network.write_loss_gradient(self.device, gradient)
                self.device.resume()
                self.network.wait(self.device)
        return exponents

    def exponents(self):
        table = self.device.machine.exponents
        return {name: int(table.cur[tensor.number]) for name, tensor in self.network.tensors.items()}

    def values(self, name, exponent):
        return torch.from_numpy(dequantise(self.network.read(self.device, name), exponent))

    def master(self, name, exponents):
        high, low = (self.network.read(self.device, f"{name}.{part}") for part in ("weight", "low"))
        return torch.from_numpy(join_master(high, low, exponents[f"{name}.weight"]))


def near(found, expected, tolerance):
    scale = expected.abs().max()
    assert scale > 0
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=0, atol=tolerance * float(scale))


class Reference(torch.nn.Module):
    """The predictor in PyTorch, with the weights that the device has now."""

    def __init__(self, run, exponents):
        super().__init__()
        conv = run.values("predictor.conv.weight", exponents["predictor.conv.weight"])
        fc = run.values("predictor.fc.weight", exponents["predictor.fc.weight"])
        self.filters = torch.nn.Parameter(conv[:, :-1].reshape(3, 3, 3)[:, None])
        self.bias = torch.nn.Parameter(conv[:, -1].clone())
        self.fc = torch.nn.Parameter(fc.clone())

    def forward(self, pooled, rows, positive):
        """[filters, 2, 2] to [filters, rows]; ``positive``: which hidden values the device's ReLU has let through."""
        hidden = torch.nn.functional.conv2d(pooled[:, None], self.filters, self.bias, padding=1)
        hidden = (hidden.permute(0, 2, 3, 1) * positive).flatten(1)
        return hidden @ self.fc[:rows, :-1].T + self.fc[:rows, -1]

    def gradients(self):
        conv = torch.cat([self.filters.grad.reshape(3, 9), self.bias.grad[:, None]], 1)
        return {"conv": conv, "fc": self.fc.grad}


def pooled(run, layer, exponents):
    output_NCHW = run.values(f"{layer.name}.output", exponents[f"{layer.name}.output"]).permute(0, 3, 1, 2)
    size = max(1, layer.oh // 2), max(1, layer.ow // 2)
    found = torch.nn.functional.avg_pool2d(output_NCHW, size).mean(0)
    return found.expand(-1, 2, 2) if found.shape[-1] == 1 else found


def positive(run, layer, exponents):
    return run.values(f"{layer.name}.hidden", exponents["predictor.hidden"]) > 0
