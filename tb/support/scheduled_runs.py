"""Small networks trained by a schedule with GP batches, on any device: what the host sees after each start."""

from dataclasses import replace

import numpy as np
import torch
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.training.data import Dataset
from adagp.host.training.network import Network
from adagp.host.training.settings import TrainSettings
from adagp.host.training.trainer import Trainer
from adagp.spec.presets import preset
from small_networks import N_CLASSES, pools, strides
from torch import nn

__all__ = [
    "GP_VARIANTS", "MEMORY", "NETWORKS", "SEED", "HashedRun", "Run", "config_of", "differences", "golden", "settings",
    "simulated",
]  # fmt: skip

MEMORY = 1 << 20
SEED = 21
TEST_IMAGES = 3
GP_VARIANTS = ("low", "efficient", "max")

NETWORKS = {
    "strides": (3, (7, 11, 9), strides),
    "pools": (7, (3, 10, 13), pools),
    "linear": (9, (1, 4, 7), lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(28, 17), nn.ReLU(), nn.Linear(17, 11, bias=False), nn.ReLU(), nn.Linear(11, N_CLASSES),
    )),
    "narrow": (7, (3, 6, 6), lambda: nn.Sequential(
        nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Conv2d(5, 9, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36, N_CLASSES),
    )),
}  # fmt: skip
"""Batch, shape of an image, module."""


def config_of(variant, size="tiny"):
    return replace(preset(size), variant=variant)


def settings(name, **changes):
    """An epoch each of warm-up, of a run of three GP batches and of runs of one, each run followed by a BP batch."""
    batch, *_ = NETWORKS[name]
    chosen = {
        "preset": "tiny", "variant": "max", "epochs": 3, "batch": batch, "learning_rate": 0.05, "schedule": "constant",
        "weight_decay": 0.002, "seed": SEED, "warmup_epochs": 1, "phases": "1*3:1 1:1", "train_images": 4 * batch,
    }  # fmt: skip
    return TrainSettings(**{**chosen, **changes})


def simulated(variant, size="tiny", **options):
    """The design as generated Verilog."""
    return SimDevice(config_of(variant, size), memory_bytes=MEMORY, limit=20_000_000, **options)


def golden(variant="max", size="tiny"):
    """The golden model of the design."""
    return GoldenDevice(config_of(variant, size), MEMORY)


def _data(shape, images, n_classes=N_CLASSES, seed=SEED):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (images + TEST_IMAGES, *shape))
    y = rng.integers(0, n_classes, images + TEST_IMAGES)
    return Dataset("random", x[:images], y[:images], x[images:], y[images:], n_classes)


class Run:
    """A network of NETWORKS on ``device``, to be trained as ``settings`` say; ``seen``: what each start left behind.

    ``watched`` is called after each start too, with the run.
    """

    def __init__(self, name, device, settings, watched=None, network=None):
        print(f"seed {SEED}")
        torch.set_num_threads(1)
        torch.manual_seed(SEED)
        batch, shape, build = NETWORKS[name]
        module = build()
        predicts = settings.predicts
        self.device, self.settings, self.watched, self.seen = device, settings, watched, []
        self.network = network or Network(
            module, shape, batch, device.config, ring_entries=4,
            source=settings.gradient_source if predicts else None, dataflow=settings.dataflow,
            predictor_every=settings.predictor_every, gp_momentum=settings.gp_momentum,
        )  # fmt: skip
        self.network.load_state(device, module.state_dict(), seed=SEED)
        self.initial = self.network.weights_hash(device)
        self.trainer = Trainer(settings, self.network, device, _data(shape, settings.train_images))
        self.trainer.on_batch = self._seen

    def _seen(self, progress, loss):
        arrays = self.network.snapshot(self.device)
        self.trainer.read_counters()
        self.seen.append({
            **arrays, **self._activations(), "batches": list(progress.batches), "loss": loss,
            "counters": _exact(progress.counters), "hash": self.network.weights_hash(self.device),
        })  # fmt: skip
        if self.watched:
            self.watched(self)

    def _activations(self):
        """Results of the commands, but for the weights that may be on chip."""
        tensors = self.network.tensors.values()
        found = {
            tensor.name: tensor for tensor in tensors if tensor.address and not tensor.name.startswith("predictor.")
        }
        return {name: self.network.read(self.device, name) for name in found}

    def go(self):
        """Train to the end; returns what each start left behind."""
        self.trainer.run()
        return self.seen


class HashedRun:
    """Training of what ``make`` makes, two epochs of five batches with runs of GP; hashes of weights after each start.

    It is seeded by ``seed``, but for random operators where ``drawn_by`` is given. After ``stop_after`` starts it ends
    with InterruptedError.
    """

    def __init__(self, make, shape, batch, device, seed, drawn_by=None):
        print(f"seed {seed}")
        torch.manual_seed(seed)
        module, variant = make().double(), device.config.variant
        source = "predicted" if device.config.predicts else None
        self.network, self.device = Network(module, shape, batch, device.config, ring_entries=4, source=source), device
        self.network.load_state(device, module.state_dict(), seed)
        settings = TrainSettings(
            preset="tiny", variant=variant, epochs=2, batch=batch, learning_rate=0.05, schedule="constant",
            seed=seed if drawn_by is None else drawn_by, phases="3:1",
        )  # fmt: skip
        data = _data(shape, 5 * batch, self.network.n_outputs, seed)
        self.trainer = Trainer(settings, self.network, device, data)
        self.trainer.on_batch, self.hashes, self.stop_after = self._seen, [], None

    def _seen(self, progress, loss):
        self.hashes.append(self.network.weights_hash(self.device))
        if len(self.hashes) == self.stop_after:
            raise InterruptedError

    def go(self):
        """Train to the end; returns the hashes."""
        self.trainer.run()
        return self.hashes


def _exact(counters):
    """Observations that depend neither on time nor on the number of arrays that share the work."""
    return [counters["macs"] + counters["predictor_macs"], counters["saturations"], counters["commands"]]


def differences(expected, found):
    """Names of what isn't equal, start by start."""
    assert len(expected) == len(found) > 0
    names = [sorted({*a, *b}) for a, b in zip(expected, found, strict=True)]
    return [
        (start, name)
        for start, (a, b) in enumerate(zip(expected, found, strict=True))
        for name in names[start]
        if name not in a or name not in b or not np.array_equal(a[name], b[name])
    ]
