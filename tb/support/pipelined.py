"""Networks that pipelines are tested with, their batches, and one device that trains them in micro-batches."""

import numpy as np
import torch
from adagp.host.training.loss import softmax_cross_entropy
from adagp.host.training.network import Network
from adagp.spec.phases import WARMUP
from adagp.spec.presets import preset
from random_programs import DESIGNS
from torch import nn
from torch.nn import functional as F

__all__ = [
    "BATCH", "IMAGE", "KINDS", "MEMORY", "MICRO_BATCHES", "N_CLASSES", "PARTS", "SEED", "SWITCHED", "TINY", "batches",
    "loss_of", "made", "one_device", "several_devices",
]  # fmt: skip

SEED, IMAGE, BATCH, MICRO_BATCHES, N_CLASSES, MEMORY = 11, (2, 6, 6), 12, 6, 3, 4 << 20
TINY, SWITCHED = preset("tiny"), DESIGNS["baseline"]
PARTS = 2
"""Stages on each device of the interleaved schedule."""


def plain():
    return nn.Sequential(
        nn.Conv2d(2, 5, 3, padding=1), nn.ReLU(), nn.Conv2d(5, 6, 3, padding=1, bias=False), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 7, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(63, 9), nn.ReLU(), nn.Linear(9, N_CLASSES),
    )  # fmt: skip


class Skipping(nn.Module):
    """Batch norm, a depthwise convolution, and connections that skip a layer or two, of values that are rectified."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(2, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.depthwise, self.other = nn.Conv2d(6, 6, 3, padding=1, groups=6), nn.Conv2d(6, 6, 3, padding=1)
        self.last = nn.Linear(6 * 9, N_CLASSES)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        y = torch.relu(self.depthwise(x))
        y = torch.relu(x + self.other(y))
        return self.last(torch.flatten(F.max_pool2d(x + y, 2), 1))


KINDS = {"plain": (plain, TINY), "skipping": (Skipping, SWITCHED)}


def made(kind):
    print(f"seed {SEED}")
    torch.manual_seed(SEED)
    return KINDS[kind][0]().double().train()


def batches(count=3):
    draw = np.random.default_rng(SEED)
    for number in range(count):
        yield number == 0, draw.uniform(-1, 1, (BATCH, *IMAGE)), draw.integers(0, N_CLASSES, BATCH)


def one_device(kind, device):
    """The weights' hash after each batch of one device, with the state at the end."""
    module, config = made(kind), KINDS[kind][1]
    network = Network(module, IMAGE, BATCH, config, micro_batches=MICRO_BATCHES)
    network.load_state(device, module.state_dict())
    network.set_hyper(device, 0.05, 0.9, 0.002)
    for calibrate, images, labels in batches():
        network.write_input(device, images)
        network.start(device, WARMUP, calibrate=calibrate)
        network.wait(device)
        for part in np.split(labels, MICRO_BATCHES)[: network.passes]:
            gradient = softmax_cross_entropy(network.read_logits(device), part)[1]
            network.write_loss_gradient(device, gradient)
            device.resume()
            network.wait(device)
        yield network.weights_hash(device), network.state_dict(device)


def loss_of(labels):
    """The gradient of a batch's loss by micro-batch and results."""
    parts_N = np.split(labels, MICRO_BATCHES)

    def loss(micro_batch, results):
        return [softmax_cross_entropy(results[0].reshape(len(results[0]), -1), parts_N[micro_batch])[1]]

    return loss


def several_devices(pipeline, state):
    """The same of a pipeline."""
    pipeline.load_state(state)
    pipeline.set_hyper(0.05, 0.9, 0.002)
    for calibrate, images, labels in batches():
        pipeline.train(images, loss_of(labels), calibrate=calibrate)
        yield pipeline.weights_hash(), pipeline.state_dict()
