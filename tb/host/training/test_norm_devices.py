"""Networks with batch norm on golden and on simulated RTL, bit for bit."""

import itertools

import numpy as np
import pytest
import torch
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.training.inference import predict
from adagp.host.training.loss import softmax_cross_entropy
from adagp.host.training.models import build_model
from adagp.host.training.network import Network
from adagp.spec.phases import BP, EVALUATION, GP, WARMUP
from adagp.spec.registers import Status
from random_graphs import RandomGraph
from random_programs import DESIGNS

pytestmark = pytest.mark.timeout(1200)  # a simulator may have to be built first

MEMORY, SEED, BATCH, CLASSES = 16 << 20, 13, 4, 3
NETWORKS = {
    "resnet20": ((3, 4, 4), lambda: build_model("resnet20", (3, 4, 4), CLASSES, SEED)),
    "densenet-small": ((3, 8, 8), lambda: build_model("densenet-small", (3, 8, 8), CLASSES, SEED)),
    "random 12": ((2, 8, 8), lambda: RandomGraph(12, 12, 2, 8, CLASSES)),
    "random 28": ((2, 8, 8), lambda: RandomGraph(28, 12, 2, 8, CLASSES)),
}


def cases():
    """Networks and designs; the large ones without predictions, which have the same batches and one less, are slow."""
    for name, variant in itertools.product(NETWORKS, ("baseline", "max")):
        large = variant == "baseline" and not name.startswith("random")
        yield pytest.param(name, variant, marks=[pytest.mark.slow] if large else [])


@pytest.mark.parametrize(("name", "variant"), list(cases()))
def test_golden_and_simulated_rtl_train_alike(name, variant):
    print(f"seed {SEED}")
    shape, make = NETWORKS[name]
    config = DESIGNS[variant]
    source = None if variant == "baseline" else "predicted"
    phases = (WARMUP, BP, EVALUATION) if source is None else (WARMUP, GP, BP, EVALUATION)
    found = []
    for device in (GoldenDevice(config, MEMORY), SimDevice(config, memory_bytes=MEMORY)):
        torch.manual_seed(SEED)
        module = make().double().train()
        network = Network(module, shape, BATCH, config, source=source)
        assert len(network.normed) > 1
        network.load_state(device, module.state_dict(), SEED)
        network.set_hyper(device, 0.02, 0.9, 1e-3)
        if source:
            network.set_adam(device, 1e-3)
        rng, seen = np.random.default_rng(SEED), []
        for number, phase in enumerate(phases):
            images, labels = rng.uniform(-1, 1, (BATCH, *shape)), rng.integers(0, CLASSES, BATCH)
            network.write_input(device, images)
            network.start(device, phase, calibrate=not number)
            if network.wait(device) & Status.HOST:
                logits = network.read_logits(device)
                seen.append(logits.tolist())
                network.write_loss_gradient(device, softmax_cross_entropy(logits, labels)[1])
                device.resume()
                assert network.wait(device) & Status.DONE
            seen.append(network.weights_hash(device))
        if name.startswith("random"):  # the second batch's results are larger than those that the first calibrates
            images = rng.uniform(-1, 1, (2 * BATCH, *shape)) * np.repeat((1 / 16, 1), BATCH)[:, None, None, None]
            seen += [predict(network, device, images).tolist(), network.weights_hash(device)]
        found.append(seen)
        device.close()
    assert found[0] == found[1] and len({each for each in found[0] if isinstance(each, str)}) == len(phases) - 1
