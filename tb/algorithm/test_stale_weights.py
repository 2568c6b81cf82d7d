"""Training with stale weights, against its definition with all weights that ever were, and against the schedules."""

from copy import deepcopy
from functools import cache

import pytest
import torch
from adagp.algorithm.stale_weights import StaleWeights, stage_memory
from adagp.host.pipelines.checking import versions
from adagp.host.pipelines.schedules import build
from adagp.host.pipelines.steps import What
from adagp.host.pipelines.timing import timed
from torch import nn
from torch.nn import functional as F

LR, MOMENTUM, BATCHES = 0.1, 0.9, 13
REGISTERS, ONE_F_ONE_B = (6, 4, 2, 0), (3, 2, 1, 0)


def stages():
    """Four: two convolutions and two linear layers; float64."""
    torch.manual_seed(5)
    return [
        nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU()), nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()),
        nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU()), nn.Sequential(nn.Linear(8, 3), nn.Identity()),
    ]  # fmt: skip


def batches(count=BATCHES):
    generator = torch.Generator().manual_seed(2)
    return [(torch.randn(5, 1, 6, 6, generator=generator).double(), torch.randint(3, (5,), generator=generator))
            for _ in range(count)]  # fmt: skip


def trained(delays, stash=False, **more):
    """A trainer after an epoch."""
    parts = [stage.double() for stage in stages()]
    weights = [w for part in parts for w in part.parameters()]
    trainer = StaleWeights(parts, torch.optim.SGD(weights, LR, MOMENTUM), F.cross_entropy, delays, stash=stash, **more)
    trainer.trace = []
    for batch in trainer.epoch(batches()):
        trainer.step(*batch)
    return trainer


class Definition:
    """Weights, passes and gradients by what they are, in no order: each is computed when another asks for it.

    Backward passes are written by hand, with weights that are given to them.
    """

    def __init__(self, delays, stash):
        self.delays, self.stash, self.batches = delays, stash, batches()
        self.begun = [tuple(w.detach() for w in stage.double().parameters()) for stage in stages()]
        self.weights, self.forward, self.backward = cache(self.weights), cache(self.forward), cache(self.backward)

    def weights(self, stage, version):
        """Weights and momenta of a stage after ``version`` updates."""
        if version == 0:
            return self.begun[stage], None
        before, momenta = self.weights(stage, version - 1)
        made = [w.clone().requires_grad_() for w in before]
        sgd = torch.optim.SGD(made, LR, MOMENTUM)
        for number, (w, gradient) in enumerate(zip(made, self.backward(stage, version - 1)[1], strict=True)):
            w.grad = gradient
            if momenta:
                sgd.state[w]["momentum_buffer"] = momenta[number].clone()
        sgd.step()
        return [w.detach() for w in made], [sgd.state[w]["momentum_buffer"] for w in made]

    def seen(self, stage, batch):
        return max(0, batch - self.delays[stage])

    def forward(self, stage, batch):
        """A stage's inputs and outputs."""
        x = self.forward(stage - 1, batch)[1] if stage else self.batches[batch][0]
        (weight, bias), _ = self.weights(stage, self.seen(stage, batch))
        x = x.flatten(1) if stage >= 2 else x
        y = F.conv2d(x, weight, bias) if stage < 2 else F.linear(x, weight, bias)
        return x, y.relu() if stage < 3 else y

    def backward(self, stage, batch):
        """Gradients of a stage's inputs and of its weights."""
        x, y = self.forward(stage, batch)
        if stage == 3:
            y = y.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(F.cross_entropy(y, self.batches[batch][1]), y)
        else:
            gradient = self.backward(stage + 1, batch)[0].reshape(y.shape) * (y > 0)
        (weight, _), _ = self.weights(stage, self.seen(stage, batch) if self.stash else batch)
        if stage < 2:
            of = torch.ops.aten.convolution_backward(
                gradient, x, weight, [len(weight)], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True] * 3
            )
            return of[0], of[1:]
        return gradient @ weight, (gradient.t() @ x, gradient.sum(0))


@pytest.mark.parametrize("delays", [REGISTERS, ONE_F_ONE_B, (2, 0, 0, 0), (0, 0, 0, 0)])
@pytest.mark.parametrize("stash", [False, True])
def test_weights_are_those_of_the_definition_to_the_bit(delays, stash):
    trainer, reference = trained(delays, stash), Definition(delays, stash)
    for number, stage in enumerate(trainer.stages):
        expected, _ = reference.weights(number, BATCHES)
        assert all(torch.equal(w, e) for w, e in zip(stage.parameters(), expected, strict=True))
        assert not torch.equal(expected[0], reference.begun[number][0])


@pytest.mark.parametrize("name, devices, delays", [("stale-registers", 7, REGISTERS), ("stale-1f1b", 4, ONE_F_ONE_B)])
def test_passes_see_the_weights_that_the_schedule_gives_them(name, devices, delays):
    schedule = build(name, devices, BATCHES)
    assert schedule.staleness == delays
    planned = {(step.what, step.stage, step.micro_batch): seen for step, seen in versions(timed(schedule)).items()}
    found = {(What(one.what), one.stage, one.batch): one.version for one in trained(delays).trace}
    assert found == planned and len(found) == 2 * 4 * BATCHES


def test_four_stages_by_hand():
    trainer = trained(REGISTERS)
    forward = {stage: [p.version for p in trainer.trace if (p.what, p.stage) == ("F", stage)] for stage in (0, 2)}
    assert forward[0] == [0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6]
    assert forward[2] == [0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert [p.version for p in trainer.trace if (p.what, p.stage) == ("B", 0)] == list(range(BATCHES))


@pytest.mark.parametrize("stash", [False, True])
def test_memory_counted_is_the_formulas(stash):
    """Inputs of 5 x 36 and 5 x 3 x 16 numbers, which a ReLU's result is too, in the first stage; float64."""
    trainer = trained(REGISTERS, stash)
    rows = stage_memory(trainer.stages, REGISTERS, batches(1)[0][0])
    assert [row.held for row in rows] == [held for held, _ in trainer.peaks]
    assert rows[0].activations == 8 * 5 * (36 + 3 * 16) and rows[0].held == 7 * rows[0].activations
    assert [versions for _, versions in trainer.peaks] == ([7, 5, 3, 1] if stash else [1, 1, 1, 1])
    assert rows[0].weights == 8 * 30 and rows[0].stashed == 6 * 8 * 30 and rows[3].stashed == 0
    twice = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))  # two layers keep the ReLU's result
    assert stage_memory([twice], (0,), torch.zeros(5, 4))[0].activations == 2 * 4 * 5 * 4


def test_hybrid_training_is_undelayed_from_its_epoch_on_and_goes_on():
    """Two epochs of which the first is pipelined: first as delayed, then as plain; also when it stops between them."""
    trainer = trained(REGISTERS, pipelined_epochs=1)
    assert all(torch.equal(a, b) for s, other in zip(trainer.stages, trained(REGISTERS).stages, strict=True)
               for a, b in zip(s.parameters(), other.parameters(), strict=True))  # fmt: skip
    resumed, network = trained(REGISTERS, pipelined_epochs=1), nn.Sequential(*(s.double() for s in stages()))
    resumed.epochs = 0
    resumed.load_state_dict(deepcopy(trainer.state_dict()))
    network.load_state_dict(nn.Sequential(*trainer.stages).state_dict())
    plain = torch.optim.SGD(network.parameters(), LR, MOMENTUM)
    plain.load_state_dict(deepcopy(trainer.optimizer.state_dict()))
    for both in (trainer, resumed):
        both.trace = []
        for batch in both.epoch(batches(3)):
            both.step(*batch)
        assert [p.version for p in both.trace if p.stage == 0] == [13, 13, 14, 14, 15, 15]
    for x, y in batches(3):
        plain.zero_grad()
        F.cross_entropy(network(x), y).backward()
        plain.step()
    first, second = (nn.Sequential(*both.stages).parameters() for both in (trainer, resumed))
    for mine, other, theirs in zip(first, second, network.parameters(), strict=True):
        assert torch.equal(mine, theirs) and torch.equal(other, theirs)


def test_mistakes_are_told():
    parts = stages()
    sgd = torch.optim.SGD(nn.Sequential(*parts).parameters(), 0.1)
    for delays in ((1, 0), (1, 2, 1, 0), (3, 2, 1, 1)):
        with pytest.raises(ValueError, match=r"must be one for each of 4 stages, falling to 0"):
            StaleWeights(parts, sgd, F.cross_entropy, delays)
    with pytest.raises(ValueError, match="stages 0 and 2 share a weight"):
        StaleWeights([*parts[:2], parts[0]], sgd, F.cross_entropy, (2, 1, 0))
    with pytest.raises(ValueError, match="the optimizer has 2 weights that are in no stage"):
        StaleWeights(parts[:3], sgd, F.cross_entropy, (2, 1, 0))
    trainer = StaleWeights(parts, sgd, F.cross_entropy, ONE_F_ONE_B)
    trainer.step(torch.randn(2, 1, 6, 6), torch.tensor([0, 1]))
    with pytest.raises(RuntimeError, match="batches are in the pipeline"):
        trainer.state_dict()
