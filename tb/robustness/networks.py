"""Random small networks, trained for two steps by the golden model and by the simulated RTL, to the same bits."""

from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import torch
from adagp.golden.state import COUNTED
from adagp.host.training.loss import softmax_cross_entropy
from adagp.host.training.network import Network
from adagp.spec.presets import PRESETS
from adagp.spec.registers import Status
from torch import nn

from .campaign import Kind
from .paired_training import REFUSALS, compared, memory_and_exponents

__all__ = ["EVALUATE", "NETWORKS", "Networks", "random_network"]

SHARES = {"tiny": 0.9, "ecp5": 0.06, "paper": 0.04}
STEPS = 2
TRAIN, EVALUATE = 0, 3
MOST_MACS = 60_000
"""Most MACs of a layer's forward direction, for one image."""


class _Builder:
    """Modules so far, and the shape of the value they end in."""

    def __init__(self, draw: Random):
        self.draw, self.modules = draw, []
        most = draw.choice((4, 8, 13))
        image = draw.randint(1, 5), draw.randint(1, most), draw.randint(1, most)
        self.shape: tuple[int, ...] = (draw.randint(1, 40),) if draw.random() < 0.12 else image
        self.input_shape = self.shape

    @property
    def flat(self) -> bool:
        return len(self.shape) == 1

    def _out(self, kernel, stride, padding):
        sizes = zip(self.shape[1:], kernel, padding, strict=True)
        return tuple((size + 2 * pad - k) // stride + 1 for size, k, pad in sizes)

    def _window(self, most):
        """Kernel and stride; the kernel may exceed the value, which padding may or may not make up for."""
        draw = self.draw
        kernel = tuple(draw.randint(1, most) for _ in "rs")
        return kernel, draw.choice((1, 1, 1, 2, 2, 3))

    def conv(self):
        kernel, stride = self._window(5)
        padding = tuple(self.draw.randrange(k) for k in kernel)
        channels = self.draw.choice((1, 2, 3, 4, 5, 8, 9, 12))
        out = self._out(kernel, stride, padding)
        if min(out) > 0 and np.prod((*kernel, self.shape[0], channels, *out)) <= MOST_MACS:
            bias = self.draw.random() < 0.7
            self.modules.append(nn.Conv2d(self.shape[0], channels, kernel, stride, padding, bias=bias))
            self.shape = channels, *out

    def pool(self):
        kernel, stride = self._window(4)
        padding = tuple(self.draw.randint(0, k // 2) for k in kernel)
        out = self._out(kernel, stride, padding)
        if min(out) > 0:
            self.modules.append(self.draw.choice((nn.MaxPool2d, nn.AvgPool2d))(kernel, stride, padding))
            self.shape = self.shape[0], *out

    def flatten(self):
        self.modules.append(nn.Flatten())
        self.shape = (int(np.prod(self.shape)),)

    def linear(self):
        features = self.draw.randint(1, 30)
        self.modules.append(nn.Linear(self.shape[0], features, bias=self.draw.random() < 0.8))
        self.shape = (features,)

    def relu(self):
        self.modules.append(nn.ReLU())


def random_network(draw: Random) -> tuple[nn.Sequential, tuple[int, ...]]:
    """A network with at least one layer that has weights, and the shape of its input."""
    builder = _Builder(draw)
    for _ in range(draw.randint(1, 5)):
        if builder.flat:
            break
        draw.choice((builder.conv, builder.conv, builder.conv, builder.pool, builder.relu))()
    if not builder.flat and draw.random() < 0.8:
        builder.flatten()
    for _ in range(draw.randint(1, 3) if builder.flat else 0):
        builder.linear()
        if draw.random() < 0.5:
            builder.relu()
    if not any(isinstance(module, nn.Conv2d | nn.Linear) for module in builder.modules):
        builder.modules.append(nn.Conv2d(builder.shape[0], 3, 1))
    return nn.Sequential(*builder.modules), builder.input_shape


class Networks:
    """The case function; with ``top`` only networks for ``tiny``, which it simulates."""

    def __init__(self, top: Path | None = None, shares: dict[str, float] = SHARES):
        self.top, self.shares = top, {"tiny": 1.0} if top else shares
        torch.set_num_threads(1)

    def __call__(self, index: int, rng: np.random.Generator) -> str:
        draw = Random(int(rng.integers(1 << 63)))
        name = draw.choices(list(self.shares), list(self.shares.values()))[0]
        config = PRESETS[name]
        torch.manual_seed(draw.getrandbits(32))
        module, shape = random_network(draw)
        batch = draw.choice((1, 2, 3, 5, 8))
        try:
            network = Network(module, shape, batch, config)
        except REFUSALS as error:
            places = [f"{layer}{mark}" for layer, _ in module.named_children() for mark in (".", " (")]
            assert any(place in str(error) for place in places), f"an error that names no layer: {error}"
            return f"not built: {type(error).__name__}"
        state = {key: value * draw.choice((1, 1, 1, 0, 30)) for key, value in module.state_dict().items()}
        with compared(network, draw, self.top, partial(_train, network, state), f"{module}, {shape}"):
            return f"equal on {name}"


def _batch(network, device, x, phase, labels_N=None, calibrate=False):
    """Run a batch; returns the logits."""
    network.write_input(device, x)
    network.start(device, phase, calibrate=calibrate)
    assert device.wait() & Status.HOST, "no pause for the loss"
    logits_NK = network.read_logits(device)
    if labels_N is not None:
        network.write_loss_gradient(device, softmax_cross_entropy(logits_NK, labels_N)[1])
    device.resume()
    assert device.wait() & Status.DONE, "no end"
    return logits_NK


def _train(network, state, device, seed):
    """Train seeded batches, the first of them calibrating, and evaluate; yields all that the host can see of each."""
    rng = np.random.default_rng(seed)
    network.load_state(device, state)
    rate, inertia, decay = (float(rng.choice(values)) for values in ((0.5, 0.05, 1e-3), (0, 0.5, 0.9), (0, 1e-2, 0.3)))
    network.set_hyper(device, rate, inertia, decay)
    for step in range(STEPS + 1):
        labels_N = rng.integers(0, network.n_outputs, network.batch)
        x = rng.uniform(-1, 1, (network.batch, *network.input_shape)) * rng.choice((1, 1, 1e-3, 0))
        if step == STEPS:
            logits_NK = _batch(network, device, x, EVALUATE)
        else:
            logits_NK = _batch(network, device, x, TRAIN, labels_N, calibrate=step == 0)
        counters = device.counters(TRAIN)
        yield {
            "logits": logits_NK, **memory_and_exponents(network, device),
            "counters": np.array([counters[name] for name in COUNTED]),
        }  # fmt: skip


NETWORKS = Kind("random_networks", Networks, 500, "random_network_mismatches", tuple(SHARES))
