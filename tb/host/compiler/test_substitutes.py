"""Sources of gradients other than predictions: against float64, in the trainer, and resumed."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from adagp.golden import work
from adagp.golden.random_signs import random_signs
from adagp.host.compiler.quantise import dequantise, join_master
from adagp.host.devices.golden import GoldenDevice
from adagp.host.training.loss import softmax_cross_entropy
from adagp.host.training.models import build_model
from adagp.host.training.network import Network
from adagp.host.training.run_folder import RunFolder
from adagp.host.training.session import open_session
from adagp.host.training.settings import TrainSettings
from adagp.host.training.trainer import Trainer
from adagp.spec.commands import Phase
from adagp.spec.presets import preset
from adagp.spec.schedule import SOURCES

CONFIG = replace(preset("tiny"), variant="low", random_signs=True)
SHAPE, BATCH, RATE, MOMENTUM = (1, 8, 8), 8, 0.05, 0.9
WARMUP, BP, GP = 0, 1, 2
SEED = 11


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


class Run:
    """A network on the golden device, trained with random images, some of them brighter than others."""

    def __init__(self, source):
        self.rng = np.random.default_rng(SEED)
        module = build_model("digits-cnn", SHAPE, 10, 1)
        self.network, self.device = Network(module, SHAPE, BATCH, CONFIG, source=source), GoldenDevice(CONFIG)
        self.network.load_state(self.device, module.state_dict())
        self.network.set_hyper(self.device, RATE, MOMENTUM, 0.0)
        self.network.set_adam(self.device, 1e-3)
        self.device.set_seed(SEED)
        self.calibrate = True

    def batch(self, phase, brightness=1.0):
        """One batch; returns exponents as they were in it, which calibration changes."""
        self.network.write_input(self.device, brightness * self.rng.random((BATCH, *SHAPE)))
        self.network.start(self.device, phase, calibrate=self.calibrate)
        exponents = self.exponents
        self.device.wait()
        if phase != GP:
            labels = self.rng.integers(0, 10, BATCH)
            _, gradient = softmax_cross_entropy(self.network.read_logits(self.device), labels)
            self.network.write_loss_gradient(self.device, gradient)
            self.device.resume()
            self.device.wait()
            self.calibrate = False
        return exponents

    @property
    def exponents(self):
        table = self.device.machine.exponents
        return {name: int(table.cur[tensor.number]) for name, tensor in self.network.tensors.items()}

    def values(self, name, exponent):
        return dequantise(self.network.read(self.device, name), exponent)

    def weights(self, layer):
        high, low = (self.network.read(self.device, f"{layer.name}.{part}") for part in ("weight", "low"))
        return join_master(high, low, self.exponents[f"{layer.name}.weight"])

    def momentum(self, layer):
        return self.values(f"{layer.name}.momentum", self.exponents[f"{layer.name}.momentum"] - 16)

    def gp_step(self):
        """One GP batch; by layer, what its UPDATE took for the gradient, from what the weights did."""
        layers = self.network.trained
        before = {layer.name: (self.weights(layer), self.momentum(layer)) for layer in layers}
        self.batch(GP)
        found = {}
        for layer in layers:
            weights, momentum = before[layer.name]
            found[layer.name] = (weights - self.weights(layer)) / RATE - MOMENTUM * momentum
        return found


def near(found, expected, tolerance):
    scale = np.abs(expected).max()
    assert scale > 0
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


def true_gradients(run, exponents):
    return {
        layer.name: run.values(f"{layer.name}.weight_gradient", exponents[f"{layer.name}.weight_gradient"])
        for layer in run.network.trained
    }


def test_zero_lets_momentum_coast():
    run = Run("zero")
    for _ in range(3):
        run.batch(WARMUP)
    momenta = {layer.name: run.momentum(layer) for layer in run.network.trained}
    for name, gradient in run.gp_step().items():
        assert np.abs(gradient).max() < 1e-3 * np.abs(momenta[name]).max()


def test_last_is_the_last_true_gradient_though_its_exponent_has_changed():
    run = Run("last")
    run.batch(WARMUP)
    changed = 0
    for brightness in (1, 0.05, 1, 0.05):
        exponents = run.batch(BP, brightness)
        expected = true_gradients(run, exponents)
        changed += exponents != run.exponents and any(
            exponents[f"{name}.weight_gradient"] != run.exponents[f"{name}.weight_gradient"] for name in expected
        )
        for _ in range(2):
            for name, gradient in run.gp_step().items():
                near(gradient, expected[name], 1e-2)
    assert changed > 1


def test_mean_is_an_exponential_one():
    """The newest gradient is an eighth of it; what is kept is eight times the mean."""
    run = Run("mean")
    run.batch(WARMUP)
    means = {
        layer.name: run.values(f"{layer.name}.kept", run.exponents[f"{layer.name}.kept"] - 3)
        for layer in run.network.trained
    }
    assert all(np.abs(value).max() > 0 for value in means.values())  # the first batch's part
    for place in range(12):
        phase = (WARMUP, BP)[place % 2]
        gradients = true_gradients(run, run.batch(phase, (1, 0.2, 0.6)[place % 3]))
        means = {name: (7 * means[name] + gradients[name]) / 8 for name in means}
        if place % 3 == 2:
            for name, gradient in run.gp_step().items():
                near(gradient, means[name], 1e-2)
                assert np.abs(gradients[name] - means[name]).max() > 0.1 * np.abs(means[name]).max()


def test_random_is_the_prediction_with_signs_of_the_hash():
    run, other = Run("random"), Run("predicted")
    for one in (run, other):
        for _ in range(3):
            one.batch(WARMUP)
    found, predicted = run.gp_step(), other.gp_step()
    flips = 0
    for place, layer in enumerate(run.network.layers):
        if layer not in run.network.trained:
            continue
        signs = random_signs(layer.q * layer.filter_elements, place, SEED, run.device.machine.position.batch)
        signs = signs.reshape(layer.q, -1)[:, :-1]
        near(found[layer.name][:, :-1], np.where(signs, -1, 1) * predicted[layer.name][:, :-1], 1e-2)
        assert (np.abs(run.momentum(layer)[:, -1]) > 0).any()  # a bias's momentum stays
        flips += int(signs.sum())
    assert flips > 300
    for part in ("conv", "fc"):
        name = f"predictor.{part}.weight"
        np.testing.assert_array_equal(run.network.read(run.device, name), other.network.read(other.device, name))


@pytest.mark.parametrize(("source", "extra"), [("zero", 0), ("last", 1), ("mean", 1), ("skip", 0)])
def test_without_a_predictor_there_are_its_commands_no_more(source, extra):
    plain, control = (
        Network(build_model("digits-cnn", SHAPE, 10, 1), SHAPE, BATCH, CONFIG, source=one) for one in (None, source)
    )

    def count(network, phase):
        return sum(bool(line.command.phase_mask & phase) for line in network.program)

    for phase in (Phase.WARMUP, Phase.BP):
        assert count(control, phase) == count(plain, phase) + 3 * extra
    assert count(control, Phase.EVAL) == count(plain, Phase.EVAL)
    assert count(control, Phase.GP) == (3 if source != "skip" else 0) + 3  # UPDATEs; header, COMMIT, END


def settings(source, **changes):
    values = {
        "preset": "tiny", "model": "mlp", "batch": 8, "epochs": 3, "train_images": 40, "test_images": 8,
        "variant": "low", "gradient_source": source, "phases": "1*2:1 1:1", "learning_rate": 0.02,
    }  # fmt: skip
    return TrainSettings(**{**values, **changes})


def trained(chosen, folder=None, stop_at=None, goes_on=False):
    """Hash, log without times, batches by phase of a run that is stopped behind so many batches, or isn't."""

    class Stopped(Exception):
        pass

    with open_session(chosen, "golden") as session:
        trainer = Trainer(chosen, session.network, session.device, session.dataset, folder, checkpoint_every=1)
        if goes_on:
            trainer.restore()
        calls = []

        def on_batch(progress, loss):
            calls.append(loss)
            if stop_at == len(calls) - 1:
                raise Stopped

        trainer.on_batch = on_batch
        try:
            progress = trainer.run()
        except Stopped:
            return None
        log = [{k: v for k, v in row.items() if not k.endswith("_seconds")} for row in progress.log]
        return session.network.weights_hash(session.device), log, progress.batches, trainer


@pytest.mark.parametrize("source", SOURCES)
def test_a_resumed_run_ends_with_the_same_bits(source, tmp_path):
    chosen = settings(source, schedule="plateau", plateau_patience=0, plateau_factor=0.5, predictor_milestones="1,2")
    chosen = replace(chosen, train_images=48, validation_fraction=0.15)
    expected = trained(chosen, RunFolder(tmp_path / "whole"))
    assert len(expected[1]) == 3 and expected[2] == [5, 4, 0 if source == "skip" else 6]
    for stop_at in (2, 7):
        folder = RunFolder(tmp_path / f"{stop_at}")
        assert trained(chosen, folder, stop_at) is None
        assert trained(chosen, folder, goes_on=True)[:3] == expected[:3]


def test_no_two_batches_draw_the_same_signs(monkeypatch):
    drawn = []
    monkeypatch.setattr(work, "random_signs", lambda *key: drawn.append(key) or random_signs(*key))
    gp = trained(settings("random"))[2][2]
    layers = {layer for _, layer, _, _ in drawn}
    assert gp == 6 and len(drawn) == len(set(drawn)) == gp * len(layers) > gp


def test_skipped_batches_are_left_out(monkeypatch):
    """Warm-up; then GP GP BP GP GP, BP GP BP GP BP by the schedule."""
    chosen, seen = settings("skip"), []
    correct = Network.write_input
    monkeypatch.setattr(Network, "write_input", lambda self, device, x, entry=0: (
        seen.append((entry, x[:, 0])), correct(self, device, x, entry)))  # fmt: skip
    with open_session(chosen, "golden") as session:
        trainer = Trainer(chosen, session.network, session.device, session.dataset)
        trainer.test_x_NCHW, trainer.test_y_N = trainer.test_x_NCHW[:8], trainer.test_y_N[:8]
        progress = trainer.run()
        position, _ = session.device.position()
        images = trainer.train_x_NCHW
    inputs = [x for x in seen if x[1].shape == (8, 8, 8)]
    assert progress.batches == [5, 4, 0] and (position.epoch, position.batch) == (3, 0)
    expected = []
    for epoch, steps in enumerate((range(5), (2,), (0, 2, 4))):
        order = np.random.default_rng([chosen.seed, epoch]).permutation(len(images))
        expected += [images[order[8 * step : 8 * step + 8]][:, 0] for step in steps]
        expected.append(trainer.test_x_NCHW[:, 0])  # evaluation
    assert len(inputs) == len(expected) == 12
    for (entry, found), x in zip(inputs, expected, strict=True):
        assert entry == 0
        np.testing.assert_array_equal(found, x)
