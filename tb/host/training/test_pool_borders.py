"""Average pools whose padding doesn't count: golden against PyTorch in float64, and simulated RTL against golden."""

import contextlib

import numpy as np
import pytest
import torch
from adagp.host.compiler import borders
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.training.network import Network
from adagp.spec.commands import Opcode, Phase
from adagp.spec.phases import BP, EVALUATION, GP, WARMUP
from batches import train_batch
from made_modules import Made
from random_programs import DESIGNS
from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

TINY = DESIGNS["baseline"]
BATCH, IMAGE, CHANNELS, N_CLASSES, MEMORY, SEED = 3, (2, 9, 7), 5, 3, 8 << 20, 4
RATE = 2**-4
POOLS = {
    "3": (3, 1, 1), "3 by 2": (3, 2, 1), "5": (5, 1, 2), "5 by 2": (5, 2, 2), "one row": ((1, 3), 1, (0, 1)),
    "another size": ((4, 3), 2, (2, 1)), "large": ((9, 7), 1, (4, 3)),
}  # fmt: skip


def pooled(x, pool):
    return functional.avg_pool2d(x, *pool, count_include_pad=False)


def followed(pool, after):
    """A convolution, the pool, and what follows it."""
    print(f"seed {SEED}")
    torch.manual_seed(SEED)
    shape = pooled(torch.zeros(1, 2 * CHANNELS, *IMAGE[1:]), pool).shape[1:]
    return Made(
        lambda m, x: m.head(after(m, pooled(m.one(x), pool)).flatten(1)),
        one=nn.Conv2d(2, CHANNELS, 3, padding=1), head=nn.Linear(int(np.prod(shape)), N_CLASSES),
    ).double()  # fmt: skip


def twice(m, y):
    """The pool's result is a part of a concatenation, and read by an addition as well."""
    return torch.cat([y, y + y], 1)


AFTER = {
    "joined": twice,
    "relu": lambda m, y: torch.cat([torch.relu(y), -torch.relu(y)], 1),
    "bound": lambda m, y: torch.cat([functional.hardtanh(y, 0.0, 0.25)] * 2, 1),
    "sloped": lambda m, y: torch.cat([functional.leaky_relu(y, 0.1)] * 2, 1),
}


def batch():
    rng = np.random.default_rng(SEED)
    return rng.uniform(-1, 1, (BATCH, *IMAGE)), rng.integers(0, N_CLASSES, BATCH)


def check(module, steps=2):
    network, device = Network(module, IMAGE, BATCH, TINY), GoldenDevice(TINY, MEMORY)
    assert not [i for i in network.compiled.graph.islands if "avg_pool2d" in i.operators]
    before = {name: value.clone() for name, value in module.state_dict().items()}
    network.load_state(device, before)
    network.set_hyper(device, RATE, 0.0, 0.0)
    images, labels = batch()
    for step in range(steps):
        _, logits = train_batch(network, device, images, labels, calibrate=not step)
        expected = module(torch.from_numpy(images))
        np.testing.assert_allclose(logits, expected.detach().numpy(), atol=2e-3)
        module.zero_grad()
        functional.cross_entropy(expected, torch.from_numpy(labels)).backward()
        after, checked = network.state_dict(device), 0
        for name, parameter in module.named_parameters():
            moved, norm = (before[name] - after[name]) / RATE, float(parameter.grad.norm())
            assert float((moved - parameter.grad).norm()) < 0.02 * norm + 1e-4, name
            checked += norm > 1e-2
        assert checked >= 3
        before = after
        module.load_state_dict(before)
    assert device.counters(WARMUP)["saturations"] == 0
    return network, device


@pytest.mark.parametrize("name", POOLS)
def test_batches_are_those_of_torch(name):
    network, device = check(followed(POOLS[name], twice))
    network.write_input(device, batch()[0])
    network.start(device, EVALUATION)
    network.wait(device)  # its end, which moves exponents on in training, is still to come
    pool = next(layer for layer in network.layers if layer.inside)
    x, y = (network.tensors[value] for value in (pool.inputs[0], pool.output))
    (ex, _), (ey, _) = device.exponents(x.number), device.exponents(y.number)
    mantissas = torch.from_numpy(network.read(device, x.name).astype(np.float64)).permute(0, 3, 1, 2)
    expected = pooled(mantissas, POOLS[name]) * 2.0 ** (ex - ey)
    found = torch.from_numpy(network.read(device, y.name).astype(np.float64)).permute(0, 3, 1, 2)
    tall, wide = pool.r / (pool.r - pool.pad_y), pool.s / (pool.s - pool.pad_x)
    assert float((found - expected).abs().max()) <= 0.5 * (tall * wide + wide + 1) + 0.1  # roundings, of which two grow
    assert float(expected.abs().max()) > 2**12


@pytest.mark.parametrize("name", AFTER)
def test_what_follows_is_that_of_torch_too(name):
    check(followed(POOLS["3"], AFTER[name]))


def test_padding_that_counts_and_pools_without_cost_no_more_commands():
    for options in ({"count_include_pad": True}, {"divisor_override": 4, "count_include_pad": False}, {"padding": 0}):
        pool = nn.AvgPool2d(3, 1, **{"padding": 1, "count_include_pad": False, **options})
        size = int(np.prod(pool(torch.zeros(1, CHANNELS, *IMAGE[1:])).shape))
        module = nn.Sequential(nn.Conv2d(2, CHANNELS, 3, padding=1), pool, nn.Flatten(), nn.Linear(size, 3))
        network = Network(module, IMAGE, BATCH, TINY)
        assert network.compiled.calibrating is network.program
        assert sum(line.command.opcode == Opcode.AVGPOOL for line in network.program) == 1
        check(module.double())


def test_borders_that_one_command_can_not_reach_take_several(monkeypatch):
    """The same bits: in images too large for a command's fields, which are made small here."""
    hashes, counts = [], []
    for most, longest in ((borders.MOST_CHANNELS, borders.LONGEST_PITCH), (2 * CHANNELS, 40)):
        monkeypatch.setattr(borders, "MOST_CHANNELS", most)
        monkeypatch.setattr(borders, "LONGEST_PITCH", longest)
        network, device = check(followed(POOLS["5"], twice))
        hashes.append(network.weights_hash(device))
        counts.append(sum(bool(line.command.phase_mask & Phase.EVAL) for line in network.program))
    assert hashes[0] == hashes[1] and counts[1] > 2 * counts[0]


def test_a_pool_of_single_pixels_that_skips_others():
    """Its gradient isn't that of its operand, which is larger."""
    check(followed((1, 2, 0), twice), steps=1)


@pytest.mark.parametrize("variant", ["baseline", "max"])
def test_simulated_rtl_trains_as_golden(variant):
    config, module = DESIGNS[variant], followed(POOLS["5 by 2"], twice)
    source, phases = ("predicted", (WARMUP, BP, GP, GP, BP)) if config.predicts else (None, (WARMUP,) * 3)
    hashes = []
    with contextlib.closing(SimDevice(config, memory_bytes=MEMORY, limit=50_000_000, stall=0.1, seed=SEED)) as device:
        for each in (GoldenDevice(config, MEMORY), device):
            network = Network(module, IMAGE, BATCH, config, source=source)
            network.load_state(each, module.state_dict(), SEED)
            network.set_hyper(each, 0.07, 0.9, 0.002)
            if source:
                network.set_adam(each, 0.01)
            found = []
            for step, phase in enumerate(phases):
                train_batch(network, each, *batch(), step == 0, phase)
                found.append(network.weights_hash(each))
            hashes.append(found)
    assert hashes[0] == hashes[1] and len(set(hashes[0])) == len(phases)
