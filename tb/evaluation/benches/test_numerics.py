"""The bench of int16 against fp32: other seeds make a part of their own, with the learning rate that was found."""

import json

import pytest
from adagp.evaluation.benches import numerics
from adagp.host.training.data import load_dataset


@pytest.fixture
def bench(monkeypatch, tmp_path):
    """Runs the bench's command with a run that takes no time; returns its results."""
    runs = []

    def run(name, kind, settings, dataset, source):
        runs.append((kind, settings.seed, settings.learning_rate))
        accuracy = 0.5 + settings.seed / 100 - (kind == "int16") / 10 * settings.seed
        return {"test_accuracy": accuracy, "settings": settings.to_dict(), "seconds": 0, "train_images": 9,
                "saturations": 0, "results": 1}  # fmt: skip

    monkeypatch.setattr(numerics, "_run", run)
    monkeypatch.setattr(numerics, "load_dataset", lambda *_: load_dataset("digits", None))
    path = tmp_path / "found.json"

    def main(*options):
        runs.clear()
        given = ["x", "--graphs", "--data-dir", str(tmp_path), "--cases", "cifar_mobilenet", "--output", str(path)]
        monkeypatch.setattr("sys.argv", [*given, *options])
        numerics.main()
        return json.loads(path.read_text()), runs

    return main


def test_other_seeds_are_a_part_of_their_own(bench, capsys):
    with pytest.raises(SystemExit):
        bench("--seeds", "5-6")
    assert "doesn't have cifar_mobilenet with the usual seeds" in capsys.readouterr().err
    bench()
    written, runs = bench("--seeds", "5-6")
    assert runs == [("fp32", 5, 0.05), ("int16", 5, 0.05), ("fp32", 6, 0.05), ("int16", 6, 0.05)]
    figures = written["figures"]
    assert figures["cifar_mobilenet_delta_points"] == -20 and figures["cifar_mobilenet_seeds_5_6_delta_points"] == -55
    assert written["provenance"]["cifar_mobilenet_seeds_5_6"]["command"].endswith("--graphs --seeds 5-6")


@pytest.mark.parametrize("text", ["5", "6-5", "5-5", "a-b", "-3"])
def test_seeds_that_are_no_range_are_refused(bench, capsys, text):
    with pytest.raises(SystemExit):
        bench(f"--seeds={text}")
    assert "isn't FIRST-LAST with two seeds at least" in capsys.readouterr().err
