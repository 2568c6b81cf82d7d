"""Computations of the benches: MACs, the planted fault, the process without golden model, statistics."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from adagp.evaluation.benches import numerics, train, utilisation
from adagp.evaluation.instruments import single_command
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
    assert figures["saturated_fraction"] == figures["x_saturated_fraction"] == 0.07
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
    numerics.move(models[1], numerics.MOVED, 0)
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
    assert numerics.results_per_batch(network) == expected


def test_float_run_learns():
    result = numerics.run_float(TrainSettings(epochs=2), load_dataset("digits"))
    assert result["test_accuracy"] > 0.6 and result["train_loss"] < 2


def test_float_run_tests_with_running_statistics(monkeypatch):
    built = []

    def build(name, shape, n_classes, seed):
        torch.manual_seed(seed)
        built.append(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, n_classes)))
        return built[-1]

    monkeypatch.setattr(numerics, "build_model", build)
    accuracies = set()
    for images in (500, 1):  # one image has no statistics of its own
        monkeypatch.setattr(numerics, "EVALUATION_IMAGES", images)
        accuracies.add(numerics.run_float(TrainSettings(epochs=1), load_dataset("digits"))["test_accuracy"])
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
        part = numerics.validation(dataset, train_images)
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


def test_utilisation_is_weighted_by_macs():
    rows = [{"macs": 1800, "bound": 10, "cycles": 20}, {"macs": 16200, "bound": 90, "cycles": 100}]
    of_bound, raw = utilisation.weighted(rows, preset("paper"))
    assert of_bound == pytest.approx(1 / (0.1 * 2 + 0.9 * 100 / 90), abs=1e-5)
    assert raw == pytest.approx(18000 / 120 / 180, abs=1e-5)


def utilisation_row(direction, first, conv, cycles, of_bound=0.25, clock=""):
    return {
        "clock": clock, "real_macs": 63 * cycles if direction == "forward" else 0, "direction": direction,
        "first": first, "conv": conv, "cycles": cycles, "macs": 180 * cycles // 2,
        "bound": int(cycles * of_bound), "raw": 0.5, "of_bound": of_bound, "macs_equal": True, "bytes_equal": True,
        "array_cycles": cycles - 7, "stall_a": 1, "stall_b": 1, "stall_load": 2, "stall_drain": 1, "stall_idle": 2,
    }  # fmt: skip


def test_utilisation_figures():
    rows = [utilisation_row(name, False, True, 1000) for name in single_command.DIRECTIONS.values()]
    rows += [
        utilisation_row("forward", False, True, 1000, 0.5),
        utilisation_row("forward", True, True, 600, 0.75),
        utilisation_row("backward_weight", True, True, 300),
        utilisation_row("forward", False, False, 100, 0.5),
        utilisation_row("forward", False, True, 1000, 0.125, "_twice_clock"),
    ]
    gemm, step = utilisation_row("forward", True, False, 10), utilisation_row("", False, True, 6000)
    found = utilisation.figures(rows, gemm, {"": step}, preset("paper"))
    assert found["forward_of_bound"] == pytest.approx(1 / 3, abs=1e-5)  # not the first, not the linear
    assert found["forward_of_bound_least"] == 0.25
    assert found["forward_raw"] == found["backward_data_raw"] == 0.5
    assert found["first_layer_forward_of_bound"] == 0.75 and found["first_layer_backward_weight_raw"] == 0.5
    assert found["linear_forward_of_bound"] == 0.5 and found["first_layer_raw"] == 0.5
    assert "first_layer_backward_data_raw" not in found
    assert all("_least" not in name for name in found if name.startswith(("first_layer", "linear")))
    assert found["forward_of_bound_twice_clock"] == 0.125 and "backward_data_raw_half_clock" not in found
    assert found["padding_share"] == pytest.approx(0.3)
    assert found["step_overhead"] == 0.2 and found["step_raw"] == 0.5
    assert found["counters_reconcile"] is True
    for row in (rows[0], step):
        spoilt = {**row, "bytes_equal": False}
        others = [spoilt if other is row else other for other in rows]
        found = utilisation.figures(others, gemm, {"": spoilt if row is step else step}, preset("paper"))
        assert found["counters_reconcile"] is False


def test_macs_with_padding_are_told_from_real_ones():
    """By counting the ones of a convolution of ones with ones."""
    for h, w, r, s, stride, pad_y, pad_x in ((4, 4, 3, 3, 1, 1, 1), (2, 5, 3, 2, 1, 1, 0), (7, 6, 5, 3, 2, 2, 1)):
        y = torch.nn.functional.conv2d(
            torch.ones(2, 3, h, w), torch.ones(5, 3, r, s), stride=stride, padding=(pad_y, pad_x)
        )
        fields = {"n": 2, "c": 3, "q": 5, "h": h, "w": w, "oh": y.shape[2], "ow": y.shape[3], "r": r, "s": s}
        command = Command(Opcode.FORWARD, {**fields, "stride": stride, "pad_y": pad_y, "pad_x": pad_x})
        assert single_command.real_macs(command) == int(y.sum()) > 0


def test_a_run_must_account_for_its_cycles(tmp_path, monkeypatch):
    counters = utilisation_row("forward", True, True, 100)
    bench = object.__new__(single_command.Bench)  # without a simulator
    bench.folder, bench.simulator = tmp_path, "a simulator"
    monkeypatch.setattr(bench, "_open", lambda *_: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(bench, "_measure", lambda *_: counters)
    program = SimpleNamespace(digest="a program")
    assert bench("good", None, None, preset("tiny"), program) == counters
    assert bench("good", None, None, preset("tiny"), program) == counters  # the one that was kept
    counters = {**counters, "stall_b": 2}
    with pytest.raises(RuntimeError, match=r"bad: .*'stall_b': 2.* are 101 in all, not 100 cycles"):
        bench("bad", None, None, preset("tiny"), program)
    assert not (tmp_path / "bad.json").exists()
