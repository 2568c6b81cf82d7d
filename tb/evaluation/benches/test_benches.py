"""Computations of the benches: MACs, the planted fault, the process without golden model, statistics."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from adagp.evaluation.benches import numerics, train
from adagp.evaluation.instruments import paired_runs, single_command
from adagp.gen.generated import generated
from adagp.host.devices.golden import GoldenDevice
from adagp.host.training.data import load_dataset
from adagp.host.training.models import build_model
from adagp.host.training.network import Network
from adagp.host.training.session import open_session
from adagp.host.training.settings import TrainSettings
from adagp.host.training.trainer import Trainer
from adagp.spec import operands
from adagp.spec.commands import Command, Opcode
from adagp.spec.presets import preset
from torch import nn

MODULE = (
    "module \\top.drain.epilogue.{} (a, b);\n  wire s;\n  assign s = $signed(a) + $signed({{ 1'h0, b }});\nendmodule\n"
)


def test_macs_from_shapes_are_those_counted():
    settings = TrainSettings(epochs=1, train_images=96, test_images=32)
    with open_session(settings, "golden") as session:
        progress = Trainer(settings, session.network, session.device, session.dataset).run()
        assert train.training_macs(session.network, 3) == progress.counters["macs"] > 0


def test_macs_of_strides_are_those_counted():
    settings = TrainSettings(epochs=1, train_images=96, test_images=32)
    dataset = load_dataset(settings.data)
    torch.manual_seed(1)
    module = nn.Sequential(
        nn.Conv2d(1, 5, 3, padding=1), nn.ReLU(), nn.Conv2d(5, 7, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(7, 6, (1, 2), stride=3), nn.Flatten(), nn.Linear(12, 10),
    )  # fmt: skip
    config = preset("tiny")
    network = Network(module, dataset.shape, settings.batch, config)
    device = GoldenDevice(config)
    try:
        network.load_state(device, module.state_dict())
        progress = Trainer(settings, network, device, dataset).run()
    finally:
        device.close()
    assert train.training_macs(network, 3) == progress.counters["macs"] > 0


def test_one_operator_is_changed():
    source = MODULE.format("lane1.scale_x") + MODULE.format("lane0.scale_x") + MODULE.format("lane0.scale_c")
    faulty = train.plant_fault(source)
    changed = [pair for pair in zip(source.split(), faulty.split(), strict=True) if pair[0] != pair[1]]
    assert changed == [("+", "-")]
    assert faulty.index(" - ") > source.index("lane0.scale_x") and faulty.index(" - ") < source.index("lane0.scale_c")


def test_the_accelerator_has_that_operator_once():
    source = generated(preset("tiny")).read_text()
    faulty = train.plant_fault(source)
    changed = [lines for lines in zip(source.split("\n"), faulty.split("\n"), strict=True) if lines[0] != lines[1]]
    assert len(changed) == 1 and changed[0][0].replace(" + ", " - ") == changed[0][1]


@pytest.mark.parametrize("times", [0, 2])
def test_a_fault_has_one_place(times):
    with pytest.raises(ValueError, match=rf"must be there once, not {times} times"):
        train.plant_fault(MODULE.format("lane0.scale_x") * times)


def test_simulated_runs_cannot_import_the_golden_model():
    def run(code):
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert run("import adagp.golden.program").returncode == 0
    blocked = run(train.WITHOUT_GOLDEN + "import adagp.golden.program")
    assert blocked.returncode and "out of bounds" in blocked.stderr
    blocked = run(
        train.WITHOUT_GOLDEN + "from adagp.host.training.session import *; from adagp.spec.presets import *; "
        "open_device('golden', preset('tiny'))"
    )
    assert blocked.returncode and "out of bounds" in blocked.stderr


def test_figures_are_means_over_seeds():
    def run(accuracy, saturations):
        settings = {"epochs": 3, "learning_rate": 0.5}
        return {
            "test_accuracy": accuracy, "saturations": saturations, "results": 50, "train_images": 7,
            "settings": settings,
        }  # fmt: skip

    runs = {
        "x": {"fp32": [run(0.9, 0), run(0.8, 0)], "int16": [run(0.91, 3), run(0.78, 4)]},
        "y": {"fp32": [run(0.9, 0), run(0.8, 0)], "int16": [run(0.91, 1), run(0.78, 1)]},
    }
    figures, details = numerics.figures(runs)
    assert figures["x_delta_points"] == pytest.approx(-0.5)
    assert figures["x_delta_std_points"] == pytest.approx(3 / 2**0.5, abs=1e-3)
    assert figures["x_delta_sem_points"] == pytest.approx(1.5, abs=1e-3)
    assert figures["x_saturated_fraction"] == 0.07
    assert figures["y_saturated_fraction"] == 0.02
    assert (figures["x_train_images"], figures["x_epochs"], figures["x_learning_rate"]) == (7, 3, 0.5)
    assert details["x"]["delta_points"] == pytest.approx([1, -2])


def test_figures_of_the_control_have_no_saturations():
    run = {"test_accuracy": 0.5, "train_images": 7, "settings": {"epochs": 3, "learning_rate": 0.5}}
    figures, details = numerics.figures({"x": {"fp32": [run, run], "moved": [run, {**run, "test_accuracy": 0.6}]}})
    assert figures["x_delta_points"] == pytest.approx(5) and figures["x_moved_accuracy"] == 0.55
    assert not [name for name in figures if "saturated" in name] and details["x"]["std_points"]["fp32"] == 0


def test_moved_weights_lie_next_to_the_others():
    models = [build_model("digits-cnn", (1, 8, 8), 10, 0) for _ in range(2)]
    paired_runs.move(models[1], numerics.MOVED, 0)
    first, second = (torch.cat([p.flatten() for p in model.parameters()]) for model in models)
    parted = (second - first) / first
    assert 0 < parted.abs().max() < 2 * numerics.MOVED and (parted != 0).float().mean() > 0.9
    assert 0.4 < (parted > 0).float().mean() < 0.6


def test_results_of_a_batch():
    config, dataset = preset("ecp5"), load_dataset("digits")
    network = Network(build_model("mlp", dataset.shape, 10, 0), dataset.shape, 4, config)
    weights = (64 + 1) * 128 + (128 + 1) * 128 + (128 + 1) * 10
    outputs, input_gradients = 4 * (128 + 128 + 10), 4 * (128 + 128)
    expected = outputs + input_gradients + weights + 2 * weights  # gradient; weight and momentum
    assert paired_runs.results_per_batch(network) == expected


def test_float_run_learns():
    result = paired_runs.run_float(TrainSettings(epochs=2), load_dataset("digits"))
    assert result["test_accuracy"] > 0.6 and result["train_loss"] < 2


def test_float_run_tests_with_running_statistics(monkeypatch):
    built = []

    def build(name, shape, n_classes, seed):
        torch.manual_seed(seed)
        built.append(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, n_classes)))
        return built[-1]

    monkeypatch.setattr(paired_runs, "build_model", build)
    accuracies = set()
    for images in (500, 1):  # one image has no statistics of its own
        monkeypatch.setattr(paired_runs, "EVALUATION_IMAGES", images)
        accuracies.add(paired_runs.run_float(TrainSettings(epochs=1), load_dataset("digits"))["test_accuracy"])
    assert len(accuracies) == 1 and accuracies.pop() > 0.8
    assert all((network[1].running_mean != 0).any() for network in built)


def test_comparisons_of_graphs():
    for case in numerics.GRAPHS:
        settings = TrainSettings(**case.settings)
        network = build_model(settings.model, (3, 32, 32), 10, 0)
        assert any(isinstance(module, torch.nn.BatchNorm2d) for module in network.modules())
        assert len(case.rates) > 2


def test_validation_images_are_neither_trained_on_nor_tested_on():
    dataset = load_dataset("digits")
    for train_images, used, aside in ((None, 1149, 288), (300, 300, 1137), (5000, 1149, 288)):
        part = paired_runs.validation(dataset, train_images)
        assert len(part.train_y_N) == used and len(part.test_y_N) == aside
        whole = np.concatenate([part.train_x_NCHW, part.test_x_NCHW])
        np.testing.assert_array_equal(whole, dataset.train_x_NCHW[: used + aside])


def test_best_rate():
    assert numerics.best_rate({0.1: [0.9, 0.7], 0.01: [0.8, 0.8], 0.05: [0.7, 0.8]}) == 0.01


@pytest.mark.parametrize(("kind", "of"), [("fp32", "model_sources"), ("int16", "training_sources")])
def test_a_run_of_other_sources_is_done_again(tmp_path, monkeypatch, kind, of):
    monkeypatch.setattr(numerics, "WORK", tmp_path)
    done = []
    for run in ("run_float", "run_integer"):
        monkeypatch.setattr(numerics, run, lambda *_, run=run: done.append(run) or {"test_accuracy": 0.5})
    dataset, settings = load_dataset("digits"), TrainSettings()
    for sources, commit in (("a", "1"), ("a", "2"), ("b", "3"), ("b", "3-dirty")):
        monkeypatch.setattr(numerics, of, lambda sources=sources: sources)
        record = numerics._run("x", kind, settings, dataset, commit)
        assert record["sources"] == sources and record["commit"] == {"a": "1", "b": "3"}[sources]
    assert done == [{"fp32": "run_float", "int16": "run_integer"}[kind]] * 2


CONV = {"n": 32, "c": 64, "h": 32, "w": 32, "q": 64, "oh": 32, "ow": 32, "r": 3, "s": 3, "stride": 1, "bias": 1,
        "pad_y": 1, "pad_x": 1, "yb": 32}  # fmt: skip


@pytest.mark.parametrize(("opcode", "bound", "macs"), [
    (Opcode.FORWARD, 48 * 2185 * 64, 32 * 1024 * 64 * 576),  # 576 = 48 * 12 reduced; 32768 pixels held by 15s
    (Opcode.BACKWARD_DATA, 48 * 2185 * 64, 32 * 1024 * 64 * 576),
    (Opcode.BACKWARD_WEIGHT, 2731 * 39 * 64, 32 * 1024 * 64 * 577),  # 32768 pixels reduced by 12s, 577 held by 15s
])  # fmt: skip
def test_bound_by_hand(opcode, bound, macs):
    command = Command(opcode, CONV)
    assert single_command.bound(command, preset("paper")) == bound
    assert operands.macs(command) == macs
