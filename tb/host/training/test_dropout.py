"""Networks with dropout on a machine that has it: against PyTorch with the masks as drawn, and golden against RTL."""

import contextlib
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from adagp.golden.dropout import kept
from adagp.host.compiler.front_end import graph_of
from adagp.host.compiler.lowering import Kind
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.islands.runtime import Moment
from adagp.host.program import disassemble
from adagp.host.training.diff import compare
from adagp.host.training.inference import predict
from adagp.host.training.network import Network
from batches import steps_are_gradients, train_batch
from random_graphs import RandomGraph
from random_programs import DESIGNS
from scheduled_runs import HashedRun
from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

BASE = DESIGNS["baseline"]
BATCH, IMAGE, N_CLASSES, MEMORY, RATE, SEED = 6, (2, 8, 8), 3, 4 << 20, 0.25, 7
MOMENT = Moment(3, 1, 5)


class Dropped(nn.Module):
    """Dropout of images, of a flattened value and of rows; before an addition, and of a value with several readers."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 6, 1)
        self.hidden, self.head = nn.Linear(96, 20), nn.Linear(20, N_CLASSES)
        self.early, self.late = nn.Dropout(0.25), nn.Dropout(0.5)

    def forward(self, x):
        x = self.early(functional.relu(self.first(x)))
        x = self.early(self.second(x)) + x
        x = functional.dropout(functional.max_pool2d(x, 2).flatten(1), 0.1, self.training)
        return self.head(self.late(functional.relu(self.hidden(x))))


def graph(seed):
    return RandomGraph(seed, 6 + seed % 9, IMAGE[0], IMAGE[1], N_CLASSES, 0.3)


def made(make=Dropped, config=BASE, **options):
    print(f"seed {SEED}")
    torch.manual_seed(SEED)
    module = make().double().train()
    rng = np.random.default_rng(SEED)
    images, labels = rng.uniform(-1, 1, (BATCH, *IMAGE)), rng.integers(0, N_CLASSES, BATCH)
    return module, Network(module, IMAGE, BATCH, config, **options), images, labels


def masks(network, moment):
    """Masks [n, channel, y, x] of a batch by the place of their layers, with the factor of what stays."""
    for place, layer in enumerate(network.layers):
        if layer.kind is Kind.DROPOUT:
            shape = (BATCH, layer.h, layer.w, layer.c)
            mask = kept(shape, layer.drop, place, moment.epoch_seed, moment.batch).transpose(0, 3, 1, 2)
            yield torch.from_numpy(mask / (1 - layer.drop / 2**16))


@pytest.mark.parametrize("make", [Dropped, *(lambda seed=seed: graph(seed) for seed in range(8))])
def test_gradients_are_those_of_torch(make, monkeypatch):
    """Forward and backward of a batch have the same masks."""
    module, network, images, labels = made(make)
    device = GoldenDevice(BASE, MEMORY)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    network.load_state(device, before)
    network.set_hyper(device, RATE, 0.0, 0.0)
    _, logits = train_batch(network, device, images, labels, True, moment=MOMENT)
    drawn = masks(network, MOMENT)
    monkeypatch.setattr(functional, "dropout", lambda x, *_: x * next(drawn).reshape(x.shape))
    twin = deepcopy(module)
    expected = twin(torch.from_numpy(images))
    assert next(drawn, None) is None
    nn.functional.cross_entropy(expected, torch.from_numpy(labels)).backward()
    assert float((torch.from_numpy(logits) - expected.detach()).abs().max()) < 5e-3 * max(1, expected.abs().max())
    assert steps_are_gradients(twin, before, network.state_dict(device), RATE) > 2


def test_what_runs_where():
    """On the machine, in commands of its own; on the host where the machine has no such hardware."""
    _, network, _, _ = made()
    assert [layer.name for layer in network.layers if layer.kind is Kind.DROPOUT] == [
        "early.Dropout", "early.Dropout_2", "dropout", "late.Dropout",
    ]  # fmt: skip
    text = disassemble(network.compiled.program.bytes())
    assert not network.compiled.graph.islands and "dropout 0.25" in text and "dropout 0.5" in text
    assert all("device" in line for line in network.compiled.graph.describe().splitlines())
    graphs = [made(lambda seed=seed: graph(seed))[1].compiled.graph for seed in range(8)]
    assert sum(layer.kind is Kind.DROPOUT for graph in graphs for layer in graph.layers) > 15
    assert sum(name in graph.parts for graph in graphs for name in graph.values if "dropout" in name) > 0
    _, without, _, _ = made(config=replace(BASE, dropout=False))
    host = [name for island in without.compiled.graph.islands for name in island.operators]
    assert any("dropout" in name for name in host)
    assert not any(layer.kind is Kind.DROPOUT for layer in without.layers)


class Always(nn.Module):
    """A function that drops in evaluation too."""

    def forward(self, x):
        return functional.dropout(x, 0.5, True)


@pytest.mark.parametrize(
    "module", [nn.Dropout2d(0.5), nn.Dropout(1.0), nn.Dropout(0.5, inplace=True), Always()], ids=repr
)
def test_others_stay_on_the_host(module):
    graph = graph_of(nn.Sequential(nn.Conv2d(2, 3, 1), module, nn.Conv2d(3, 2, 1)), (2, 4, 4), 2, BASE)
    assert len(graph.islands) == 1 and [layer.kind for layer in graph.layers] == [Kind.GEMM] * 2


def test_dropout_between_operators_of_the_host_is_theirs():
    module = nn.Sequential(nn.Conv2d(2, 3, 1), nn.GELU(), nn.Dropout(0.5), nn.GELU(), nn.Conv2d(3, 2, 1))
    graph = graph_of(module, (2, 4, 4), 2, BASE)
    assert len(graph.islands) == 1 and [layer.kind for layer in graph.layers] == [Kind.GEMM] * 2


def test_each_batch_has_another_mask_and_evaluation_has_none():
    module, network, images, labels = made()
    device = GoldenDevice(BASE, MEMORY)
    network.load_state(device, module.state_dict())
    network.set_hyper(device, 0.0, 0.0, 0.0)
    seen, names = [], [layer.output for layer in network.layers if layer.kind is Kind.DROPOUT]
    moments = [Moment(*place) for place in ((0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 0, 0))]
    for number, moment in enumerate(moments):
        train_batch(network, device, images, labels, number == 0, moment=moment)
        seen.append([network.read(device, name) == 0 for name in names])
        for zeros, mask in zip(seen[-1], masks(network, moment), strict=True):
            assert zeros.transpose(0, 3, 1, 2)[mask.numpy() == 0].all()
    shares = [[(one ^ other).mean() for one, other in zip(seen[0], each, strict=True)] for each in seen[1:]]
    assert np.min(shares[:3]) > 0.05 and np.max(shares[3]) == 0
    found = predict(network, device, images)
    expected = module.eval()(torch.from_numpy(images)).detach().numpy()
    np.testing.assert_allclose(found, expected, atol=3e-3)
    np.testing.assert_array_equal(predict(network, device, images), found)


@pytest.mark.parametrize("config", [BASE, replace(BASE, dropout=False)], ids=["device", "host"])
def test_batches_without_a_moment_follow_each_other(config):
    """On the machine and on the host, also in a restored network on a device that has counted other batches."""
    module, network, images, labels = made(config=config)
    device, other = GoldenDevice(config, MEMORY), GoldenDevice(config, MEMORY)
    network.load_state(device, module.state_dict(), SEED)
    network.set_hyper(device, 0.0, 0.0, 0.0)

    def logits(device, moment, calibrate=False):
        return train_batch(network, device, images, labels, calibrate, moment=moment)[1].tolist()

    logits(device, None, calibrate=True)
    state = network.snapshot(device)

    def run(device, *moments):
        network.restore(device, state)
        network.set_hyper(device, 0.0, 0.0, 0.0)
        first = logits(device, moments[0])
        predict(network, device, images)
        return [first, *(logits(device, moment) for moment in moments[1:])]

    expected = run(device, *(Moment(SEED, 0, batch) for batch in (1, 2, 3)))
    other.set_batch(40)
    assert run(device, None, None, None) == run(other, None, None, None) == expected
    assert run(device, Moment(SEED), None, None)[1:] == expected[:2] and expected[0] != expected[1] != expected[2]


def test_two_devices_are_compared_with_the_same_masks():
    """Whatever batch each of them has counted to."""
    module, network, *_ = made()
    one, other = GoldenDevice(BASE, MEMORY), GoldenDevice(BASE, MEMORY)
    other.set_batch(9)
    other.set_seed(5)
    assert compare(network, one, other, module.state_dict(), SEED) is None
    other.set_batch = lambda batch: GoldenDevice.set_batch(other, batch + 1)
    found = compare(network, one, other, module.state_dict(), SEED)
    assert found.batch == 0 and found.tensor == "early.Dropout.output"


def run_of(device):
    return HashedRun(Dropped, IMAGE, BATCH, device, SEED)


@pytest.mark.parametrize("variant", ["baseline", "max"])
def test_golden_and_simulated_rtl_train_alike(variant):
    """Batches of BP, and of GP where gradients are predicted; the memory stalls at random."""
    run = run_of(GoldenDevice(DESIGNS[variant], MEMORY))
    expected = run.go()
    stalling = {"memory_bytes": MEMORY, "limit": 40_000_000, "stall": 0.2, "seed": 3}
    with contextlib.closing(SimDevice(DESIGNS[variant], **stalling)) as device:
        assert run_of(device).go() == expected
    assert run.trainer.progress.batches[2] == (4 if variant == "max" else 0)
    assert len(set(expected)) == len(expected) > 5


@pytest.mark.parametrize("variant", ["baseline", "max"])
def test_a_killed_run_goes_on_with_the_same_bits(variant):
    """On a device that has counted no batch yet; its masks depend on the place in the run alone."""
    undisturbed = run_of(GoldenDevice(DESIGNS[variant], MEMORY)).go()
    first = run_of(GoldenDevice(DESIGNS[variant], MEMORY))
    first.stop_after = 4
    with pytest.raises(InterruptedError):
        first.go()
    second = run_of(GoldenDevice(DESIGNS[variant], MEMORY))
    second.network.restore(second.device, first.network.snapshot(first.device))
    second.trainer.progress = deepcopy(first.trainer.progress)
    assert first.hashes + second.go() == undisturbed


@pytest.mark.parametrize("seed", [1, 4])
def test_random_graphs_in_rtl(seed):
    made_here = [made(lambda: graph(seed), DESIGNS["max"]) for _ in range(2)]
    hashes = []
    devices = (
        GoldenDevice(DESIGNS["max"], MEMORY),
        SimDevice(DESIGNS["max"], memory_bytes=MEMORY, limit=40_000_000, stall=0.2, seed=seed),
    )
    for device, (module, network, images, labels) in zip(devices, made_here, strict=True):
        with contextlib.closing(device):
            network.load_state(device, module.state_dict())
            network.set_hyper(device, RATE, 0.9, 0.0)
            hashes.append([])
            for batch in range(3):
                train_batch(network, device, images, labels, batch == 0, moment=Moment(0, 0, batch))
                hashes[-1].append(network.weights_hash(device))
    assert hashes[0] == hashes[1] and len(set(hashes[0])) == 3
