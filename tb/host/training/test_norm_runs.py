"""Batch norm on the device: a residual network against torch in float64, its statistics, GP batches, resumed runs."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from adagp.host.compiler.front_end import graph_of
from adagp.host.compiler.lowering import Kind
from adagp.host.devices.golden import GoldenDevice
from adagp.host.training.inference import predict
from adagp.host.training.models import build_model
from adagp.host.training.network import Network
from adagp.spec.commands import Opcode, Phase
from adagp.spec.phases import BP, EVALUATION, GP, WARMUP
from adagp.spec.presets import preset
from batches import steps_are_gradients, train_batch
from torch import nn
from torch.nn import functional

TINY = replace(preset("tiny"), batch_norm=True, n_tensors=512)
MEMORY, SEED, BATCH, IMAGE, CLASSES = 8 << 20, 11, 6, (3, 8, 8), 4
HYPER = {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.01}


class Residual(nn.Module):
    """A residual block with batch norms, one in another concatenation, and one of rows."""

    def __init__(self):
        super().__init__()
        self.first, self.norm1 = nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6, momentum=0.25)
        self.second, self.norm2 = nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.third, self.norm3 = nn.Conv2d(6, 5, 1), nn.BatchNorm2d(5, eps=1e-3)
        self.norm4 = nn.BatchNorm2d(11)
        self.fourth, self.norm5 = nn.Linear(11, 7), nn.BatchNorm1d(7)
        self.head = nn.Linear(7, CLASSES)

    def forward(self, x):
        x = functional.relu(self.norm1(self.first(x)))
        x = functional.relu(self.norm2(self.second(x)) + x)
        x = torch.cat([x, functional.relu(self.norm3(self.third(x)))], 1)
        x = functional.adaptive_avg_pool2d(functional.relu(self.norm4(x)), 1).flatten(1)
        return self.head(functional.relu(self.norm5(self.fourth(x))))


class Reread(nn.Module):
    """A dense block whose norms read parts of a concatenation before a much larger one is there."""

    def __init__(self):
        super().__init__()
        self.first, self.norm1 = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.norm2, self.second, self.head = nn.BatchNorm2d(8), nn.Conv2d(8, 4, 3, padding=1), nn.Linear(12, CLASSES)
        with torch.no_grad():
            self.first.weight /= 4
            self.first.bias /= 4
            self.second.weight *= 4

    def forward(self, x):
        x = self.first(x)
        x = torch.cat([x, functional.relu(self.norm1(x))], 1)
        x = torch.cat([x, self.second(self.norm2(x))], 1)
        return self.head(functional.adaptive_avg_pool2d(x, 1).flatten(1))


def made(config=TINY, module=None, **options):
    print(f"seed {SEED}")
    torch.manual_seed(SEED)
    module = (module or Residual()).double().train()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.uniform_(part.bias, -0.5, 0.5)
    return module, Network(module, IMAGE, BATCH, config, **options)


def drawn(number):
    rng = np.random.default_rng([SEED, number])
    return rng.uniform(-1, 1, (BATCH, *IMAGE)), rng.integers(0, CLASSES, BATCH)


def train(network, device, number, phase=WARMUP, calibrate=False):
    found = train_batch(network, device, *drawn(number), calibrate, phase)
    return found and found[1]


def loaded(network, module, config=TINY):
    device = GoldenDevice(config, MEMORY)
    network.load_state(device, module.state_dict(), SEED)
    network.set_hyper(device, *HYPER.values())
    if config.predicts:
        network.set_adam(device, 1e-3)
    return device


def test_all_of_a_residual_network_is_on_the_device():
    _, network = made()
    graph, program = network.compiled.graph, network.program
    assert not network.islands and len(network.normed) == 5
    fused = {layer.name: (len(layer.inputs), layer.relu) for layer in network.normed}
    assert fused == {
        "norm1.BatchNorm2d": (1, True), "norm2.BatchNorm2d": (2, True), "norm3.BatchNorm2d": (1, True),
        "norm4.BatchNorm2d": (1, True), "norm5.BatchNorm1d": (1, True),
    }  # fmt: skip
    assert sum(layer.kind is Kind.AVGPOOL for layer in graph.layers) == 1
    trained = [line.command.opcode for line in program if line.command.phase_mask & Phase.BP]
    counts = {opcode: trained.count(opcode) for opcode in Opcode}
    norms = ("NORM_CONSTANTS", "NORM_APPLY", "NORM_BACKWARD", "NORM_APPLY_BACKWARD")
    assert [counts[Opcode[name]] for name in norms] == [5] * 4 and counts[Opcode.NORM_SUMS] == 10
    assert not counts[Opcode.NORM_RUNNING] and not counts[Opcode.AVGPOOL_BACKWARD] - 1
    evaluated = [line.command.opcode for line in program if line.command.phase_mask & Phase.EVAL]
    assert evaluated.count(Opcode.NORM_RUNNING) == evaluated.count(Opcode.NORM_APPLY) == 5
    assert Opcode.NORM_CONSTANTS not in evaluated and Opcode.NORM_SUMS not in evaluated


def test_without_the_hardware_the_host_computes_it():
    graph = graph_of(Residual(), IMAGE, BATCH, replace(TINY, batch_norm=False))
    assert len(graph.islands) == 5 and all(layer.kind is not Kind.NORM for layer in graph.layers)


@pytest.mark.parametrize("options", [{"affine": False}, {"track_running_stats": False}, {"momentum": 1.0}])
def test_forms_that_the_device_lacks_are_the_hosts(options):
    module = Residual()
    module.norm1 = nn.BatchNorm2d(6, **options)
    graph = graph_of(module, IMAGE, BATCH, TINY)
    assert [island.name.partition(".")[0] for island in graph.islands] == ["norm1"]


def test_training_follows_torch():
    module, network = made()
    first = {name: value.clone() for name, value in module.state_dict().items()}
    device, optimiser = loaded(network, module), torch.optim.SGD(module.parameters(), **HYPER)
    for step in range(6):
        logits = train(network, device, step, calibrate=step == 0)
        images, labels = map(torch.from_numpy, drawn(step))
        expected = module(images)
        np.testing.assert_allclose(logits, expected.detach().numpy(), atol=3e-2)
        optimiser.zero_grad()
        functional.cross_entropy(expected, labels).backward()
        optimiser.step()
    state = network.state_dict(device)
    assert list(state) == list(first) and device.counters(WARMUP)["saturations"] < 100
    for name, value in module.state_dict().items():
        assert (value != first[name]).any(), name
        np.testing.assert_allclose(state[name], value, atol=1e-2, rtol=1e-2, err_msg=name)
    assert state["norm1.num_batches_tracked"] == 6
    Residual().load_state_dict(state)
    module.load_state_dict(state)
    images, before = drawn(9)[0][:4], network.snapshot(device)
    expected = module.eval()(torch.from_numpy(images)).detach().numpy()
    np.testing.assert_allclose(predict(network, device, images), expected, atol=4e-3)
    after = network.snapshot(device)
    assert {name for name in before if not np.array_equal(before[name], after[name])} <= {"exponents"}


@pytest.mark.parametrize("batch_norm, micro_batches", [(True, 1), (False, 1), (True, 3)])
def test_evaluation_has_exponents_of_its_own(batch_norm, micro_batches):
    """Statistics of one batch, a hundredth of the variance: results grow tenfold with each norm, first images less."""
    module, _ = made()
    for part in module.modules():
        if isinstance(part, (nn.BatchNorm1d, nn.BatchNorm2d)):
            part.momentum, part.running_var[:] = 0.01, 0
    module, network = made(config := replace(TINY, batch_norm=batch_norm), module, micro_batches=micro_batches)
    images, labels = drawn(0)
    train_batch(network, device := loaded(network, module, config), images, labels[: BATCH // micro_batches], True)
    before = network.snapshot(device)
    images = np.concatenate([drawn(number)[0] * size for number, size in enumerate((0.1, 1, 0.2))])[:-2]
    images[np.arange(len(images)) % BATCH < micro_batches - 1] *= 0.02
    found = predict(network, device, images)
    module.load_state_dict(network.state_dict(device))
    expected = module.eval()(torch.from_numpy(images)).detach().numpy()
    assert np.abs(expected).max() > 100
    np.testing.assert_allclose(found, expected, atol=np.abs(expected).max() / 200)
    changed = {name for name, value in network.snapshot(device).items() if not np.array_equal(before[name], value)}
    assert changed <= (set() if batch_norm else {"exponents"})  # those of what the host computes


def calibrated(network, module, rate):
    """Train the batch that calibrates, whose weights' steps are its gradients, and let PyTorch find these too.

    Returns the device, and the module's state before.
    """
    device = loaded(network, module)
    network.set_hyper(device, rate, 0.0, 0.0)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    train(network, device, 0, calibrate=True)
    images, labels = map(torch.from_numpy, drawn(0))
    functional.cross_entropy(module(images), labels).backward()
    return device, before


def test_calibrated_gradients_are_those_of_torch():
    """One batch, whose weights' steps are its gradients; results near 0 may be on the other side of a ReLU."""
    rate = 2.0**-6
    module, network = made()
    device, before = calibrated(network, module, rate)
    after, checked, errors, norms = network.state_dict(device), 0, 0.0, 0.0
    for name, parameter in module.named_parameters():
        moved, norm = (before[name] - after[name]) / rate, float(parameter.grad.norm())
        error = float((moved - parameter.grad).norm())
        if norm > 1e-3:  # a bias before a norm has none
            assert error < 0.1 * norm, name
            checked += 1
        errors, norms = errors + error**2, norms + norm**2
    assert checked >= 14 and errors**0.5 < 1e-2 * norms**0.5


def test_norms_have_read_a_part_when_calibration_joins_a_larger_one():
    """The constants of the forward pass are then of other mantissas than the backward pass reads."""
    torch.manual_seed(SEED)
    rate, module = 2.0**-6, Reread()
    module, network = made(module=module)
    assert not network.islands and [len(stop.normed) for stop in network.compiled.calibrating_stops][:3] == [0, 1, 2]
    device, before = calibrated(network, module, rate)
    assert steps_are_gradients(module, before, network.state_dict(device), rate) > 6


def test_a_branch_that_begins_at_zero_is_trained_from_the_fourth_batch():
    """The batch that calibrates has no gradients for it; the next ones still raise its momenta's exponents."""
    module, network = made()
    nn.init.zeros_(module.norm2.weight)
    device = loaded(network, module)
    network.set_hyper(device, HYPER["lr"], HYPER["momentum"], 0.0)  # decay alone would set the exponents
    cut, states = [], []
    for number in range(7):
        train(network, device, number, calibrate=number == 0)
        cut.append(device.counters(WARMUP)["saturations"])
        states.append(network.state_dict(device))
    steps = [float((states[end]["second.weight"] - states[end - 3]["second.weight"]).norm()) for end in (3, 6)]
    print(cut, steps)
    assert 4 * steps[0] < steps[1]
    assert cut[0] == 0 and cut[3] > 100 and cut[6] - cut[3] < 10


def test_gamma_and_beta_stay_in_gp_batches_and_statistics_move():
    config = replace(TINY, variant="max")
    module, network = made(config, source="predicted")
    device, states = loaded(network, module, config), []
    for number, phase in enumerate((WARMUP, BP, GP, GP)):
        train(network, device, number, phase, calibrate=not number)
        states.append(network.state_dict(device))
    (_, _, before, after) = states
    for part in ("norm1", "norm4", "norm5"):
        for name in ("weight", "bias"):
            assert torch.equal(before[f"{part}.{name}"], after[f"{part}.{name}"])
            assert not torch.equal(states[0][f"{part}.{name}"], states[1][f"{part}.{name}"])
        for name in ("running_mean", "running_var"):
            assert not torch.equal(before[f"{part}.{name}"], after[f"{part}.{name}"])
        assert after[f"{part}.num_batches_tracked"] == 4
    assert not torch.equal(before["second.weight"], after["second.weight"])


@pytest.mark.parametrize("variant", ["baseline", "max"])
def test_a_restored_run_goes_on_with_the_same_bits(variant):
    config = replace(TINY, variant=variant)
    source, phases = (None, (WARMUP,) * 4) if variant == "baseline" else ("predicted", (WARMUP, BP, GP, BP))
    module, network = made(config, source=source)
    device, hashes = loaded(network, module, config), []
    for number, phase in enumerate(phases):
        if number == 2:
            arrays = network.snapshot(device)
        train(network, device, number, phase, calibrate=not number)
        hashes.append(network.weights_hash(device))
    again = GoldenDevice(config, MEMORY)
    network.restore(again, arrays)
    network.set_hyper(again, *HYPER.values())
    if source:
        network.set_adam(again, 1e-3)
    assert network.weights_hash(again) == hashes[1]
    for number in (2, 3):
        train(network, again, number, phases[number])
        assert network.weights_hash(again) == hashes[number]
    arrays["norm1.BatchNorm2d.statistics"] = np.roll(arrays["norm1.BatchNorm2d.statistics"], 1)
    network.restore(again, arrays)
    assert network.weights_hash(again) != hashes[1]


def test_a_frozen_norm_keeps_gamma_and_beta():
    module = Residual()
    module.norm2.requires_grad_(False)
    module, network = made(module=module)
    device = loaded(network, module)
    first = {name: value.clone() for name, value in module.state_dict().items()}
    for number in range(2):
        train(network, device, number, calibrate=not number)
    after = network.state_dict(device)
    np.testing.assert_allclose(after["norm2.weight"], first["norm2.weight"], atol=2**-20)
    assert not np.allclose(after["norm1.weight"], first["norm1.weight"], atol=1e-4)
    assert not np.allclose(after["second.weight"], first["second.weight"], atol=1e-4)
    assert not np.allclose(after["norm2.running_mean"], first["norm2.running_mean"], atol=1e-4)


def test_resnet20_has_no_host():
    module = build_model("resnet20", IMAGE, CLASSES, SEED)
    network = Network(module, IMAGE, BATCH, TINY)
    assert not network.islands and len(network.normed) == 21
    device = loaded(network, module)
    module.double()
    logits = train(network, device, 0, calibrate=True)
    np.testing.assert_allclose(logits, module(torch.from_numpy(drawn(0)[0])).detach().numpy(), atol=2e-2)
    assert train(network, device, 1, EVALUATION) is not None
