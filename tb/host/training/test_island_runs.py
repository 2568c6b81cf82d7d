"""Training with a host island: against torch in float64, golden against simulated RTL, resumed runs, evaluation."""

from copy import deepcopy
from itertools import pairwise

import numpy as np
import pytest
import torch
from adagp.host.devices.golden import GoldenDevice
from adagp.host.islands.runtime import IslandError, Moment
from adagp.host.training.diff import compare
from adagp.host.training.inference import predict
from adagp.host.training.network import Network
from adagp.spec.commands import Opcode
from adagp.spec.presets import preset
from batches import train_batch
from hand_islands import NormReLU
from scheduled_runs import HashedRun, config_of, simulated
from torch import nn

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

SEED, BATCH, IMAGE, N_CLASSES = 5, 8, (2, 4, 4), 3
TINY, MEMORY = preset("tiny"), 1 << 20
HYPER = {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01}


def setting(**options):
    print(f"seed {SEED}")
    torch.manual_seed(SEED)
    module = NormReLU(IMAGE[0], N_CLASSES, **options).double()
    images = np.random.default_rng(SEED).uniform(-1, 1, (BATCH, *IMAGE))
    return module, Network(module, IMAGE, BATCH, TINY), images, np.arange(BATCH) % N_CLASSES


def test_training_follows_torch():
    module, network, images, labels = setting()
    device = GoldenDevice(TINY, MEMORY)
    network.load_state(device, module.state_dict())
    network.set_hyper(device, *HYPER.values())
    optimiser = torch.optim.SGD(module.parameters(), **HYPER)
    first = {name: value.clone() for name, value in module.state_dict().items()}
    for step in range(6):
        _, logits = train_batch(network, device, images, labels, calibrate=step == 0)
        expected = module(torch.from_numpy(images))
        np.testing.assert_allclose(logits, expected.detach().numpy(), atol=2e-3)
        optimiser.zero_grad()
        nn.functional.cross_entropy(expected, torch.from_numpy(labels)).backward()
        optimiser.step()
    state = network.state_dict(device)
    assert list(state) == list(module.state_dict())
    for name, value in module.state_dict().items():
        assert (value != first[name]).any() and state[name].dtype == value.dtype, name
        np.testing.assert_allclose(state[name], value, atol=1e-3)
    assert state["norm.num_batches_tracked"] == 6
    NormReLU(IMAGE[0], N_CLASSES).load_state_dict(state)
    module.eval()
    before = network.snapshot(device)
    np.testing.assert_allclose(
        predict(network, device, images[:5]), module(torch.from_numpy(images[:5])).detach().numpy(), atol=2e-3
    )
    after = network.snapshot(device)
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed <= {"exponents"} and len(before) > 10  # those of tensors that the host writes are batches' own


def run_of(device, drawn_by=None, **options):
    """Training by a schedule with warm-up, runs of GP batches and BP batches, on a device."""
    return HashedRun(lambda: NormReLU(IMAGE[0], N_CLASSES, **options), IMAGE, BATCH, device, SEED, drawn_by)


def golden(variant):
    return GoldenDevice(config_of(variant), MEMORY)


@pytest.mark.parametrize("variant", ["baseline", "max"])
def test_golden_and_simulated_rtl_end_with_the_same_bits(variant):
    runs = [run_of(device, dropout=0.25) for device in (golden(variant), simulated(variant))]
    one, other = (run.go() for run in runs)
    progress = runs[0].trainer.progress
    gp, n_starts = (4, 7) if variant == "max" else (0, 10)
    assert progress.batches[2] == gp and sum(progress.batches) == 10
    assert one == other and len(set(one)) == len(one) == n_starts
    assert runs[0].network.state_dict(runs[0].device)["norm.num_batches_tracked"] == 10  # those of GP too
    assert 0 < progress.island_seconds < progress.host_seconds
    runs[1].device.close()


def test_islands_learn_in_backpropagation_alone_but_their_statistics_move_in_every_batch():
    run, seen = run_of(golden("low")), []
    run.trainer.on_batch = lambda progress, loss: seen.append((
        list(progress.batches), {name: value.clone() for name, value in run.network.islands.state.parameters.items()},
        run.network.islands.state.buffers["norm.num_batches_tracked"].item(),
    ))  # fmt: skip
    run.trainer.run()
    only_gp = 0
    for (before, parameters, _), (after, later, tracked) in pairwise(seen):
        same = all(value.equal(later[name]) for name, value in parameters.items())
        assert tracked == sum(after) and same == (before[:2] == after[:2])
        only_gp += same
    assert only_gp > 0


@pytest.mark.parametrize("variant", ["baseline", "max"])
def test_a_killed_run_goes_on_with_the_same_bits(variant):
    undisturbed = run_of(golden(variant), dropout=0.25).go()
    first = run_of(golden(variant), dropout=0.25)
    first.stop_after = 4
    with pytest.raises(InterruptedError):
        first.go()
    arrays, progress = first.network.snapshot(first.device), deepcopy(first.trainer.progress)
    second = run_of(golden(variant), dropout=0.25)
    second.network.restore(second.device, arrays)
    second.trainer.progress = progress
    assert first.hashes + second.go() == undisturbed
    del arrays["island.momentum.norm.weight"]
    with pytest.raises(KeyError, match=r"island\.momentum\.norm\.weight"):
        second.network.restore(second.device, arrays)


def test_random_operators_depend_on_the_seed():
    hashes = [run_of(golden("baseline"), seed, dropout=0.5).go()[0] for seed in (1, 1, 2)]
    assert hashes[0] == hashes[1] != hashes[2]


def test_every_island_of_every_batch_draws_its_own(monkeypatch):
    """Seeds depend on the batch's place in the run, not on the batches that are started together."""
    seeds, draw = [], Moment.draw
    monkeypatch.setattr(Moment, "draw", lambda *place: seeds.append(draw(*place)) or seeds[-1])
    run = run_of(golden("low"))
    assert len(run.go()) == 7
    places = [Moment(SEED, epoch, batch) for epoch in (0, 1) for batch in range(5)]
    training = [seed for seed in dict.fromkeys(seeds) if seed in {draw(place, 0, 0) for place in places}]
    assert training == [draw(place, 0, 0) for place in places] and len(set(training)) == 10
    assert draw(places[0], 2, 0) == draw(places[2], 0, 0) != draw(places[2], 0, 1)


def test_results_beyond_all_exponents_are_refused():
    module, network, images, _ = setting()
    device = GoldenDevice(TINY, MEMORY)
    network.load_state(device, {**module.state_dict(), "norm.weight": torch.full((6,), float("inf"))})
    network.write_input(device, images)
    network.start(device, 0, calibrate=True)
    with pytest.raises(
        IslandError, match=r"norm\.BatchNorm2d, forward on the host: a tensor's largest magnitude must be finite"
    ):
        network.wait(device)


def test_two_devices_are_compared_command_by_command():
    """A prefix of the program may end before its last stop."""
    module, network, *_ = setting()
    one, other = GoldenDevice(TINY, MEMORY), GoldenDevice(TINY, MEMORY)
    assert compare(network, one, other, module.state_dict(), SEED) is None
    address = network.tensors["norm.BatchNorm2d.output"].address

    def wrong(index, command):
        if command.opcode == Opcode.BACKWARD_DATA:
            other.machine.memory[address] ^= 1

    other.machine.on_command = wrong
    found = compare(network, one, other, module.state_dict(), SEED)
    assert found.tensor == "norm.BatchNorm2d.output" and "backward_data" in found.line
