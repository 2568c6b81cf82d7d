"""Concatenations: parts in one tensor, copies where they must be, memory of dense blocks, masks, the joining host."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from adagp.host.compiler.compiler import compile_network
from adagp.host.compiler.front_end import graph_of
from adagp.host.compiler.joins import Join
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.training.network import Network
from adagp.spec.commands import CMode, Opcode, Phase
from adagp.spec.phases import BP, GP, WARMUP
from adagp.spec.presets import preset
from batches import train_batch
from made_modules import Made
from random_programs import FEW
from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

CONFIG = replace(preset("tiny"), n_tensors=512)
SHAPE, BATCH, GROWTH, SEED = (3, 6, 6), 3, 4, 7


class Dense(nn.Module):
    """A dense block of ``depth`` layers; ``flat``: each joins all earlier results anew, as torchvision's does."""

    def __init__(self, depth, flat=False, relu=False):
        super().__init__()
        self.flat, self.relu = flat, relu
        self.first = nn.Conv2d(SHAPE[0], GROWTH, 1)
        self.narrow = nn.ModuleList(nn.Conv2d(GROWTH * (n + 1), 5, 1) for n in range(depth))
        self.wide = nn.ModuleList(nn.Conv2d(5, GROWTH, 3, padding=1) for _ in range(depth))
        self.head = nn.Conv2d(GROWTH * (depth + 1), 3, SHAPE[1])

    def forward(self, x):
        values = [self.first(x)]
        for narrow, wide in zip(self.narrow, self.wide, strict=True):
            y = wide(functional.relu(narrow(torch.cat(values, 1) if len(values) > 1 else values[0])))
            y = functional.relu(y) if self.relu else y
            values = [*values, y] if self.flat else [torch.cat([*values, y], 1)]
        return self.head(torch.cat(values, 1) if self.flat else values[0]).flatten(1)


def conv(c=3, q=3):
    return nn.Conv2d(c, q, 3, padding=1)


def compiled(module, config=CONFIG):
    return compile_network(graph_of(module, SHAPE, BATCH, config), BATCH, config)


def commands(program, *opcodes):
    return [line.command for line in program if line.command.opcode in opcodes]


@pytest.mark.parametrize("flat", [False, True])
def test_a_dense_block_is_one_tensor_without_a_copy(flat):
    found = compiled(Dense(3, flat))
    joins = [node for node in found.graph.nodes if isinstance(node, Join)]
    whole = joins[-1].output
    assert [len(join.inputs) for join in joins] == [2, 2, 2] and not commands(found.program, Opcode.AVGPOOL)
    parts = {name: found.tensors[name] for name in found.graph.parts}
    assert len(parts) == 6 and {part.of for part in found.graph.parts.values()} == {whole}
    assert {tensor.number for tensor in parts.values()} == {found.tensors[whole].number}
    places = [tensor.address - found.tensors[whole].address for tensor in parts.values()]
    assert sorted(set(places)) == [0, 2 * GROWTH, 4 * GROWTH, 6 * GROWTH]  # all joins begin at the first
    written = [c for c in commands(found.program, Opcode.FORWARD) if c.out_id == found.tensors[whole].number]
    assert len(written) == 4 and all(c.y_pitch == 4 * GROWTH and c.q == GROWTH and c.track for c in written)
    read = [c for c in commands(found.program, Opcode.FORWARD) if c.a_id == found.tensors[whole].number]
    head = SHAPE[1] * SHAPE[2] * 4 * GROWTH  # its kernel covers the map, which is a single pixel for it
    assert [c.c for c in read] == [GROWTH, 2 * GROWTH, 3 * GROWTH, head]
    assert [c.x_pitch for c in read] == [4 * GROWTH] * 3 + [0]  # the last one reads the whole


@pytest.mark.parametrize("flat", [False, True])
def test_memory_of_dense_blocks_grows_with_their_depth(flat):
    sizes = []
    for depth in (4, 8, 12):
        first, end = compiled(Dense(depth, flat)).plan.region("activations")
        sizes.append(end - first)
    assert sizes[2] - sizes[1] < 1.2 * (sizes[1] - sizes[0])


COPIES = {
    "input": (lambda m, x: m.two(torch.cat([x, m.one(x)], 1)), 1),
    "island": (lambda m, x: m.two(torch.cat([torch.sigmoid(m.one(x)), m.three(x)], 1)), 1),
    "maximum": (lambda m, x: m.two(torch.cat([functional.max_pool2d(m.one(x), 3, 1, 1), m.three(x)], 1)), 1),
    "average": (lambda m, x: m.two(torch.cat([functional.avg_pool2d(m.one(x), 3, 1, 1), m.three(x)], 1)), 1),
    "twice": (lambda m, x: (lambda y: m.two(torch.cat([y, y], 1)))(m.one(x)), 1),
    "in two": (lambda m, x: (lambda y, z: m.two(torch.cat([y, z], 1)) + m.two_more(torch.cat([z, y], 1)))(
        m.one(x), m.three(x)), 2),
    "none": (lambda m, x: m.two(torch.cat([m.one(x), m.three(x)], 1)), 0),
}  # fmt: skip
"""A network, and the commands of its forward pass that copy or average."""


@pytest.mark.parametrize("name", COPIES)
def test_copies_are_made_where_a_part_can_not_be_written_in_place(name):
    forward, count = COPIES[name]
    print(f"seed {SEED}")
    torch.manual_seed(SEED)
    every = {"one": conv(), "two": nn.Conv2d(6, 3, 6), "three": conv(), "two_more": nn.Conv2d(6, 3, 6)}
    unused = {"input": ("three", "two_more"), "twice": ("three", "two_more"), "in two": ()}.get(name, ("two_more",))
    used = {part: each for part, each in every.items() if part not in unused}
    module = Made(lambda m, x: forward(m, x).flatten(1), **used).double()
    found = compiled(module)
    averages = [c for c in commands(found.program, Opcode.AVGPOOL) if c.phase_mask & Phase.EVAL]
    assert len(averages) == count
    check_gradients(module)


def check_gradients(module, rate=2**-6):
    network, device = Network(module, SHAPE, BATCH, CONFIG), GoldenDevice(CONFIG, 4 << 20)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    network.load_state(device, before)
    network.set_hyper(device, rate, 0.0, 0.0)
    images, labels = np.random.default_rng(SEED).uniform(-1, 1, (BATCH, *SHAPE)), np.arange(BATCH) % 3
    for step in range(2):  # the second batch has the exponents that the first one left, and no calibration
        _, logits = train_batch(network, device, images, labels, calibrate=not step)
        expected = module(torch.from_numpy(images))
        np.testing.assert_allclose(logits, expected.detach().numpy(), atol=4e-3)
        module.zero_grad()
        functional.cross_entropy(expected, torch.from_numpy(labels)).backward()
        after = network.state_dict(device)
        for name, parameter in module.named_parameters():
            moved = (before[name] - after[name]) / rate
            norm = float(parameter.grad.norm())
            assert float((moved - parameter.grad).norm()) < 0.02 * norm + 2e-3, name
        before = after
        module.load_state_dict(before)


@pytest.mark.parametrize("flat, relu", [(False, False), (True, False), (False, True), (True, True)])
def test_gradients_of_dense_blocks_are_those_of_torch(flat, relu):
    print(f"seed {SEED}")
    torch.manual_seed(SEED)
    check_gradients(Dense(3, flat, relu).double())


def test_a_whole_of_relus_is_masked_at_once():
    module = Made(
        lambda m, x: m.two(torch.cat([functional.relu(m.one(x)), functional.relu(m.three(x))], 1)).flatten(1),
        one=conv(), two=nn.Conv2d(6, 3, 6), three=conv(),
    )  # fmt: skip
    found = compiled(module)
    modes = [CMode(c.c_mode) for c in commands(found.program, Opcode.BACKWARD_DATA)]
    assert modes == [CMode.MASK] and not commands(found.program, Opcode.AVGPOOL)
    torch.manual_seed(SEED)
    check_gradients(module.double())


def test_calibration_finds_the_exponent_of_the_largest_part():
    """A part a thousand times larger follows a small one, and small ones follow it."""
    torch.manual_seed(SEED)
    module = Dense(3).double()
    with torch.no_grad():
        module.wide[0].weight.mul_(1000)
        for narrow in module.narrow[1:]:
            narrow.weight.mul_(1e-3)
        module.head.weight.mul_(1e-3)
    network, device = Network(module, SHAPE, BATCH, CONFIG), GoldenDevice(CONFIG, 4 << 20)
    network.load_state(device, module.state_dict())
    network.set_hyper(device, 0.0, 0.0, 0.0)
    images, labels = np.random.default_rng(SEED).uniform(-1, 1, (BATCH, *SHAPE)), np.arange(BATCH) % 3
    whole = network.tensors[[node for node in network.compiled.graph.nodes if isinstance(node, Join)][-1].output]
    exponents = []
    for step in range(3):
        _, logits = train_batch(network, device, images, labels, calibrate=not step)
        np.testing.assert_allclose(logits, module(torch.from_numpy(images)).detach().numpy(), atol=4e-3)
        exponents.append(device.exponents(whole.number)[0])
    assert len(set(exponents)) == 1 and device.counters(WARMUP)["saturations"] == 0


@pytest.mark.parametrize("config", [
    pytest.param(FEW["dropout"], id="dropout"),
    pytest.param(FEW["matmul"], id="matmul", marks=pytest.mark.slow),  # the same networks, a simulator of its own
])  # fmt: skip
@pytest.mark.parametrize("name", ["dense", "flat"])
def test_golden_and_simulated_rtl_train_alike(name, config):
    print(f"seed {SEED}")
    source = "predicted" if config.predicts else None
    phases = (WARMUP, BP) if source is None else (WARMUP, BP, GP, GP, BP)
    hashes = []
    for device in (GoldenDevice(config, 16 << 20), SimDevice(config, memory_bytes=16 << 20)):
        torch.manual_seed(SEED)
        module = Dense(3, name == "flat", True)
        network = Network(module.double(), SHAPE, BATCH, config, source=source)
        network.load_state(device, module.state_dict(), SEED)
        network.set_hyper(device, 0.02, 0.9, 1e-3)
        if source:
            network.set_adam(device, 1e-3)
        rng, found = np.random.default_rng(SEED), []
        for number, phase in enumerate(phases):
            images, labels = rng.uniform(-1, 1, (BATCH, *SHAPE)), rng.integers(0, 3, BATCH)
            train_batch(network, device, images, labels, not number, phase)
            found.append(network.weights_hash(device))
        hashes.append(found)
        device.close()
    assert hashes[0] == hashes[1] and len(set(hashes[0])) == len(phases)
