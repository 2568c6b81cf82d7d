"""Networks with several arguments and results, frozen and shared parameters: against torch, golden against RTL."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from adagp.experiments.networks.transformer import TranslationTransformer, translation_loss
from adagp.host.compiler.lowering import Kind
from adagp.host.compiler.values import Input
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.training.loss import loss_and_gradients
from adagp.host.training.network import Network
from adagp.spec.commands import Opcode
from adagp.spec.phases import BP, GP, WARMUP
from adagp.spec.presets import preset
from adagp.spec.registers import Status
from random_programs import DESIGNS, FEW
from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

SEED, BATCH, MEMORY = 3, 4, 4 << 20
TINY = replace(preset("tiny"), n_tensors=512)
HYPER = {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01}


class Both(nn.Module):
    """An image and words give two results."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout
        self.conv, self.embedding = nn.Conv2d(2, 5, 3, padding=1), nn.Embedding(11, 5)
        self.wide, self.head = nn.Conv2d(5, 4, 1), nn.Linear(5, 3)

    def forward(self, image, words):
        x = functional.dropout(functional.relu(self.conv(image)), self.dropout, self.training)
        means = functional.adaptive_avg_pool2d(x, 1).flatten(1) + self.embedding(words).mean(1)
        return self.head(means), {"wide": self.wide(x)}


INPUTS = (Input((2, 6, 4), 2.0), Input((3,), 10, whole=True))


def both_loss(logits, wide, labels):
    return functional.cross_entropy(logits, labels) + wide.square().mean()


def drawn(batch=BATCH):
    rng = np.random.default_rng(SEED)
    return (rng.uniform(-2, 2, (batch, 2, 6, 4)), rng.integers(0, 11, (batch, 3))), rng.integers(0, 3, batch)


def made(make, inputs, config=TINY, **options):
    print(f"seed {SEED}")
    torch.manual_seed(SEED)
    module = make().double().train()
    return module, Network(module, inputs, BATCH, config, **options)


def train_batch(network, device, arrays, loss, *targets, phase=WARMUP, calibrate=False):
    network.write_input(device, arrays)
    network.start(device, phase, calibrate=calibrate)
    value = None
    if network.wait(device) & Status.HOST:
        value = network.write_loss(device, loss, *targets)
        device.resume()
        assert network.wait(device) & Status.DONE
    return value


def test_training_follows_torch():
    module, network = made(Both, INPUTS)
    device, first = GoldenDevice(TINY, MEMORY), {name: value.clone() for name, value in module.state_dict().items()}
    network.load_state(device, first)
    network.set_hyper(device, *HYPER.values())
    optimiser = torch.optim.SGD(module.parameters(), **HYPER)
    arrays, labels = drawn()
    for step in range(4):
        loss = train_batch(network, device, arrays, both_loss, torch.from_numpy(labels), calibrate=step == 0)
        logits, others = module(*map(torch.from_numpy, arrays))
        expected = both_loss(logits, others["wide"], torch.from_numpy(labels))
        assert loss == pytest.approx(expected.item(), abs=2e-3)
        optimiser.zero_grad()
        expected.backward()
        optimiser.step()
    results = network.read_results(device)
    assert [result.shape for result in results] == [(BATCH, 3), (BATCH, 4, 6, 4)] and network.n_outputs == 3
    state = network.state_dict(device)
    for name, value in module.state_dict().items():
        assert (value != first[name]).any(), name
        np.testing.assert_allclose(state[name], value, atol=2e-3, err_msg=name)


@pytest.mark.parametrize("config", [
    pytest.param(FEW["dropout"], id="dropout"),
    pytest.param(FEW["matmul"], id="matmul", marks=pytest.mark.slow),  # the same network, with a simulator of its own
])  # fmt: skip
def test_golden_and_simulated_rtl_train_alike(config):
    """Dropout is on the machine if that has it, on the host otherwise."""
    source = "predicted" if config.predicts else None
    (arrays, labels), hashes, compared = drawn(), [], 0
    for device in (GoldenDevice(config, MEMORY), SimDevice(config, memory_bytes=MEMORY)):
        module, network = made(lambda: Both(0.25), INPUTS, config, source=source, ring_entries=3)
        assert any(layer.kind is Kind.DROPOUT for layer in network.layers) == config.dropout
        network.load_state(device, module.state_dict(), SEED)
        network.set_hyper(device, *HYPER.values())
        if source:
            network.set_adam(device, 1e-3)
        found = []
        for number, phase in enumerate((WARMUP, BP, GP) if source else (WARMUP, BP)):
            moved = (np.roll(arrays[0], number), (arrays[1] + number) % 11)
            train_batch(network, device, moved, both_loss, torch.from_numpy(labels), phase=phase, calibrate=not number)
            found.append(network.weights_hash(device))
        hashes.append(found)
        device.close()
    for one, other in zip(*hashes, strict=True):
        assert one == other
        compared += 1
    assert compared == len(set(hashes[0])) == (3 if source else 2)


def test_an_entry_of_the_ring_has_all_arguments():
    _, network = made(Both, INPUTS, ring_entries=3)
    device = GoldenDevice(TINY, MEMORY)
    network.install(device)
    (images, words), _ = drawn()
    for entry in (2, 0):
        network.write_input(device, (images * (entry - 1), words + entry - 2), entry)
    first, second = network.tensors["input"], network.tensors["input1"]
    assert first.address + first.n_bytes <= second.address < first.address + network.compiled.entry_bytes
    for entry in (2, 0):
        address = second.address + entry * network.compiled.entry_bytes
        assert (device.read(address, second.n_bytes).view("<i2").reshape(words.shape) == words + entry - 2).all()


MISTAKES = {
    "number": (lambda images, words: (images,), "takes 2 arguments, not 1"),
    "shape": (lambda images, words: (images, words[:, :2]), r"input 1 must have the shape \(4, 3\), not \(4, 2\)"),
    "size": (lambda images, words: (images, words + 5), r"input 1 of magnitude 1\d.0 exceeds input_max = 10"),
    "broken": (lambda images, words: (images, words / 2), "input 1 must have integers alone"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_wrong_arguments_are_refused(name):
    change, message = MISTAKES[name]
    _, network = made(Both, INPUTS)
    device = GoldenDevice(TINY, MEMORY)
    network.install(device)
    before = device.read(network.tensors["input"].address, 64).copy()
    with pytest.raises(ValueError, match=message):
        network.write_input(device, change(*drawn()[0]))
    assert (device.read(network.tensors["input"].address, 64) == before).all()


def test_integers_that_no_operand_holds_are_refused():
    with pytest.raises(ValueError, match="integers up to 40000 don't fit an operand of 16 bits"):
        made(Both, (INPUTS[0], Input((3,), 40000, whole=True)))


def test_losses():
    results = [np.array([1.0, 2.0]), np.array([3.0])]
    value, gradients = loss_and_gradients(lambda x, y, factor: (x * factor).sum(), results, 5)
    assert value == 15 and [gradient.tolist() for gradient in gradients] == [[5, 5], [0]]
    with pytest.raises(ValueError, match=r"one number, not a tensor of the shape \(2,\)"):
        loss_and_gradients(lambda x, y: x, results)


class Kept(nn.Module):
    """Frozen layers of the device and of the host, and a weight that two modules share."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1).requires_grad_(False)
        self.second, self.norm = nn.Conv2d(4, 6, 1), nn.BatchNorm2d(6)
        self.norm.bias.requires_grad_(False)
        self.third, self.fourth = nn.Linear(6, 6), nn.Linear(6, 6, bias=False)
        self.fourth.weight = self.third.weight
        self.last = nn.Linear(6, 3)
        self.last.weight.requires_grad_(False)

    def forward(self, x):
        x = functional.relu(self.norm(self.second(self.first(x)))).mean((2, 3))
        return self.last(self.fourth(torch.tanh(self.third(x))))


def test_frozen_parameters_stay_and_shared_ones_train_once():
    module, network = made(Kept, (2, 4, 4), input_max=2.0)
    opcodes = [line.command.opcode for line in network.program if line.name == "first.Conv2d"]
    assert opcodes == [Opcode.FORWARD]
    device, first = GoldenDevice(TINY, MEMORY), {name: value.clone() for name, value in module.state_dict().items()}
    network.load_state(device, first)
    network.set_hyper(device, *HYPER.values())
    optimiser = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], **HYPER)
    images, labels = np.random.default_rng(SEED).uniform(-2, 2, (BATCH, 2, 4, 4)), torch.arange(BATCH) % 3
    for step in range(4):
        train_batch(network, device, images, functional.cross_entropy, labels, calibrate=step == 0)
        optimiser.zero_grad()
        functional.cross_entropy(module(torch.from_numpy(images)), labels).backward()
        optimiser.step()
    state, frozen = network.state_dict(device), {"first.weight", "first.bias", "norm.bias", "last.weight"}
    assert list(state) == list(first) and torch.equal(state["third.weight"], state["fourth.weight"])
    for name, value in module.state_dict().items():
        changed = not np.allclose(state[name], first[name], atol=1e-4)
        assert changed == (name not in frozen), name
        np.testing.assert_allclose(state[name], value, atol=2e-3, err_msg=name)
    again = GoldenDevice(TINY, MEMORY)
    network.restore(again, network.snapshot(device))
    assert network.weights_hash(again) == network.weights_hash(device)


def test_a_small_transformer_trains_alike_on_golden_and_simulated_rtl():
    """Products of activations are on the machine, softmax and layer norms on the host."""
    config = DESIGNS["baseline"]
    inputs = [Input((5,), 12, whole=True), Input((4,), 12, whole=True)]
    rng = np.random.default_rng(SEED)
    source, target = rng.integers(3, 13, (BATCH, 5)), rng.integers(3, 13, (BATCH, 5))
    source[0, 3:] = target[1, 3:] = 0  # padding
    words, hashes, losses = torch.from_numpy(target[:, 1:]), [], []
    for device in (GoldenDevice(config, MEMORY), SimDevice(config, memory_bytes=MEMORY)):
        module, network = made(lambda: TranslationTransformer(13, 13, 8, 2, 12, 1, dropout=0.0), inputs, config)
        network.load_state(device, module.state_dict())
        network.set_hyper(device, 0.2, 0.0, 0.0)
        found = [
            train_batch(network, device, (source, target[:, :-1]), translation_loss, words, calibrate=step == 0)
            for step in range(4)
        ]
        losses.append(found)
        hashes.append(network.weights_hash(device))
        expected = translation_loss(module(torch.from_numpy(source), torch.from_numpy(target[:, :-1])), words)
        assert found[0] == pytest.approx(expected.item(), abs=5e-3) and found[-1] < found[0]
        device.close()
    assert hashes[0] == hashes[1] and losses[0] == losses[1]
    assert len(network.compiled.graph.products) == 3
    assert len(network.trained) == 5 and len(network.islands.islands) == 7
