"""The bench of how predictions get better with training, with few batches."""

import json

import pytest
import torch
from adagp.evaluation.benches import predictor
from adagp.evaluation.benches.predictor import figures_of, tenths
from adagp.experiments.networks.models import build
from adagp.experiments.preparation import prepared
from small_experiments import LAYERS


@pytest.mark.parametrize("held", [True, False])
def test_tenths_of_a_training(held, monkeypatch):
    """Qualities of the layers and of all weights; a network that is held stays as it begins, batch norms apart."""
    made = []
    monkeypatch.setattr(predictor, "build", lambda *given, **more: made.append(build(*given, **more)) or made[-1])
    found = tenths(prepared("digits", None), 8, 30, held, 3)
    assert len(found) == 10 and list(found[0]) == [*LAYERS, "all"]
    begun = dict(build("small-cnn", 10, 8, 3, channels=1).named_parameters())
    same = [torch.equal(begun[name], p) for name, p in made[0].named_parameters()]
    assert all(same) if held else not any(same)
    assert not any(module._forward_hooks for module in made[0].modules())
    sizes = [made[0].get_parameter(layer).numel() for layer in LAYERS]
    for measure in ("cosine", "signs"):
        mean = sum(size * found[4][layer][measure] for size, layer in zip(sizes, LAYERS, strict=True)) / sum(sizes)
        assert found[4]["all"][measure] == pytest.approx(mean)
        assert -1 <= mean <= 1
    assert tenths(prepared("digits", None), 8, 30, held, 3) == found


def test_figures():
    runs = [[{"all": {"cosine": c, "signs": s}} for c, s in run] for run in (((0.1, 0.5), (0.2, 0.6)),
                                                                             ((0.3, 0.5), (0.6, 0.7)))]  # fmt: skip
    assert figures_of("x", runs) == {"cosine_first_x": 0.2, "cosine_last_x": 0.4, "signs_last_x": 0.65}


def test_results(tmp_path, capsys):
    path = tmp_path / "predictor.json"
    predictor.main(["--batches", "20", "--seeds", "1", "-o", str(path)])
    found = json.loads(path.read_text())
    assert set(found["figures"]) == {f"{what}_digits_{kind}" for what in ("cosine_first", "cosine_last", "signs_last")
                                     for kind in ("trained", "held")}  # fmt: skip
    assert found["provenance"]["digits"]["seed"] == [0] and found["details"]["digits"]["details"]["batches"] == 20
    assert "cosine_last_digits_held" in capsys.readouterr().out
