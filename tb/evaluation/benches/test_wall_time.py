"""The bench of wall times, with a small network: what is run, not how long it takes."""

import json
from itertools import cycle

import pytest
import torch
from adagp.algorithm.predictor import Predictor
from adagp.evaluation.benches import wall_time
from adagp.evaluation.benches.wall_time import KINDS, Times, figures_of, times
from adagp.experiments.errors import NetworkError


def test_each_kind_of_batch_is_what_it_says(monkeypatch):
    """Backward, forward, steps, predictions, parameters in steps: of ten five are predicted, two of them at once."""
    kinds, counts = cycle(KINDS), {"backward": 0, "forward": 0, "step": 0, "predictor": 0, "stepped": 0}
    seconds = iter((*[9.0] * len(KINDS), *[1.0] * len(KINDS), *[2.0] * len(KINDS), *[4.0] * len(KINDS)))
    by_kind: dict[str, dict[str, int]] = {}

    class Counted(wall_time._Training):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.network.register_forward_pre_hook(lambda *_: count("forward"))
            self.network[-1].register_full_backward_hook(lambda *_: count("backward"))
            self.optimizer.register_step_pre_hook(self.step)

        def step(self, optimizer, *_):
            count("step")
            count("stepped", sum(p.grad is not None for group in optimizer.param_groups for p in group["params"]))

    def count(what, number=1):
        counts[what] += number

    def timed(run, device):
        before = dict(counts)
        run()
        by_kind[next(kinds)] = {name: counts[name] - before[name] for name in counts}
        return next(seconds)

    predicted = Predictor.gradients
    monkeypatch.setattr(Predictor, "gradients", lambda *arguments: count("predictor") or predicted(*arguments))
    monkeypatch.setattr(wall_time, "_Training", Counted)
    monkeypatch.setattr(wall_time, "_timed", timed)
    monkeypatch.setattr(wall_time, "AT_ONCE", 2)
    # The first round isn't counted; of 1, 2 and 4 the middle half is from 1.5 to 3.
    assert times("small-cnn", 4, 3, "cpu") == Times(dict.fromkeys(KINDS, 2.0), dict.fromkeys(KINDS, 0.75))
    assert {kind: tuple(counted.values()) for kind, counted in by_kind.items()} == {
        "bp": (1, 1, 1, 0, 10), "ada_bp": (1, 1, 1, 0, 10), "gp": (0, 1, 1, 5, 5), "gp_at_once": (0, 1, 1, 3, 5),
        "forward": (0, 1, 0, 0, 0), "predictor": (0, 0, 0, 5, 0), "predictor_at_once": (0, 0, 0, 3, 0),
        "update": (0, 0, 1, 0, 5),
    }  # fmt: skip


def test_figures():
    seconds = dict(zip(KINDS, (3.0, 3.6, 1.5, 1.29, 1.0, 0.1, 0.05, 0.15), strict=True))
    found = figures_of("vgg13", "cpu", seconds)
    assert found == {
        "gp_over_bp_vgg13_cpu": 0.5, "gp_over_forward_vgg13_cpu": 1.5, "overhead_vgg13_cpu": 0.2,
        "ada_bp_over_bp_vgg13_cpu": 1.2, "half_predicted_vgg13_cpu": 0.85, "half_predicted_at_once_vgg13_cpu": 0.815,
        "gp_at_once_over_bp_vgg13_cpu": 0.43,
        "gp_at_once_over_forward_vgg13_cpu": 1.29, "overhead_at_once_vgg13_cpu": 0.075,
    }  # fmt: skip
    assert found["overhead_vgg13_cpu"] == pytest.approx(1.5 / 1.25 - 1)


def test_images_have_the_size_that_is_asked_for(monkeypatch, tmp_path, capsys):
    """So have batches; and results of others are apart."""
    seen = set()
    real = wall_time.build

    def build(name, n_classes, size, seed):
        network = real("small-cnn", n_classes, size, seed)
        network.register_forward_pre_hook(lambda _, given: seen.add((size, *given[0].shape)))
        return network

    monkeypatch.setattr(wall_time, "build", build)
    output = ("--rounds", "2", "-o", str(tmp_path / "w.json"))
    for size, batch in ((32, 64), (12, 64), (12, 2), (32, 3)):
        monkeypatch.setattr("sys.argv", ["bench_wall_time", "--batch", str(batch), "--size", str(size), *output])
        wall_time.main()
    monkeypatch.setattr("sys.argv", ["bench_wall_time", "--batch", "3", "--threads", "2", *output])
    wall_time.main()
    assert seen == {(32, 64, 3, 32, 32), (12, 64, 3, 12, 12), (12, 2, 3, 12, 12), (32, 3, 3, 32, 32)}
    written = json.loads((tmp_path / "w.json").read_text())
    assert {name: (part["details"]["size"], part["details"]["batch"]) for name, part in written["details"].items()} == {
        "cpu": (32, 64), "cpu-size-12": (12, 64), "cpu-size-12-batch-2": (12, 2), "cpu-batch-3": (32, 3),
        "cpu-batch-3-threads-2": (32, 3),
    }  # fmt: skip
    commands = [written["provenance"][part]["command"] for part in ("cpu", "cpu-size-12-batch-2")]
    command = "python -m adagp.evaluation.benches.wall_time"
    assert commands == [f"{command} --rounds 2", f"{command} --size 12 --batch 2 --rounds 2"]
    assert all(part["details"]["spread"]["vgg13"].keys() == set(KINDS) for part in written["details"].values())
    assert written["figures"]["overhead_vgg13_cpu-size-12"] > -1
    assert "overhead_resnet50_cpu-size-12" in capsys.readouterr().out


def test_without_a_gpu_that_is_said(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("sys.argv", ["bench_wall_time", "--device", "cuda"])
    with pytest.raises(SystemExit):
        wall_time.main()
    assert "--device cuda, and PyTorch finds no GPU" in capsys.readouterr().err


def test_mistakes_are_said_in_a_line(monkeypatch, capsys):
    def build(*_):
        raise NetworkError("torchvision isn't installed")

    monkeypatch.setattr(wall_time, "build", build)
    for options, message in ((["--rounds", "2"], "torchvision isn't installed"),
                             (["--rounds", "1"], "--rounds must be 2 or more, or there are no quartiles")):  # fmt: skip
        monkeypatch.setattr("sys.argv", ["bench_wall_time", *options])
        with pytest.raises(SystemExit) as ended:
            wall_time.main()
        assert ended.value.code == 2 and capsys.readouterr().err.endswith(f"error: {message}\n")
