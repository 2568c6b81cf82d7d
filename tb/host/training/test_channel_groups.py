"""Convolutions in groups: golden against PyTorch in float64, simulated RTL against golden, commands and refusals."""

import contextlib
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from adagp.host.compiler.costs import costs
from adagp.host.compiler.front_end import graph_of
from adagp.host.compiler.lowering import LoweringError
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.program import MAX_COMMANDS
from adagp.host.training.network import Network
from adagp.spec.commands import CMode, Opcode
from adagp.spec.numerics import HEADROOM_BITS
from adagp.spec.opcodes import COMPUTE, GEMMS, UPDATES
from adagp.spec.phases import BP, GP, WARMUP
from batches import train_batch
from random_programs import DESIGNS
from torch import nn

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

TINY = DESIGNS["baseline"]
BATCH, IMAGE, N_CLASSES, MEMORY, SEED = 4, (2, 7, 6), 4, 8 << 20, 8
GROUPS = {"first": 2, "inner": 2, "wide": 8, "beside": 2, "last": 4}


class Grouped(nn.Module):
    """Groups with and without biases and strides, in a sum with ReLU, as a part of a concatenation and reading one."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(IMAGE[0], 8, 3, padding=1, groups=2)  # which reads the ring of inputs
        self.inner = nn.Conv2d(8, 8, 3, padding=1, groups=2, bias=False)
        self.wide = nn.Conv2d(8, 16, 1, groups=8)  # two filters for each channel
        self.beside = nn.Conv2d(8, 4, 3, padding=1, groups=2)
        self.last = nn.Conv2d(20, 8, (3, 5), stride=2, padding=(1, 2), groups=4)
        self.head = nn.Linear(8 * 4 * 3, N_CLASSES)

    def forward(self, x):
        x = torch.relu(self.first(x))
        y = torch.relu(self.inner(x) + x)
        return self.head(torch.relu(self.last(torch.cat([self.beside(x), self.wide(y)], 1))).flatten(1))


def build(kind=Grouped):
    print(f"seed {SEED}")
    torch.manual_seed(SEED)
    return kind().double().train()


def chain():
    layers = nn.Conv2d(2, 6, 3), nn.ReLU(), nn.Conv2d(6, 4, 3, groups=2), nn.ReLU(), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(4 * 3 * 2, N_CLASSES))


def batches(count):
    rng = np.random.default_rng(SEED)
    return [(rng.uniform(-1, 1, (BATCH, *IMAGE)), rng.integers(0, N_CLASSES, BATCH)) for _ in range(count)]


@pytest.mark.parametrize("frozen", ["", "inner"])
@pytest.mark.parametrize("kind", [Grouped, chain])
def test_batches_are_those_of_torch(kind, frozen):
    """Momentum and decay included; the first batch calibrates, later ones have its exponents."""
    module = build(kind)
    part = {Grouped: "inner", chain: "2"}[kind]
    module.get_submodule(part).requires_grad_(not frozen)
    network, device = Network(module, IMAGE, BATCH, TINY), GoldenDevice(TINY, MEMORY)
    assert not network.compiled.graph.islands
    first = deepcopy(module.state_dict())
    network.load_state(device, first)
    for name, tensor in network.state_dict(device).items():
        torch.testing.assert_close(tensor, first[name], atol=1e-6, rtol=1e-6)
    network.set_hyper(device, 0.02, 0.9, 0.01)
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], 0.02, 0.9, weight_decay=0.01)
    for step, (images, labels) in enumerate(batches(3)):
        _, logits = train_batch(network, device, images, labels, calibrate=not step)
        expected = module(torch.from_numpy(images))
        torch.testing.assert_close(torch.from_numpy(logits), expected.detach(), atol=5e-3, rtol=5e-3)
        optimizer.zero_grad()
        nn.functional.cross_entropy(expected, torch.from_numpy(labels)).backward()
        optimizer.step()
    after = network.state_dict(device)
    assert list(after) == list(first) == [name for name, _ in module.named_parameters()]
    for name, parameter in module.named_parameters():
        trained = parameter.detach()
        moved, wrong = float((trained - first[name]).norm()), float((trained - after[name]).norm())
        assert (moved == 0) == (not parameter.requires_grad) and wrong <= 0.02 * moved + 1e-4, name
    assert device.counters(WARMUP)["saturations"] == 0


def run(network, state, device, phases):
    """The weights' hash and the state after each batch."""
    network.load_state(device, state, SEED)
    network.set_hyper(device, 0.07, 0.9, 0.002)
    if network.config.predicts:
        network.set_adam(device, 0.01)
    for number, (phase, batch) in enumerate(zip(phases, batches(len(phases)), strict=True)):
        train_batch(network, device, *batch, number == 0, phase)
        yield network.weights_hash(device), network.state_dict(device)


@pytest.mark.parametrize("variant", ["baseline", "efficient", "max"])
def test_simulated_rtl_trains_as_golden(variant):
    """In GP each group's weights move by predictions, and biases stay."""
    module, config = build(), DESIGNS[variant]
    source, phases = ("predicted", [WARMUP, WARMUP, BP, GP, GP, BP]) if config.predicts else (None, [WARMUP] * 3)
    states, hashes = [], []
    with contextlib.closing(SimDevice(config, memory_bytes=MEMORY, limit=50_000_000, stall=0.1, seed=SEED)) as device:
        for each in (GoldenDevice(config, MEMORY), device):
            network = Network(module, IMAGE, BATCH, config, source=source)
            assert network.compiled.unpredicted == {}
            found = list(run(network, module.state_dict(), each, phases))
            hashes.append([weights for weights, _ in found])
            states = [state for _, state in found]
    assert hashes[0] == hashes[1] and len(set(hashes[0])) == len(phases)
    if not source:
        return
    for name, groups in GROUPS.items():
        for filters in range(groups):
            weights = [state[f"{name}.weight"].chunk(groups)[filters] for state in states]
            assert all(not torch.equal(one, other) for one, other in pairwise(weights)), (name, filters)
    biases = [not torch.equal(one["last.bias"], other["last.bias"]) for one, other in pairwise(states)]
    assert biases == [True, True, False, False, True]


def test_the_predictor_sees_the_means_of_all_filters_windows():
    module, config = build(), DESIGNS["max"]
    network, device = Network(module, IMAGE, BATCH, config, source="predicted"), GoldenDevice(config, MEMORY)
    seen = {}
    for name in GROUPS:
        module.get_submodule(name).register_forward_hook(lambda _, args, out, name=name: seen.update({name: out}))
    (*_, (_, state)) = run(network, module.state_dict(), device, [WARMUP, BP])  # then all layers have one exponent
    network.set_hyper(device, 0.0, 0.0, 0.0)
    module.load_state_dict(state)
    images, labels = batches(1)[0]
    train_batch(network, device, images, labels, False, BP)
    module(torch.from_numpy(images))
    for name in ("wide", "beside", "last"):  # the other one adds a value before the sums
        out = torch.relu(seen[name]) if name == "last" else seen[name]
        h, w = out.shape[2] // 2, out.shape[3] // 2
        out = out[:, :, : 2 * h, : 2 * w].reshape(BATCH, -1, 2, h, 2, w).mean((0, 3, 5))
        expected, found = out.detach().numpy().ravel(), network.read(device, f"{name}.Conv2d.reorganised").ravel()
        assert (
            np.corrcoef(expected, found)[0, 1] > 0.9999 and len(expected) == 4 * module.get_submodule(name).out_channels
        )


def test_a_group_s_filters_are_what_the_drain_must_hold():
    config = replace(DESIGNS["max"], n_filters=3)
    source = Network(build(), IMAGE, BATCH, config, source="predicted").compiled.source
    groups = dict.fromkeys(("first.Conv2d", "inner.Conv2d"), "4 filters in a group, the predictor of tiny is for 3")
    assert source.unpredicted == {**groups, "head.Linear": "4 filters, the predictor of tiny is for 3"}


def test_each_group_is_a_command_and_waits_for_no_other():
    module = build()
    network = Network(module, IMAGE, BATCH, TINY)
    main = [line.command for line in network.program if line.command.opcode in COMPUTE]
    found = {name: [line.command for line in network.program if line.name == f"{name}.Conv2d"] for name in GROUPS}
    for name, groups in GROUPS.items():
        conv = module.get_submodule(name)
        for opcode in GEMMS:
            if name == "first" and opcode == Opcode.BACKWARD_DATA:
                continue
            commands = [c for c in found[name] if c.opcode == opcode]
            assert len(commands) == groups, (name, opcode)
            assert {(c.c, c.q) for c in commands} == {(conv.in_channels // groups, conv.out_channels // groups)}
            assert max(c.wait_main for c in commands) <= main.index(commands[0]), (name, opcode)
        assert len([c for c in found[name] if c.opcode in UPDATES]) == 1
    modes = {CMode(c.c_mode) for c in found["inner"] + found["beside"] if c.opcode == Opcode.BACKWARD_DATA}
    assert modes & {CMode.ADD, CMode.ADD_MASK}
    macs = {cost.name: cost.macs for cost in costs(network.compiled, module.state_dict())}
    forward = BATCH * 7 * 6 * 8 * 9 * 4
    assert macs["inner.Conv2d"] == 3 * forward
    assert "device inner.Conv2d conv in 2 groups relu" in network.compiled.graph.describe()


def test_more_images_than_a_sum_holds_take_several_commands_a_group():
    """The gradient of the weights is then a sum of partial ones."""
    module, batch = build(), 60
    config = replace(TINY, acc_width=42, batch_norm=False)
    assert 42 * batch > config.max_reduction
    network, device = Network(module, IMAGE, batch, config), GoldenDevice(config, MEMORY)
    first = deepcopy(module.state_dict())
    network.load_state(device, first)
    network.set_hyper(device, 0.25, 0.0, 0.0)
    count = sum(line.command.opcode == Opcode.BACKWARD_WEIGHT for line in network.program if "wide" in line.name)
    assert count % GROUPS["wide"] == 0 and count > GROUPS["wide"]
    rng = np.random.default_rng(SEED)
    images, labels = rng.uniform(-1, 1, (batch, *IMAGE)), rng.integers(0, N_CLASSES, batch)
    train_batch(network, device, images, labels, calibrate=True)
    nn.functional.cross_entropy(module(torch.from_numpy(images)), torch.from_numpy(labels)).backward()
    after = network.state_dict(device)
    for name, parameter in module.named_parameters():
        moved, norm = (first[name] - after[name]) / 0.25, float(parameter.grad.norm())
        assert float((moved - parameter.grad).norm()) < 0.05 * norm + 5e-4 < norm, name


@pytest.mark.parametrize("factors", [(0, 0, 2**-9, 0), (1, 2**-6, 0, 2**6), (2**6, 2**-6, 2**-6, 0)])
def test_calibration_finds_the_exponent_of_the_largest_group(factors):
    """Groups of zeros, small ones after a large one and before it."""
    module = build()
    with torch.no_grad():
        for weights, biases, factor in zip(
            module.last.weight.chunk(4), module.last.bias.chunk(4), factors, strict=True
        ):
            weights *= factor
            biases *= factor
    network, device = Network(module, IMAGE, BATCH, TINY), GoldenDevice(TINY, MEMORY)
    network.load_state(device, module.state_dict())
    network.set_hyper(device, 0.0, 0.0, 0.0)
    seen = {}
    module.last.register_forward_hook(lambda _, args, out: seen.update(y=torch.relu(out), x=args[0]))
    images, labels = batches(1)[0]
    expected = module(torch.from_numpy(images))
    loss = nn.functional.cross_entropy(expected, torch.from_numpy(labels))
    (dx,) = torch.autograd.grad(loss, seen["x"])
    made = network.compiled.graph.producers["last.Conv2d.output"].inputs[0]
    for step in range(2):
        _, logits = train_batch(network, device, images, labels, calibrate=not step)
        np.testing.assert_allclose(logits, expected.detach().numpy(), atol=4e-3, rtol=4e-3)
        for name, values in (("last.Conv2d.output", seen["y"]), (made.replace("output", "gradient"), dx)):
            number = next(tensor.number for key, tensor in network.tensors.items() if key == name)
            needed = int(np.frexp(float(values.detach().abs().max()))[1]) + HEADROOM_BITS - (TINY.operand_width - 1)
            assert device.exponents(number)[0] == needed, name


def test_many_layers_in_groups_fit_or_take_too_many_commands():
    """The limit of a layer's groups keeps no batch from having more commands than there are numbers."""
    config = replace(TINY, n_tensors=1024)

    def compiled(layers, groups):
        convs = (nn.Conv2d(2 * groups, 2 * groups, 1, groups=groups, bias=False) for _ in range(layers))
        return Network(nn.Sequential(*convs, nn.Flatten(), nn.Linear(2 * groups, 2)), (2 * groups, 1, 1), 1, config)

    program = compiled(8, 32).program
    assert 8 * 3 * 32 - 32 < len(program) < MAX_COMMANDS
    with pytest.raises(LoweringError, match=rf"takes \d+ commands, and {MAX_COMMANDS} are the limit; each group"):
        compiled(45, 256)


def test_too_many_groups_stay_on_the_host_and_it_says_why():
    convs = nn.Conv2d(2, 514, 1), nn.Conv2d(514, 514, 1, groups=257), nn.Flatten(), nn.Linear(514 * 42, 2)
    (island,) = graph_of(nn.Sequential(*convs), IMAGE, BATCH, TINY).islands
    assert island.reasons == (("conv2d", "1.Conv2d", "groups = 257, more than 256"),)
