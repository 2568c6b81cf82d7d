"""The predictor's forward, its error, its gradient and its step, against PyTorch in float64."""

import pytest
import torch
from adagp.host.compiler.lowering import LoweringError
from adagp.host.devices.golden import GoldenDevice
from adagp.host.training.network import Network
from adagp.spec.commands import Opcode, Phase
from predicted_networks import (
    BATCH,
    BETA1,
    BETA2,
    CONFIG,
    RATE,
    SHAPE,
    Reference,
    Run,
    near,
    positive,
    set_adam,
)

WARMUP, BP, GP, EVALUATION = 0, 1, 2, 3
STEPS = 8


class WindowedDevice(GoldenDevice):
    """Keeps the window's memory from the host, as a predictor memory on chip does."""

    window = range(0)

    def set_predictor_window(self, address):
        self.window = range(address, address + CONFIG.predictor_bytes)

    def write(self, address, array):
        assert not self.hits(address, array.nbytes)
        super().write(address, array)

    def read(self, address, n_bytes):
        assert not self.hits(address, n_bytes)
        return super().read(address, n_bytes)

    def hits(self, address, n_bytes):
        return max(address, self.window.start) < min(address + n_bytes, self.window.stop)


@pytest.mark.parametrize(("model", "phase", "micro_batches"), [
    *((model, phase, 1) for model in ("digits-cnn", "mlp", "depthwise") for phase in (WARMUP, BP)),
    ("digits-cnn", WARMUP, 2), ("depthwise", BP, 4),
])  # fmt: skip
def test_a_batch_against_pytorch(model, phase, micro_batches):
    """The predictor's output, its errors, the sum of its gradients over the layers, one step of Adam.

    With micro-batches its input is the mean over all of them, and the true gradient their sum.
    """
    run = Run(model, micro_batches=micro_batches)
    for _ in range(STEPS):
        run.batch(WARMUP)
    before = {name: run.master(f"predictor.{name}", run.exponents()) for name in ("conv", "fc")}
    reference = Reference(run, run.exponents())
    moments = {}
    for name in ("conv", "fc"):
        exponents = run.exponents()
        m = run.values(f"predictor.{name}.first", exponents[f"predictor.{name}.first"] - 16)
        s = run.values(f"predictor.{name}.second", 2 * exponents[f"predictor.{name}.second"] - 14)
        moments[name] = (m, s)
    run.device.reset_counters()
    exponents = run.batch(phase)
    assert run.device.counters(phase)["saturations"] == 0
    loss = 0
    for layer in run.network.trained:
        name = layer.name
        inputs = run.means[name]
        found = run.values(f"{name}.reorganised", exponents["predictor.reorganised"])[..., 0]
        near(found, inputs, 1e-3)
        scale = exponents[f"{name}.scale"]
        summed = f"{name}.gradient_sum" if f"{name}.gradient_sum" in exponents else f"{name}.weight_gradient"
        true = run.values(summed, exponents[summed] - scale)[:, :-1]
        error = reference(inputs, true.shape[1], positive(run, layer, exponents)) - true
        near(run.values(f"{name}.predicted", exponents["predictor.error"])[:, :-1], error.detach(), 2e-3)
        loss = loss + (error**2).sum() / 2
    loss.backward()
    after = run.exponents()
    for name, gradient in reference.gradients().items():
        found = run.values(f"predictor.{name}.gradient", exponents[f"predictor.{name}.gradient"])
        near(found, gradient, 5e-3)
        m, s = moments[name]
        m, s = BETA1 * m + (1 - BETA1) * found, BETA2 * s + (1 - BETA2) * found**2
        step = RATE * (1 - BETA2 ** (STEPS + 1)) ** 0.5 / (1 - BETA1 ** (STEPS + 1)) * m / s.sqrt().clamp(min=1e-30)
        moved = run.master(f"predictor.{name}", after) - before[name]
        near(moved, -step, 2e-2)


@pytest.mark.parametrize("model", ["digits-cnn", "mlp", "single"])
def test_adam_steps_by_rows_as_it_does_at_once(model):
    """In BP each row of the predictor takes its step once, and nothing differs from a batch of warm-up."""
    whole, parts = Run(model), Run(model)
    for run, phase in ((whole, WARMUP), (parts, BP)):
        for each in (WARMUP, phase, phase, phase):
            run.batch(each)
    one, other = (run.network.snapshot(run.device) for run in (whole, parts))
    assert one.keys() == other.keys() and [name for name in one if (one[name] != other[name]).any()] == []
    for name in ("conv", "fc"):
        tensor = parts.network.tensors[f"predictor.{name}.weight"]
        steps = [line.command for line in parts.network.program
                 if line.command.opcode == Opcode.ADAM and line.command.phase_mask & Phase.BP]  # fmt: skip
        mine = sorted((c.b_addr, c.b_addr + 2 * c.count) for c in steps
                      if tensor.address <= c.b_addr < tensor.address + tensor.n_bytes)  # fmt: skip
        borders = [tensor.address, *(end for _, end in mine)]
        assert borders == [*(begin for begin, _ in mine), tensor.address + tensor.n_bytes]


def test_only_warm_up_calibrates_a_predictor():
    run, plain = Run(), Run(predict=False)
    plain.network.start(plain.device, BP, calibrate=True)
    for phase in (BP, GP):
        with pytest.raises(ValueError, match=f"is one of warm-up, not of phase {phase}"):
            run.network.start(run.device, phase, calibrate=True)


@pytest.mark.parametrize(("model", "micro_batches"), [("digits-cnn", 1), ("depthwise", 1), ("depthwise", 4)])
def test_a_predicted_batch_moves_weights_by_the_prediction_and_leaves_biases(model, micro_batches):
    """The prediction is one for the whole batch, from the mean over all micro-batches."""
    run = Run(model, micro_batches=micro_batches)
    for _ in range(4):
        run.batch(WARMUP)
    now = run.exponents()
    before = {layer.name: run.master(layer.name, now) for layer in run.network.trained}
    momentum = {
        layer.name: run.values(f"{layer.name}.momentum", now[f"{layer.name}.momentum"] - 16)
        for layer in run.network.trained
    }
    predictor = {name: run.network.read(run.device, f"predictor.{name}.weight") for name in ("conv", "fc")}
    reference = Reference(run, now)
    images = run.rng.random((BATCH, *SHAPE))
    run.batch(EVALUATION, images)
    exponents = run.batch(GP, images)
    for layer in run.network.trained:
        inputs = run.means[layer.name]
        near(run.values(f"{layer.name}.reorganised", exponents["predictor.reorganised"])[..., 0], inputs, 2e-3)
        given = (
            reference(inputs, layer.filter_elements - 1, positive(run, layer, exponents)).detach()
            * 2.0 ** exponents[f"{layer.name}.scale"]
        )
        moved = run.master(layer.name, run.exponents()) - before[layer.name]
        near(moved[:, :-1], -0.05 * (0.9 * momentum[layer.name][:, :-1] + given), 1e-2)
        assert (moved[:, -1].abs() < 2.0**-12 * before[layer.name].abs().max()).all()
    for name, weights in predictor.items():
        assert (run.network.read(run.device, f"predictor.{name}.weight") == weights).all()


def test_without_predicted_batches_the_network_learns_as_without_predictor():
    plain, predicted = Run(predict=False), Run()
    hashes = [one.network.weights_hash(one.device) for one in (plain, predicted)]
    assert hashes[0] == hashes[1]
    for phase in (WARMUP, WARMUP, BP, BP):
        plain.batch(phase), predicted.batch(phase)
    hashes += [one.network.weights_hash(one.device) for one in (plain, predicted)]
    assert hashes[2] == hashes[3] != hashes[0]
    predicted.batch(GP)
    assert predicted.network.weights_hash(predicted.device) != hashes[2]


def test_layers_too_large_for_the_predictor_are_named():
    says = r"no layer can be predicted: 0\.Conv2d \(600 filters, the predictor of ecp5 is for 128\); 2\.Linear \(21600"
    with pytest.raises(LoweringError, match=says):
        Network(torch.nn.Sequential(torch.nn.Conv2d(1, 600, 3), torch.nn.Flatten(), torch.nn.Linear(600 * 36, 10)),
                SHAPE, BATCH, CONFIG, source="predicted")  # fmt: skip


def test_weights_on_chip_move_only_by_programs():
    """The window holds the weights and nothing else; the host never touches it, and a checkpoint has what is there."""
    run = Run(device=WindowedDevice)
    window, plan = run.device.window, run.network.compiled.plan
    assert len(window) > 0 and window.start % CONFIG.predictor_window == 0
    inside = {block.name for block in plan if run.device.hits(block.address, block.n_bytes)}
    assert inside == {"predictor.conv.weight", "predictor.fc.weight", "predictor.unused"}
    assert all(plan[name].address >= window.start and plan[name].end <= window.stop for name in inside)
    first = run.network.snapshot(run.device)
    for phase in (WARMUP, GP, WARMUP):
        run.batch(phase)
    arrays = run.network.snapshot(run.device)
    for name in ("predictor.conv.weight", "predictor.fc.weight"):
        tensor = run.network.tensors[name]
        there = run.device.machine.memory[tensor.address :][: tensor.n_bytes].view(tensor.dtype)
        assert (arrays[name].ravel() == there).all() and (arrays[name] != first[name]).any()
    run.network.restore(run.device, first)
    again = run.network.snapshot(run.device)
    assert all((again[name] == first[name]).all() for name in first)


@pytest.mark.parametrize(
    "model, device", [("digits-cnn", GoldenDevice), ("digits-cnn", WindowedDevice), ("depthwise", GoldenDevice)]
)
def test_a_state_resumes_to_the_bit(model, device):
    run, other = Run(model), Run(model, device=device)
    for name in other.network.compiled.source.windows:  # as on a device that hasn't run it before
        other.network.write(other.device, name, 0 * other.network.read(other.device, name))
    for phase in (WARMUP, WARMUP, GP):
        run.batch(phase)
    arrays = run.network.snapshot(run.device)
    other.network.restore(other.device, arrays)
    set_adam(other.device)
    other.rng.bit_generator.state, other.calibrate = run.rng.bit_generator.state, False
    for one in (run, other):
        for phase in (GP, WARMUP, WARMUP):
            one.batch(phase)
    assert run.network.weights_hash(run.device) == other.network.weights_hash(other.device)
    mine, its = (one.network.snapshot(one.device) for one in (run, other))
    assert mine.keys() == its.keys() and all((mine[name] == its[name]).all() for name in mine)
