"""Networks with products of activations: against PyTorch, and golden against simulated RTL."""

import contextlib
from collections.abc import Callable
from copy import deepcopy

import numpy as np
import pytest
import torch
from adagp.host.compiler.joins import Join
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.training.network import Network
from adagp.spec.phases import BP, EVALUATION, GP, WARMUP
from adagp.spec.registers import Status
from batches import steps_are_gradients, train_batch
from random_programs import DESIGNS
from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

BATCH, LENGTH, INPUTS, N_CLASSES, SEED, RATE, MEMORY = 3, 5, 6, 3, 17, 0.01, 4 << 20


class Causal(nn.Module):
    """Attention as language models have it: queries, keys and values of one layer, two heads of an odd width."""

    def __init__(self, width=14, heads=2):
        super().__init__()
        self.heads, self.first, self.qkv = heads, nn.Linear(INPUTS, width), nn.Linear(width, 3 * width)
        self.out, self.head = nn.Linear(width, width), nn.Linear(width * LENGTH, N_CLASSES)

    def forward(self, x):
        x = self.first(x)
        n, length, width = x.shape
        q, k, v = self.qkv(x).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, length, width)
        return self.head((x + self.out(y)).flatten(1))


class Encoder(nn.Module):
    """PyTorch's own layer, whose rows lie as words and then images."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.first, self.layer = nn.Linear(INPUTS, 8), nn.TransformerEncoderLayer(8, 2, 12, dropout, batch_first=True)
        self.head = nn.Linear(8 * LENGTH, N_CLASSES)

    def forward(self, x):
        return self.head(self.layer(self.first(x)).flatten(1))


class Decoder(nn.Module):
    """PyTorch's own layer, which attends to itself and to another sequence, by rows of one weight."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.first, self.memory = nn.Linear(INPUTS, 8), nn.Linear(LENGTH, 8)
        self.layer = nn.TransformerDecoderLayer(8, 2, 12, dropout, batch_first=True)
        self.head = nn.Linear(8 * LENGTH, N_CLASSES)

    def forward(self, x):
        return self.head(self.layer(self.first(x), self.memory(x.transpose(1, 2))).flatten(1))


class Products(nn.Module):
    """Products of all forms: of transposed, shared, partly used and joined values, of images, and of ReLUs' results."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(INPUTS, 7), nn.Linear(INPUTS, 16)
        self.image, self.head, self.other = (
            nn.Conv2d(1, 4, 3, padding=1),
            nn.Linear(49, N_CLASSES),
            nn.Linear(95, N_CLASSES),
        )

    def forward(self, x):
        a, b = functional.relu(self.a(x)), self.b(x)
        square = torch.matmul(a.transpose(1, 2), b[..., 2:9])
        rows = torch.bmm(a, square)
        other = torch.baddbmm(rows, torch.bmm(rows, a.transpose(1, 2)), a)
        image = self.image(x[:, None]).flatten(2)  # [N, 4, L * I], whose channels lie together
        seen = torch.bmm(image.transpose(1, 2)[:, :LENGTH], image[..., :LENGTH])
        both = torch.cat([other, rows], -1)
        return self.head(square.flatten(1)) + self.other(torch.cat([both, seen], -1).flatten(1))


class Masked(nn.Module):
    """PyTorch's own attention with a word that sees nothing."""

    def __init__(self):
        super().__init__()
        self.first, self.attention = nn.Linear(INPUTS, 8), nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8 * LENGTH, N_CLASSES)
        self.register_buffer("mask", torch.eye(LENGTH, dtype=torch.bool))
        self.mask[1] = True

    def forward(self, x):
        x = self.first(x)
        return self.head((x + self.attention(x, x, x, attn_mask=self.mask, need_weights=False)[0]).flatten(1))


class Zeroed(nn.Module):
    """Attention whose queries (0) or values (2) are zero at first, as a residual block may begin."""

    def __init__(self, part, width=7):
        super().__init__()
        self.first, self.qkv = nn.Linear(INPUTS, width), nn.Linear(width, 3 * width)
        self.head = nn.Linear(width * LENGTH, N_CLASSES)
        for parameter in self.qkv.parameters():
            nn.init.zeros_(parameter[part * width : (part + 1) * width])

    def forward(self, x):
        x = self.first(x)
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.head((x + torch.bmm(torch.bmm(q, k.transpose(1, 2)), v)).flatten(1))


NETWORKS: dict[str, Callable] = {"causal": Causal, "encoder": Encoder, "decoder": Decoder, "products": Products}
SPECIAL: dict[str, Callable] = {"masked": Masked, "no queries": lambda: Zeroed(0), "no values": lambda: Zeroed(2)}


def made(name, variant="baseline", source=None, **options):
    print(f"seed {SEED}")
    torch.manual_seed(SEED)
    module = (NETWORKS | SPECIAL)[name](**options).double().train()
    rng = np.random.default_rng(SEED)
    sizes = np.array([0.05, 1.0, 0.4])[:, None, None]  # the first matrices' results are the smallest
    inputs, labels = rng.uniform(-1, 1, (BATCH, LENGTH, INPUTS)) * sizes, rng.integers(0, N_CLASSES, BATCH)
    return module, Network(module, (LENGTH, INPUTS), BATCH, DESIGNS[variant], source=source), inputs, labels


@pytest.mark.parametrize("name", NETWORKS | SPECIAL)
def test_gradients_are_those_of_torch(name):
    """In the batch that calibrates and in the one after it, whose exponents come from all commands of the first."""
    module, network, inputs, labels = made(name)
    assert len(network.compiled.graph.products) > 1
    device = GoldenDevice(DESIGNS["baseline"], MEMORY)
    network.load_state(device, module.state_dict())
    network.set_hyper(device, RATE, 0.0, 0.0)
    share = 0.02 if name == "no queries" else 0.01  # zeros leave an exponent that is coarse for one batch
    for batch in range(3):
        before = network.state_dict(device)
        _, logits = train_batch(network, device, inputs, labels, calibrate=not batch)
        twin = deepcopy(module)
        twin.load_state_dict(before)
        expected = twin(torch.from_numpy(inputs))
        functional.cross_entropy(expected, torch.from_numpy(labels)).backward()
        assert float((torch.from_numpy(logits) - expected.detach()).abs().max()) < 2e-3
        assert steps_are_gradients(twin, before, network.state_dict(device), RATE, share) >= 6
    assert device.counters(0)["saturations"] == 0


def test_starts_without_a_moment_draw_anew():
    """The masks of each batch of training differ from the last one's; evaluation and another run change nothing."""

    def drawn(phases):
        module, network, inputs, labels = made("encoder", dropout=0.3)
        device = GoldenDevice(DESIGNS["baseline"], MEMORY)
        network.load_state(device, module.state_dict())
        network.set_hyper(device, 0.0, 0.0, 0.0)
        names, found = [layer.output for layer in network.layers if layer.drop], []
        for number, phase in enumerate(phases):
            train_batch(network, device, inputs, labels, calibrate=not number, phase=phase)
            found += [[network.read(device, name) == 0 for name in names]] if phase == WARMUP else []
        return found

    masks, others = drawn((WARMUP, WARMUP, WARMUP)), drawn((WARMUP, EVALUATION, WARMUP, WARMUP))
    assert len(masks) == len(others) == 3 and len(masks[0]) > 1

    def share(one, other):
        return np.array([(first ^ second).mean() for first, second in zip(one, other, strict=True)])

    assert all((share(one, other) < 0.02).all() for one, other in zip(masks, others, strict=True))
    assert all((share(masks[one], masks[other]) > 0.2).all() for one, other in ((0, 1), (1, 2), (0, 2)))


def test_what_the_products_are_of():
    graph = made("products")[1].compiled.graph
    assert len(graph.products) == 5 and any(isinstance(node, Join) for node in graph.nodes)
    assert any(graph.masks(name) for product in graph.products for name in product.inputs)


@pytest.mark.parametrize("variant", ["baseline", "max"])
@pytest.mark.parametrize("name", NETWORKS)
def test_golden_and_simulated_rtl_train_alike(name, variant):
    source = None if variant == "baseline" else "predicted"
    phases = (WARMUP, BP, EVALUATION) if source is None else (WARMUP, BP, GP, GP, BP, EVALUATION)
    config, found = DESIGNS[variant], []
    options = {"dropout": 0.1} if name in ("encoder", "decoder") else {}
    for device in (GoldenDevice(config, MEMORY), SimDevice(config, memory_bytes=MEMORY)):
        module, network, inputs, _ = made(name, variant, source, **options)
        with contextlib.closing(device):
            network.load_state(device, module.state_dict(), SEED)
            network.set_hyper(device, 0.02, 0.9, 1e-3)
            if source:
                network.set_adam(device, 1e-3)
            seen = []
            for number, phase in enumerate(phases):
                network.write_input(device, inputs)
                network.start(device, phase, calibrate=not number)
                if network.wait(device) & Status.HOST:
                    logits = network.read_logits(device)
                    seen.append(logits.tolist())
                    network.write_loss_gradient(device, np.sin(np.arange(logits.size) + number).reshape(logits.shape))
                    device.resume()
                    assert network.wait(device) & Status.DONE
                seen.append(network.weights_hash(device))
            macs = [device.counters(phase)["macs"] for phase in (WARMUP, GP if source else BP)]
            found.append([seen, macs])
    assert found[0] == found[1] and min(found[0][1]) > 0
    assert len({each for each in found[0][0] if isinstance(each, str)}) == len(phases) - 1
