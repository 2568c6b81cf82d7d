"""Batches in micro-batches: sums of gradients by hand and as PyTorch's, simulated RTL as golden, errors."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from adagp.host.compiler.lowering import LoweringError
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.training.inference import predict
from adagp.host.training.loss import softmax_cross_entropy
from adagp.host.training.network import Network
from adagp.host.training.run_folder import RunFolder
from adagp.host.training.session import open_session
from adagp.host.training.settings import SettingsError, TrainSettings
from adagp.host.training.trainer import Trainer
from adagp.spec.commands import Opcode
from adagp.spec.phases import BP, GP, WARMUP
from adagp.spec.presets import preset
from adagp.spec.registers import Status
from random_programs import DESIGNS
from torch import nn
from torch.nn import functional as F

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

SEED, IMAGE, BATCH, MICRO_BATCHES, N_CLASSES, MEMORY = 7, (2, 8, 8), 12, 4, 3, 8 << 20
TINY, SWITCHED = preset("tiny"), DESIGNS["baseline"]
RATE = 2.0**-7


def plain():
    """Convolutions with and without biases, pools, and two linear layers."""
    return nn.Sequential(
        nn.Conv2d(2, 5, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(5, 7, (3, 2), bias=False), nn.ReLU(),
        nn.Flatten(), nn.Linear(42, 9), nn.ReLU(), nn.Linear(9, N_CLASSES),
    )  # fmt: skip


class Switched(nn.Module):
    """What needs switches: batch norm, a depthwise convolution, one in groups, and a skip connection."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(2, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.depthwise, self.grouped = nn.Conv2d(6, 6, 3, padding=1, groups=6), nn.Conv2d(6, 6, 1, groups=2)
        self.last = nn.Linear(6 * 16, N_CLASSES)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.norm(self.first(x))), 2)
        return self.last(torch.flatten(torch.relu(x + self.grouped(torch.relu(self.depthwise(x)))), 1))


KINDS = {"plain": (plain, TINY), "switched": (Switched, SWITCHED), "predicted": (plain, replace(TINY, variant="low"))}


class Run:
    """A network on a device, and its batches."""

    def __init__(self, kind, device=None, config=None, batch=BATCH):
        print(f"seed {SEED}")
        torch.manual_seed(SEED)
        make, usual = KINDS[kind]
        self.module, config = make().double().train(), config or usual
        source = "predicted" if config.predicts else None
        self.network = Network(self.module, IMAGE, batch, config, source=source, micro_batches=MICRO_BATCHES)
        self.device = device or GoldenDevice(config, MEMORY)
        self.network.load_state(self.device, self.module.state_dict())
        self.network.set_hyper(self.device, RATE, 0.0, 0.0)
        self.draw = np.random.default_rng(SEED)

    def batch(self, calibrate=False, seen=lambda: None, phase=WARMUP):
        """Train a batch, calling ``seen`` at each pass' loss and at the end; returns images and labels."""
        size = self.network.batch
        images, labels = self.draw.uniform(-1, 1, (size, *IMAGE)), self.draw.integers(0, N_CLASSES, size)
        self.network.write_input(self.device, images)
        self.network.start(self.device, phase, calibrate=calibrate)
        if phase == GP:
            assert self.network.wait(self.device) & Status.DONE
            return images, labels
        assert self.network.wait(self.device) & Status.HOST
        assert self.network.passes == (1 if calibrate else MICRO_BATCHES)
        for part in np.split(labels, MICRO_BATCHES)[: self.network.passes]:
            seen()
            gradient = softmax_cross_entropy(self.network.read_logits(self.device), part)[1]
            self.network.write_loss_gradient(self.device, gradient)
            self.device.resume()
            status = self.network.wait(self.device)
        assert status & Status.DONE
        seen()
        return images, labels


def product(layer, x, gradient):
    """The gradient of a layer's weights as its rows lie in memory, in float64."""
    x_NCHW, gradient_NQHW = (torch.from_numpy(each.transpose(0, 3, 1, 2).copy()) for each in (x, gradient))
    shape = layer.q, layer.c, layer.r, layer.s
    weights = F.grad.conv2d_weight(x_NCHW, shape, gradient_NQHW, padding=(layer.pad_y, layer.pad_x))
    bias = gradient_NQHW.sum((0, 2, 3)) if layer.bias else torch.zeros(layer.q)
    return torch.cat([weights.permute(0, 2, 3, 1).reshape(layer.q, -1), bias[:, None]], 1).numpy()


@pytest.mark.parametrize(("acc_width", "batch"), [(TINY.acc_width, BATCH), (42, 11 * BATCH)])
def test_gradients_are_sums_of_products(acc_width, batch):
    """Each command rounds its sum once: by half an LSB at most. A narrow accumulator takes several commands."""
    config = replace(TINY, acc_width=acc_width)
    run = Run("plain", config=config, batch=batch)
    network, device = run.network, run.device
    run.batch(calibrate=True)
    trained, tensors = network.trained, network.tensors
    lsb = {name: 2.0 ** device.exponents(each.number)[0] for name, each in tensors.items() if each.number >= 0}
    pending, total = {}, {layer.name: 0.0 for layer in trained}
    passes = 0

    def values(name, first=0):
        tensor = tensors[name]
        exponent = 2.0 ** device.exponents(tensor.number)[0] if name == "loss.gradient" else lsb[name]
        found = device.read(tensor.address + first, tensor.n_bytes).view(tensor.dtype).reshape(tensor.shape)
        return found * exponent

    def seen():
        """The gradients of the pass before are still in memory."""
        nonlocal passes
        for layer in trained:
            result = "loss.gradient" if layer is trained[-1] else f"{layer.name}.gradient"
            if layer.name in pending:
                total[layer.name] = total[layer.name] + product(layer, pending[layer.name], values(result))
            first = passes * network.compiled.entry_bytes // MICRO_BATCHES if layer.inputs[0] == "input" else 0
            pending[layer.name] = values(layer.inputs[0], first)
        passes += 1

    run.batch(seen=seen)
    commands = [line for line in network.program if line.command.opcode == Opcode.BACKWARD_WEIGHT]
    pieces = -(-batch // MICRO_BATCHES // (config.max_reduction // 64))  # of the first layer's results in a micro-batch
    assert passes == MICRO_BATCHES + 1 and pieces == (1 if batch == BATCH else 2)
    for layer in trained:
        name = f"{layer.name}.weight_gradient"
        mine, exact = network.read(device, name) * lsb[name], total[layer.name]
        rounded = sum(line.name == layer.name for line in commands)
        assert rounded == MICRO_BATCHES * (pieces if layer is trained[0] else 1)
        assert np.abs(exact).max() > 100 * lsb[name], name
        assert np.abs(mine - exact).max() <= rounded * lsb[name] / 2, name


@pytest.mark.parametrize("kind", ["plain", "switched"])
def test_a_batch_moves_weights_by_pytorchs_gradient(kind):
    """The gradient of the whole batch; batch norm's statistics are each micro-batch's, and move in their order."""
    run = Run(kind)
    run.batch(calibrate=True)
    before = run.network.state_dict(run.device)
    module = KINDS[kind][0]().double().train()
    module.load_state_dict(before)
    images, labels = run.batch()
    for x, y in zip(np.split(images, MICRO_BATCHES), np.split(labels, MICRO_BATCHES), strict=True):
        (F.cross_entropy(module(torch.from_numpy(x)), torch.from_numpy(y)) / MICRO_BATCHES).backward()
    after = run.network.state_dict(run.device)
    for name, parameter in module.named_parameters():
        step, norm = (before[name] - after[name]) / RATE, float(parameter.grad.norm())
        assert norm > 1e-3, name
        assert float((step - parameter.grad).norm()) < 0.02 * norm, name
    for name, buffer in module.named_buffers():
        torch.testing.assert_close(after[name], buffer, atol=1e-3, rtol=1e-3)
        assert (buffer != before[name]).any()
    module.load_state_dict(after)
    expected = module.eval()(torch.from_numpy(images[:7])).detach().numpy()
    np.testing.assert_allclose(predict(run.network, run.device, images[:7]), expected, atol=5e-3)


@pytest.mark.parametrize(("kind", "phases"), [
    ("plain", [WARMUP] * 3), ("switched", [WARMUP] * 3), ("predicted", [WARMUP, WARMUP, GP, BP]),
])  # fmt: skip
def test_simulated_rtl_trains_as_golden(kind, phases):
    config, hashes = KINDS[kind][1], []
    for device in (GoldenDevice(config, MEMORY), SimDevice(config, memory_bytes=MEMORY, stall=0.2, seed=SEED)):
        run = Run(kind, device)
        run.network.set_hyper(device, 0.05, 0.9, 0.002)
        run.network.set_adam(device, 1e-3)
        found = []
        for number, phase in enumerate(phases):
            run.batch(calibrate=number == 0, phase=phase)
            found.append(run.network.weights_hash(device))
        hashes.append([*found, {name: array.tolist() for name, array in run.network.snapshot(device).items()}])
        device.close()
    assert hashes[0] == hashes[1] and len({*found}) == len(phases)


def test_memory_is_that_of_a_micro_batch():
    """Activations of a batch in parts take the memory of a part; its images wait in memory."""
    config = replace(TINY, n_tensors=256)
    module = nn.Sequential(*[nn.Conv2d(8, 8, 3, padding=1) for _ in range(6)], nn.Flatten(), nn.Linear(2048, N_CLASSES))

    def activations(batch, micro_batches):
        network = Network(module, (8, 16, 16), batch, config, micro_batches=micro_batches)
        first, end = network.compiled.plan.region("activations")
        return end - first

    assert activations(16, 4) == activations(4, 1) < activations(16, 1) / 3


@pytest.mark.parametrize(("changes", "message"), [
    ({"micro_batches": 5}, "micro_batches = 5 must divide batch = 12"),
    ({"micro_batches": 0}, "micro_batches = 0 must be at least 1"),
])  # fmt: skip
def test_settings_that_cannot_be(changes, message):
    with pytest.raises(SettingsError, match=message):
        TrainSettings(batch=12, **changes)


@pytest.mark.parametrize(("module", "options", "message"), [
    (nn.Flatten(), {"micro_batches": 5}, "micro_batches = 5 must divide the batch of 12"),
    (nn.Flatten(), {"micro_batches": 0}, "micro_batches = 0 must be at least 1"),
    (nn.Dropout(0.5), {}, "1.Dropout: dropout draws by the number of the batch"),
    (nn.Sigmoid(), {}, "1.Sigmoid runs on the host, which only knows whole batches"),
])  # fmt: skip
def test_networks_that_cannot_be(module, options, message):
    network = nn.Sequential(nn.Conv2d(2, 4, 3), module, nn.Flatten(), nn.Linear(144, N_CLASSES))
    with pytest.raises(LoweringError, match=message):
        Network(network, IMAGE, BATCH, SWITCHED, **{"micro_batches": MICRO_BATCHES, **options})


def test_a_run_goes_on_where_it_was_killed(tmp_path):
    """Its first batch has one micro-batch, the others all; the log counts the images whose loss it knows."""
    chosen = TrainSettings(
        model="mlp", preset="tiny", batch=12, micro_batches=3, epochs=2, train_images=48, test_images=20,
    )  # fmt: skip

    def run(folder, stop=None):
        batches = 0

        def kill(progress, loss):
            nonlocal batches
            batches += 1
            if batches == stop:
                raise KeyboardInterrupt

        with open_session(chosen, "golden") as session:
            trainer = Trainer(chosen, session.network, session.device, session.dataset, folder, 1, kill)
            if folder.has_checkpoint():
                trainer.restore()
            try:
                trainer.run()
            except KeyboardInterrupt:
                return None, 0
            return session.network.weights_hash(session.device), trainer.progress

    undisturbed, progress = run(RunFolder(tmp_path / "whole"))
    assert len(progress.log) == 2 and progress.batches[WARMUP] == 8
    assert progress.log[1]["train_loss"] < progress.log[0]["train_loss"]
    assert run(RunFolder(tmp_path / "killed"), stop=3) == (None, 0)
    assert run(RunFolder(tmp_path / "killed"))[0] == undisturbed
