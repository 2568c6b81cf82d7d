"""Schedules of learning rates by epochs, beside torch's own; the images that validation sets aside."""

import numpy as np
import pytest
import torch
from adagp.host.compiler.ir import HYPER
from adagp.host.compiler.predictor_steps import ADAM_HYPER
from adagp.host.compiler.quantise import constant
from adagp.host.training.plateau import Plateau
from adagp.host.training.run_folder import RunError
from adagp.host.training.session import open_session
from adagp.host.training.settings import SettingsError, TrainSettings
from adagp.host.training.trainer import Trainer

SEED = 12


def optimiser(rate):
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=rate)


def torch_rates(rate, losses, factor, patience):
    """The rate before each loss, and behind the last."""
    sgd = optimiser(rate)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(sgd, factor=factor, patience=patience)
    rates = [sgd.param_groups[0]["lr"]]
    for loss in losses:
        schedule.step(loss)
        rates.append(sgd.param_groups[0]["lr"])
    return rates


@pytest.mark.parametrize(("factor", "patience"), [(0.1, 10), (0.5, 0), (0.9, 2), (0.3, 1)])
def test_plateau_is_torchs(factor, patience):
    rng = np.random.default_rng(SEED)
    reductions = 0
    for _ in range(10):
        losses = 3 * 0.9 ** np.arange(60) + rng.choice([0, 1e-4, 0.1]) * rng.random(60) + 0.3
        losses[rng.random(60) < 0.1] = np.nan
        losses[1::7] = losses[::7][:9] * (1 - 1e-4)  # just no better, or just better
        plateau = Plateau(factor, patience)
        state, rates = plateau.begin(0.1), [0.1]
        for loss in losses.tolist():
            state = plateau.after(state, loss)
            rates.append(state["rate"])
        assert rates == torch_rates(0.1, losses.tolist(), factor, patience)
        reductions += len(set(rates)) - 1
    assert reductions > 10 / (1 + patience)


@pytest.mark.parametrize(("milestones", "gamma"), [("", 0.1), ("1", 0.1), ("3,4,9", 0.3), ("10,20", 0.1)])
def test_milestones_are_torchs(milestones, gamma):
    settings = TrainSettings(predictor_milestones=milestones, predictor_gamma=gamma)
    sgd = optimiser(settings.predictor_rate)
    epochs = [int(epoch) for epoch in milestones.split(",") if epoch]
    schedule = torch.optim.lr_scheduler.MultiStepLR(sgd, epochs, gamma)
    for epoch in range(25):
        assert settings.predictor_rate_at(epoch) == sgd.param_groups[0]["lr"]
        sgd.step()
        schedule.step()
    assert (settings.predictor_rate_at(24) < settings.predictor_rate) == bool(milestones)


@pytest.mark.parametrize("milestones", ["0", "2,2", "3,1", "a", "1,,2", "-1", "1.5", ","])
def test_milestones_that_make_no_sense(milestones):
    with pytest.raises(SettingsError, match=r"predictor_milestones = .* must be rising epochs"):
        TrainSettings(predictor_milestones=milestones)


@pytest.mark.parametrize("wrong", [
    {"plateau_factor": 1.0}, {"plateau_factor": 0.0}, {"plateau_patience": -1}, {"predictor_gamma": 2.0},
    {"validation_fraction": 1.0},
])  # fmt: skip
def test_other_settings_that_make_no_sense(wrong):
    (name,) = wrong
    with pytest.raises(SettingsError, match=name):
        TrainSettings(**wrong)


def chosen(**changes):
    values = {
        "preset": "tiny", "model": "mlp", "batch": 8, "epochs": 6, "train_images": 60, "test_images": 16,
        "schedule": "plateau", "plateau_patience": 0, "plateau_factor": 0.5, "validation_fraction": 0.3,
        "learning_rate": 0.3, "variant": "low", "phases": "1:1", "predictor_milestones": "2,4",
    }  # fmt: skip
    return TrainSettings(**{**values, **changes})


def constant_value(rate):
    mantissa, exponent = constant(rate)
    return mantissa * 2.0**exponent


def test_rates_reach_the_device(monkeypatch):
    torch.set_num_threads(1)
    settings, seen = chosen(), {}
    with open_session(settings, "golden") as session:
        correct = session.device.set_hyper

        def set_hyper(index, mantissa, exponent):
            seen.setdefault(index, []).append(mantissa * 2.0**exponent)
            correct(index, mantissa, exponent)

        monkeypatch.setattr(session.device, "set_hyper", set_hyper)
        log = Trainer(settings, session.network, session.device, session.dataset).run().log
    rates = torch_rates(0.3, [row["validation_loss"] for row in log], 0.5, 0)
    assert [row["learning_rate"] for row in log] == rates[:-1] and len(set(rates)) > 1
    expected = [constant_value(rate) for rate in rates[:-1]]
    assert list(dict.fromkeys(seen[HYPER])) == list(dict.fromkeys(expected))
    assert seen[ADAM_HYPER] == pytest.approx([1e-3, 1e-3, 1e-4, 1e-4, 1e-5, 1e-5], rel=2**-14)


def test_validation_images_are_training_images_not_trained_on():
    parts = {}
    for seed in (0, 0, 1):
        settings = chosen(seed=seed)
        with open_session(settings, "golden") as session:
            trainer = Trainer(settings, session.network, session.device, session.dataset)
            whole, labels = session.dataset.train_x_NCHW[:60], session.dataset.train_y_N[:60]
        found = np.concatenate([trainer.validation_x_NCHW, trainer.train_x_NCHW])
        order = [int(np.flatnonzero((whole == x).all(axis=(1, 2, 3)))[0]) for x in found]
        assert len(trainer.validation_y_N) == 18 and sorted(order) == list(range(60))
        np.testing.assert_array_equal(np.concatenate([trainer.validation_y_N, trainer.train_y_N]), labels[order])
        aside = order[:18]
        assert parts.setdefault(seed, aside) == aside
    assert parts[0] != parts[1]


def test_a_split_without_images_is_refused():
    settings = chosen(validation_fraction=0.001)
    with (
        open_session(settings, "golden") as session,
        pytest.raises(RunError, match=r"validation_fraction = 0\.001 of 60 training images is none"),
    ):
        Trainer(settings, session.network, session.device, session.dataset)
