"""CUDA graphs of batches: which batches are recorded, and that replays train as AdaGP does; here without a GPU."""

import pytest
import torch
from adagp import AdaGP, schedule
from adagp.algorithm.graphed import WARM, GraphedAdaGP
from adagp.algorithm.teacher import Teacher
from torch.nn import functional as F
from torch_networks import conv_network, image_batches, weights_of

PHASES = schedule(1, (1, 2, 1))


class _Replayed(GraphedAdaGP):
    """A recording is the work itself, run again at each replay, with the tensors that it was recorded with."""

    def _need_device(self):
        self.records, self.replays = [], 0

    def _beside(self, run):
        return run()

    def _record(self, run):
        self.records.append(self.next_phase().name)

        def replay():
            self.replays += 1
            return run()

        return replay


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    """Adam counts steps on the device for a GPU alone."""
    monkeypatch.setattr(Teacher, "stay_on_device", lambda self: None)


def _train(make, count=24, slower=()):
    network, batches = conv_network(), image_batches(count)
    optimizer = torch.optim.SGD(network.parameters(), 0.01, momentum=0.9)
    ada = make(network, optimizer, PHASES, metrics=False, weights_at_once=3)
    x, y = (torch.empty_like(part) for part in batches[0])
    losses = []
    for number, batch in enumerate(batches):
        if number in slower:
            optimizer.param_groups[0]["lr"] /= 2
        if number == 6:
            ada.end_epoch()
        x.copy_(batch[0])
        y.copy_(batch[1])
        losses.append(float(ada.step(lambda: F.cross_entropy(network(x), y))))
    return weights_of(network), losses, ada


def test_replays_train_as_batches_do():
    expected, expected_losses, _ = _train(AdaGP)
    weights, losses, ada = _train(_Replayed)
    assert losses == expected_losses and all(torch.equal(weights[name], expected[name]) for name in expected)
    assert ada.records == ["WARMUP", "GP"], "a graph for each kind; one of true gradients does for warm-up and BP"
    assert ada.replays == 24 - 2 * WARM


def test_a_new_learning_rate_is_recorded_anew():
    expected, _, _ = _train(AdaGP, slower=(14,))
    weights, _, ada = _train(_Replayed, slower=(14,))
    assert all(torch.equal(weights[name], expected[name]) for name in expected)
    assert sorted(ada.records) == ["BP", "GP", "GP", "WARMUP"]


def test_a_loaded_state_is_recorded_anew():
    _, _, ada = _train(_Replayed)
    state = ada.state_dict()
    assert ada._recorded
    ada.load_state_dict(state)
    assert not ada._recorded and all(g["capturable"] for g in ada._teacher.state_dict()["optimizer"]["param_groups"])
    assert not any(group["capturable"] for group in state["optimizer"]["param_groups"]), "the caller's stays"


def test_what_works_on_the_host_is_refused():
    network = conv_network()
    optimizer = torch.optim.SGD(network.parameters(), 0.01)
    for options, why in (({"metrics": True}, "metrics: of no use"), ({"gate": 0.1}, "gate: of no use"),
                         ({"source": "mean"}, "the source 'mean'"), ({}, "network is on cpu")):  # fmt: skip
        with pytest.raises(ValueError, match=why):
            GraphedAdaGP(network, optimizer, PHASES, **options)
