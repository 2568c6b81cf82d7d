"""The bench of wall times, with a small network: what is run, not how long it takes."""

import json
from itertools import cycle

import pytest
import torch
from adagp.experiments import bench_wall_time
from adagp.experiments.bench_wall_time import KINDS, figures_of, times
from adagp.experiments.errors import ModelError


def test_each_kind_of_batch_is_what_it_says(monkeypatch):
    """Backward runs in two kinds, forward in five, the optimizer once, but in GP once for each weight or for eight."""
    kinds, counts = cycle(KINDS), {"backward": 0, "forward": 0, "step": 0}
    by_kind: dict[str, dict[str, int]] = {}

    class Counted(bench_wall_time._Training):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.network.register_forward_pre_hook(lambda *_: count("forward"))
            self.network[-1].register_full_backward_hook(lambda *_: count("backward"))
            self.optimizer.register_step_pre_hook(lambda *_: count("step"))

    def count(what):
        counts[what] += 1

    def timed(run, device):
        before = dict(counts)
        run()
        by_kind[next(kinds)] = {name: counts[name] - before[name] for name in counts}
        return 1.0

    monkeypatch.setattr(bench_wall_time, "_Training", Counted)
    monkeypatch.setattr(bench_wall_time, "_timed", timed)
    assert times("small-cnn", 4, 1, "cpu") == dict.fromkeys(KINDS, 1.0)
    once = {"backward": 1, "forward": 1, "step": 1}
    assert by_kind == {
        "bp": once, "ada_bp": once, "gp": {"backward": 0, "forward": 1, "step": 5},
        "gp_at_once": {"backward": 0, "forward": 1, "step": 1}, "forward": {"backward": 0, "forward": 1, "step": 0},
        "predictor": {"backward": 0, "forward": 0, "step": 0},
        "predictor_at_once": {"backward": 0, "forward": 0, "step": 0},
        "update": {"backward": 0, "forward": 0, "step": 1},
    }  # fmt: skip


def test_figures():
    seconds = dict(zip(KINDS, (3.0, 3.6, 1.5, 1.29, 1.0, 0.1, 0.05, 0.15), strict=True))
    found = figures_of("vgg13", "cpu", seconds)
    assert found == {
        "gp_over_bp_vgg13_cpu": 0.5, "gp_over_forward_vgg13_cpu": 1.5, "overhead_vgg13_cpu": 0.2,
        "ada_bp_over_bp_vgg13_cpu": 1.2, "gp_at_once_over_bp_vgg13_cpu": 0.43,
        "gp_at_once_over_forward_vgg13_cpu": 1.29, "overhead_at_once_vgg13_cpu": 0.075,
    }  # fmt: skip
    assert found["overhead_vgg13_cpu"] == pytest.approx(1.5 / 1.25 - 1)


def test_images_have_the_size_that_is_asked_for(monkeypatch, tmp_path, capsys):
    """So have batches; and results of others are apart."""
    seen = set()
    real = bench_wall_time.build

    def build(name, n_classes, size, seed):
        network = real("small-cnn", n_classes, size, seed)
        network.register_forward_pre_hook(lambda _, given: seen.add((size, *given[0].shape)))
        return network

    monkeypatch.setattr(bench_wall_time, "build", build)
    for size, batch in ((32, 64), (12, 64), (12, 2), (32, 3)):
        monkeypatch.setattr("sys.argv", ["bench_wall_time", "--rounds", "1", "--batch", str(batch), "--size", str(size),
                                         "-o", str(tmp_path / "w.json")])  # fmt: skip
        bench_wall_time.main()
    assert seen == {(32, 64, 3, 32, 32), (12, 64, 3, 12, 12), (12, 2, 3, 12, 12), (32, 3, 3, 32, 32)}
    written = json.loads((tmp_path / "w.json").read_text())
    assert {name: (part["details"]["size"], part["details"]["batch"]) for name, part in written["details"].items()} == {
        "cpu": (32, 64), "cpu-12": (12, 64), "cpu-12-batch2": (12, 2), "cpu-batch3": (32, 3)
    }  # fmt: skip
    command = written["provenance"]["cpu-12-batch2"]["command"]
    assert command == "python -m adagp.experiments.bench_wall_time --size 12 --batch 2"
    assert written["provenance"]["cpu"]["command"] == command.partition(" --")[0]
    assert written["figures"]["overhead_vgg13_cpu-12"] > -1 and "overhead_resnet50_cpu-12" in capsys.readouterr().out


def test_without_a_gpu_that_is_said(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("sys.argv", ["bench_wall_time", "--device", "cuda"])
    with pytest.raises(SystemExit):
        bench_wall_time.main()
    assert "--device cuda, and PyTorch finds no GPU" in capsys.readouterr().err


def test_a_missing_package_is_said_in_a_line(monkeypatch, capsys):
    def build(*_):
        raise ModelError("torchvision isn't installed")

    monkeypatch.setattr(bench_wall_time, "build", build)
    monkeypatch.setattr("sys.argv", ["bench_wall_time", "--rounds", "1"])
    with pytest.raises(SystemExit) as ended:
        bench_wall_time.main()
    assert ended.value.code == 2 and capsys.readouterr().err.endswith("error: torchvision isn't installed\n")
