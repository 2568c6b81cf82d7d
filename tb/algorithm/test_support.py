"""With what the library works, and what it refuses: autocast, processes, states, sources."""

import io
import json
import math
import warnings
from contextlib import nullcontext

import pytest
import torch
from adagp import AdaGP, PredictorSettings, schedule
from adagp.spec.commands import Phase
from adagp.spec.schedule import SOURCES
from torch import multiprocessing, nn
from torch.nn import functional as F
from torch_networks import conv_network, image_batches, weights_of
from trained import MIXED, process, train, without_statistics


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("gate", [None, 0.01])
def test_a_run_goes_on_bit_for_bit(source, gate):
    def parts():
        network = conv_network()
        optimizer = torch.optim.AdamW(network.parameters(), 1e-2)
        settings = PredictorSettings(milestones=(2,), lr=1e-2)
        ada = AdaGP(network, optimizer, MIXED, predictor=settings, source=source, gate=gate, seed=3)
        return network, optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8), ada

    batches = image_batches(16)
    whole, _, rates, ada = parts()
    train(ada, whole, batches, rates=rates)
    for cut in (2, 6, 9):
        first = parts()
        train(first[-1], first[0], batches, 0, cut, first[2])
        file = io.BytesIO()
        torch.save([part.state_dict() for part in first], file)
        file.seek(0)
        torch.manual_seed(99)
        second = parts()
        for part, state in zip(second, torch.load(file), strict=True):  # weights_only, as by default
            part.load_state_dict(state)
        network, _, rates, again = second
        train(again, network, batches, cut, rates=rates)
        assert all(torch.equal(value, network.state_dict()[name]) for name, value in whole.state_dict().items())
        predictor = again.predictor.state_dict()
        assert all(torch.equal(value, predictor[name]) for name, value in ada.predictor.state_dict().items())
        assert json.dumps(again.metrics.rows) == json.dumps(ada.metrics.rows) and ada.metrics.rows


def test_states_of_others_are_refused():
    network = conv_network()
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    state = AdaGP(network, optimizer).state_dict()
    other = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Linear(4, 4))
    with pytest.raises(ValueError, match=r"other layers: 1\.weight, 3\.weight"):
        AdaGP(other, torch.optim.SGD(other.parameters(), 0.1)).load_state_dict(state)
    wider = nn.Sequential(nn.Linear(8, 5))
    narrow = nn.Sequential(nn.Linear(8, 2))
    states = [AdaGP(net, torch.optim.SGD(net.parameters(), 0.1)) for net in (narrow, wider)]
    with pytest.raises(ValueError, match=r"other layers: 0\.weight"):
        states[1].load_state_dict(states[0].state_dict())
    with pytest.raises(ValueError, match=r"predictor with lr = 0\.001, not 0\.0001"):
        AdaGP(network, optimizer, predictor=PredictorSettings.paper()).load_state_dict(state)
    with pytest.raises(ValueError, match="source 'predicted' of gradients, not of 'zero'"):
        AdaGP(network, optimizer, source="zero").load_state_dict(state)


def gp_gradients(source, batches=3):
    """True gradients of BP batches, and the gradient of a GP batch behind them, of a network with plain SGD."""
    torch.manual_seed(1)
    network = nn.Linear(3, 2, bias=False)
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 1.0), schedule(1, (1, 1, 0)), source=source)
    true, compute = [], lambda: (network(torch.randn(4, 3)) ** 3).sum()
    for _ in range(batches):
        before = network.weight.detach().clone()
        ada.step(compute)
        true.append(before - network.weight.detach())
    ada.end_epoch()
    before = network.weight.detach().clone()
    loss = ada.step(compute)
    assert ada.phase is Phase.GP and (loss is None) is (source == "skip")
    return true, before - network.weight.detach()


def test_sources():
    given = {source: gp_gradients(source)[1] for source in SOURCES}
    true, last = gp_gradients("last")
    torch.testing.assert_close(last, true[-1])
    mean = true[0]
    for gradient in true[1:]:
        mean = mean * 7 / 8 + gradient / 8
    torch.testing.assert_close(given["mean"], mean)
    assert not given["zero"].any() and not given["skip"].any()
    torch.testing.assert_close(given["random"].abs(), given["predicted"].abs())
    assert not torch.equal(given["random"], given["predicted"]) and given["predicted"].any()


def test_zero_lets_momentum_coast():
    network = nn.Linear(2, 2, bias=False)
    ada = AdaGP(
        network, torch.optim.SGD(network.parameters(), 1.0, momentum=0.5), schedule(1, (1, 2, 0)), source="zero"
    )
    moves = []
    for _ in range(3):
        before = network.weight.detach().clone()
        ada.step(lambda: network(torch.ones(1, 2)).sum())
        moves.append(network.weight.detach() - before)
        ada.end_epoch()
    torch.testing.assert_close(moves[1], moves[0] / 2)
    torch.testing.assert_close(moves[2], moves[0] / 4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    network, batches = conv_network(), image_batches(9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10) if dtype is torch.float16 else None
    optimizer = torch.optim.SGD(network.parameters(), 0.05, momentum=0.9)
    ada = AdaGP(network, optimizer, schedule(6, (1, 1, 2)), scaler=scaler)
    losses, phases = [], set()
    for _ in range(8):
        for x, y in batches:

            def compute(x=x, y=y):
                with torch.autocast("cpu", dtype):
                    output = network(x)
                assert output.dtype is dtype
                return F.cross_entropy(output.float(), y)

            losses.append(float(ada.step(compute)))
            phases.add(ada.phase)
        ada.end_epoch()
    assert sum(losses[45:54]) < 0.7 * sum(losses[:9]) and math.isfinite(losses[-1])
    assert phases == {Phase.WARMUP, Phase.BP, Phase.GP}
    assert all(value.dtype is torch.float32 for value in ada.predictor.state_dict().values())
    assert all(parameter.dtype is torch.float32 for parameter in network.parameters())


def test_batches_with_infinite_gradients_teach_nothing():
    network, (batch,) = conv_network(), image_batches(1)
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 0.1), schedule(1),
                scaler=torch.amp.GradScaler("cpu", init_scale=2.0**10))  # fmt: skip
    before, predictor = [p.detach().clone() for p in network.parameters()], weights_of(ada.predictor)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a scaler that looks for its factor is nothing to warn of
        ada.step(lambda: F.cross_entropy(network(batch[0]), batch[1]) * 1e36)
    assert all(torch.equal(b, p) for b, p in zip(before, network.parameters(), strict=True))
    assert all(torch.equal(predictor[name], value) for name, value in ada.predictor.state_dict().items())


@pytest.mark.parametrize("weights_at_once", [1, 3, 9])
def test_outputs_that_overflow_leave_weights_finite(weights_at_once):
    """In a GP batch too, which is skipped as a whole, whichever layer it is."""
    network, batches = conv_network(), image_batches(2)
    network[1] = nn.Identity()  # whose statistics would be infinite, as in any training
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 0.1), schedule(1, (1, 1, 0)),
                scaler=torch.amp.GradScaler("cpu", init_scale=2.0**10), weights_at_once=weights_at_once)  # fmt: skip
    for _ in ada.epoch(range(1)):
        ada.step(lambda: F.cross_entropy(network(batches[0][0]), batches[0][1]))

    def moved(x, layer=None):
        before = weights_of(network)
        with pytest.warns(RuntimeWarning, match=f"gradients of {layer} aren't") if layer else nullcontext():
            ada.step(lambda: F.cross_entropy(network(x), batches[1][1]))
        assert ada.phase is Phase.GP and all(value.isfinite().all() for value in network.state_dict().values())
        return {name for name, value in network.state_dict().items() if not torch.equal(before[name], value)}

    assert moved(batches[1][0] * 1e38 * 1e38, "0.weight") == set() and moved(batches[1][0]) == set(ada.predicted)
    with torch.no_grad():
        network[8].weight *= 1e38  # of the last layer alone
    assert moved(batches[1][0] * 100, "8.weight") == set()


def test_processes_train_the_same_network(tmp_path):
    """Two processes with half of each batch: the same weights in both, those of one process with whole batches."""
    multiprocessing.spawn(process, (2, str(tmp_path)), nprocs=2)
    (first, predictor), (second, other) = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    network = without_statistics()
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 0.05, momentum=0.9), MIXED)
    train(ada, network, image_batches(12))
    for mine, others, alone in ((first, second, network), (predictor, other, ada.predictor)):
        for name, value in mine.items():
            assert torch.equal(value, others[name]), name
            torch.testing.assert_close(value, alone.state_dict()[name], atol=1e-4, rtol=1e-3, msg=name)
