"""The bench of controls: its schedule's arithmetic, images, choice of rates, figures, kept records."""

import statistics
from dataclasses import replace

import numpy as np
import pytest
from adagp.evaluation.benches import controls as bench
from adagp.evaluation.instruments.paired_runs import digest
from adagp.host.training.data import load_dataset
from adagp.host.training.settings import TrainSettings

COMMON = TrainSettings(preset="tiny", epochs=8, train_images=320, phases=bench.PHASES)


def test_images_of_half_the_size():
    x = np.random.default_rng(1).random((3, 2, 4, 6)).astype(np.float32)
    small = bench.half_size(x)
    assert small.shape == (3, 2, 2, 3) and small.dtype == np.float32
    assert small[2, 1, 1, 0] == pytest.approx(x[2, 1, 2:, :2].mean())


def test_fewer_epochs_cost_no_more_and_more_no_less():
    """Ten of 80 batches are warm-up; then come runs of 4, 3, 2 and 1 for each batch with true gradients."""
    gp = 8 + 8 + 7 + 20
    assert bench.batches(COMMON, 10) == {"warmup": 10, "bp": 70 - gp, "gp": gp}
    cycles = {"bp": {"warmup": 300}, "predicted": {"warmup": 310, "bp": 310, "gp": 110}}
    assert 5 * 10 * 300 < (80 - gp) * 310 + gp * 110 < 6 * 10 * 300
    assert bench.equal_epochs(COMMON, cycles) == {"bp_fewer": 5, "bp_more": 6}
    equal = {**cycles, "predicted": {"warmup": 300}}
    assert bench.equal_epochs(replace(COMMON, warmup_epochs=8), equal) == {"bp_fewer": 8, "bp_more": 8}


def test_each_method_is_what_it_is_called():
    for method in bench.METHODS:
        settings = bench.settings_of(method, COMMON)
        assert settings.predicts == (not method.startswith("bp"))
        assert not settings.predicts or settings.gradient_source == method


def details():
    batches = {"warmup": 10, "bp": 0, "gp": 0}
    methods = {
        name: {"batches": batches, "runs": [{"accuracy": accuracy} for accuracy in accuracies]}
        for name, accuracies in {
            "bp": (0.8, 0.9),
            "bp_fewer": (0.5, 0.5),
            "bp_more": (0.6, 0.6),
            "mean": (0.1, 0.2),
        }.items()
    }
    methods["bp_fewer"]["batches"] = {**batches, "warmup": 5}
    methods["bp_more"]["batches"] = {**batches, "warmup": 6}
    methods["mean"]["batches"] = {"warmup": 1, "bp": 3, "gp": 6}
    return methods


def test_figures_and_costs():
    cycles = {"bp": {"warmup": 1000}, "mean": {"warmup": 1100, "bp": 1010, "gp": 7}}
    cycles["mean_low"] = {"warmup": 1, "bp": 1, "gp": 1}
    cost = bench.costs(details(), cycles)
    assert cost == {"bp": 10_000, "bp_fewer": 5_000, "bp_more": 6_000, "mean": 1100 + 3030 + 42, "mean_low": 10}
    assert bench.figures(details(), cost) == {
        "accuracy_bp": 0.85, "sd_bp": round(statistics.stdev((0.8, 0.9)), 6), "accuracy_bp_fewer": 0.5,
        "sd_bp_fewer": 0, "accuracy_bp_more": 0.6, "sd_bp_more": 0, "accuracy_mean": pytest.approx(0.15),
        "sd_mean": round(statistics.stdev((0.1, 0.2)), 6),
        **{f"cost_{method}": value for method, value in cost.items()},
    }  # fmt: skip


@pytest.mark.timeout(900)  # simulators may have to be built first
def test_cycles_of_a_batch_are_measured_and_kept(small, monkeypatch):
    """A GP batch has no backward pass, a skipped one isn't there; the calibrating batch isn't counted."""
    common = replace(COMMON, model="mlp", batch=4)
    designs = {"bp": "baseline", "predicted": "max", "zero": "max", "skip": "max"}
    found = {method: bench.measured(method, variant, common, small) for method, variant in designs.items()}
    assert set(found["bp"]) == {"warmup"} and set(found["skip"]) == {"warmup", "bp", "gp"} and found["skip"]["gp"] == 0
    for method in ("predicted", "zero"):
        assert 0 < found[method]["gp"] < found[method]["bp"] and set(found[method]) == {"warmup", "bp", "gp"}
    assert found["zero"]["gp"] < found["predicted"]["gp"]
    assert found["zero"]["bp"] == pytest.approx(found["bp"]["warmup"], rel=0.02)
    # Adam takes eight cycles a weight, a good part of so small a network's batch; how much is left at its end differs.
    assert found["predicted"]["warmup"] == pytest.approx(found["predicted"]["bp"], rel=0.1)
    monkeypatch.setattr(bench, "batch_cycles", lambda *_: {"warmup": 1})
    assert bench.measured("predicted", "max", common, small) == found["predicted"]
    assert bench.measured("predicted", "max", replace(common, batch=5), small) == {"warmup": 1}


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Work in a folder of its own, with digits for the images."""
    dataset = load_dataset("digits")
    few = replace(dataset, test_x_NCHW=dataset.test_x_NCHW[:40], test_y_N=dataset.test_y_N[:40])
    monkeypatch.setattr(bench, "WORK", tmp_path)
    monkeypatch.setattr(bench, "_data", {tuning: (few, digest(few)) for tuning in (True, False)})
    return few


def test_every_method_runs(small):
    common = replace(COMMON, model="mlp", epochs=2, batch=8, train_images=80)
    records = {}
    for method in bench.METHODS:
        settings = replace(bench.settings_of(method, common), learning_rate=0.02)
        run = bench.Run(method, False, replace(settings, epochs={"bp_fewer": 1, "bp_more": 3}.get(method, 2)))
        records[method] = bench._record(run, "sources")
        assert 0 <= records[method]["accuracy"] <= 1 and run.path.exists()
    assert records["bp"]["batches"] == {"warmup": 20, "bp": 0, "gp": 0}
    assert records["bp_fewer"]["batches"] == {"warmup": 10, "bp": 0, "gp": 0}
    assert records["bp_more"]["batches"] == {"warmup": 30, "bp": 0, "gp": 0}
    for method in ("predicted", "random", "zero", "last", "mean"):
        assert records[method]["batches"] == {"warmup": 10, "bp": 2, "gp": 8}
    assert records["skip"]["batches"] == {"warmup": 10, "bp": 2, "gp": 0}
    losses = [records[method]["train_loss"] for method in bench.METHODS]
    assert len(set(losses)) == len(losses)


def test_a_record_is_taken_for_the_same_run_only(small, monkeypatch):
    done = []
    monkeypatch.setattr(bench, "train", lambda *_: done.append(1) or {"accuracy": 0.5, "batches": {}})
    run = bench.Run("bp", True, COMMON)
    for one, source in ((run, "a"), (run, "a"), (run, "b"), (replace(run, settings=replace(COMMON, epochs=3)), "b")):
        bench._record(one, source)
    assert len(done) == 3
    bench._record(replace(run, tuning=False), "b")
    assert len(done) == 4
