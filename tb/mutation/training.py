"""Training steps of small networks that use everything the host's compiler makes use of."""

import numpy as np
import torch
from adagp.host.training.loss import softmax_cross_entropy
from adagp.host.training.network import Network
from torch import nn

from .observations import CONFIG, MEMORIES, SEED, Observations, Open, outcome, tables, work

__all__ = ["NETWORKS", "training"]

EVALUATION = 3

NETWORKS = {
    "convolutions": (2, (3, 9, 7), lambda: nn.Sequential(
        nn.Conv2d(3, 6, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(6, 9, (2, 3), padding=(0, 1)), nn.ReLU(),
        nn.Conv2d(9, 3, (3, 2), padding=(1, 0), bias=False), nn.Flatten(), nn.Linear(36, 5),
    )),
    "pools": (3, (2, 8, 9), lambda: nn.Sequential(
        nn.ReLU(), nn.Conv2d(2, 5, 3, padding=1), nn.MaxPool2d(3, 2, padding=1), nn.ReLU(),
        nn.AvgPool2d((3, 2), 2, padding=(1, 0)), nn.Flatten(), nn.Linear(20, 5),
    )),
    "linear": (13, (29,), lambda: nn.Sequential(
        nn.Linear(29, 17), nn.ReLU(), nn.Linear(17, 11, bias=False), nn.Linear(11, 5), nn.ReLU(),
    )),
}  # fmt: skip


def training(name: str, memory: str, open_device: Open) -> Observations:
    """Calibrate, train a batch, run one in each other phase, and two at once from the input ring."""
    torch.manual_seed(SEED)
    batch, shape, build = NETWORKS[name]
    module = build()
    network = Network(module, shape, batch, CONFIG, ring_entries=3)
    device = open_device(memory_bytes=1 << 20, **MEMORIES[memory])
    rng = np.random.default_rng(SEED)
    network.load_state(device, module.state_dict())
    network.set_hyper(device, 0.07, 0.9, 0.002)
    for entry in range(3):
        network.write_input(device, rng.uniform(-1, 1, (batch, *shape)), entry)
    runs = [(0, 1, True), (1, 1, False), (EVALUATION, 1, False), (2, 2, False)]
    for phase, batches, calibrate in runs:
        network.start(device, phase, batches=batches, calibrate=calibrate)
        for _ in range(batches):
            yield "at HOST", outcome(device)
            logits_NK = network.read_logits(device)
            labels_N = rng.integers(0, logits_NK.shape[1], batch)
            if phase != EVALUATION:
                network.write_loss_gradient(device, softmax_cross_entropy(logits_NK, labels_N)[1])
            device.resume()
        yield "at the end", outcome(device)
        yield "memory", device.read(0, network.compiled.plan.n_bytes).tobytes()
        yield "exponents", tables(device)
        yield from work(device)
