"""Networks that pipelines are tested with, their batches, and one device that trains them in micro-batches."""

from dataclasses import replace
from functools import partial

import numpy as np
import torch
from adagp.host.training.loss import softmax_cross_entropy
from adagp.host.training.network import Network
from adagp.spec.phases import BP, GP, WARMUP
from adagp.spec.presets import preset
from random_programs import DESIGNS
from torch import nn
from torch.nn import functional as F

__all__ = [
    "BATCH", "IMAGE", "KINDS", "MEMORY", "MICRO_BATCHES", "N_CLASSES", "PARTS", "PHASES", "SEED", "SWITCHED", "TINY",
    "batches", "loss_of", "made", "one_device", "predictor_bits", "several_devices", "source_of",
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

    def __init__(self, norm=nn.BatchNorm2d):
        super().__init__()
        self.first, self.norm = nn.Conv2d(2, 6, 3, padding=1, bias=False), norm(6)
        self.depthwise, self.other = nn.Conv2d(6, 6, 3, padding=1, groups=6), nn.Conv2d(6, 6, 3, padding=1)
        self.last = nn.Linear(6 * 9, N_CLASSES)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        y = torch.relu(self.depthwise(x))
        y = torch.relu(x + self.other(y))
        return self.last(torch.flatten(F.max_pool2d(x + y, 2), 1))


KINDS = {
    "plain": (plain, TINY), "skipping": (Skipping, SWITCHED),
    "skipping-unnormed": (partial(Skipping, nn.Identity), SWITCHED),
    "predicted": (plain, replace(TINY, variant="low")),
    "predicted-skipping": (Skipping, replace(SWITCHED, variant="low", n_tensors=128)),
}  # fmt: skip
PHASES = {kind: [WARMUP] * 3 if not config.predicts else [WARMUP, WARMUP, GP, BP, GP]
          for kind, (_, config) in KINDS.items()}  # fmt: skip
"""The phases of a kind's batches; the first calibrates."""


def made(kind):
    print(f"seed {SEED}")
    torch.manual_seed(SEED)
    return KINDS[kind][0]().double().train()


def source_of(kind):
    return "predicted" if KINDS[kind][1].predicts else None


def batches(count=3):
    draw = np.random.default_rng(SEED)
    for number in range(count):
        yield number == 0, draw.uniform(-1, 1, (BATCH, *IMAGE)), draw.integers(0, N_CLASSES, BATCH)


def one_device(kind, device):
    """The weights' hash after each batch of one device, with the state, and at the end the predictor's."""
    module, config = made(kind), KINDS[kind][1]
    network = Network(module, IMAGE, BATCH, config, source=source_of(kind), micro_batches=MICRO_BATCHES)
    network.load_state(device, module.state_dict())
    network.set_hyper(device, 0.05, 0.9, 0.002)
    network.set_adam(device, 1e-3)
    for phase, (calibrate, images, labels) in zip(PHASES[kind], batches(len(PHASES[kind])), strict=True):
        network.write_input(device, images)
        network.start(device, phase, calibrate=calibrate)
        network.wait(device)
        for part in np.split(labels, MICRO_BATCHES)[: network.passes * (phase != GP)]:
            gradient = softmax_cross_entropy(network.read_logits(device), part)[1]
            network.write_loss_gradient(device, gradient)
            device.resume()
            network.wait(device)
        yield network.weights_hash(device) + predictor_bits(network.gradient_state, device), network.state_dict(device)


def predictor_bits(state, device):
    """The predictor's weights and moments as text, without the scales of layers; empty without a predictor."""
    arrays = state.snapshot(device)
    return "".join(f" {name} {array.tobytes().hex()}" for name, array in arrays.items() if name != "scales")


def loss_of(labels):
    """The gradient of a batch's loss by micro-batch and results."""
    parts_N = np.split(labels, MICRO_BATCHES)

    def loss(micro_batch, results):
        return [softmax_cross_entropy(results[0].reshape(len(results[0]), -1), parts_N[micro_batch])[1]]

    return loss


def several_devices(pipeline, state, kind="plain"):
    """The same of a pipeline, whose devices all must have the same predictor."""
    pipeline.load_state(state)
    pipeline.set_hyper(0.05, 0.9, 0.002)
    pipeline.set_adam(1e-3)
    for phase, (calibrate, images, labels) in zip(PHASES[kind], batches(len(PHASES[kind])), strict=True):
        pipeline.train(images, loss_of(labels), calibrate=calibrate, phase=phase)
        (bits,) = {predictor_bits(worker.gradient_state, worker.device) for worker in pipeline.workers}
        yield pipeline.weights_hash() + bits, pipeline.state_dict()
