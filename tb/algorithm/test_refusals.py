"""The library's refusals, with their reasons; copies of the network, which aren't its work."""

import copy
import io

import pytest
import torch
from adagp import AdaGP, Phase, PredictorSettings, schedule
from torch import distributed, nn
from torch.nn import functional as F
from torch_networks import conv_network, image_batches, weights_of


def _refusals():
    plain = nn.Linear(2, 2)
    compiled = nn.Sequential(nn.Linear(2, 2))
    compiled[0].compile()
    yield torch.compile(plain), "compiled network"
    yield compiled, "compiled network"
    yield torch.jit.script(plain), "scripted network"
    yield nn.DataParallel(plain), "DataParallel"
    yield nn.Sequential(nn.Linear(2, 2), nn.LazyLinear(3)), "lazy modules"


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # a network of it is to be refused
def test_refusals():
    count = 0
    for network, reason in _refusals():
        weights = [p for p in network.parameters() if not nn.parameter.is_lazy(p)]
        with pytest.raises(TypeError, match=reason):
            AdaGP(network, torch.optim.SGD(weights, 0.1))
        count += 1
    assert count == 5
    plain = nn.Linear(2, 2)
    with pytest.raises(TypeError, match="LBFGS"):
        AdaGP(plain, torch.optim.LBFGS(plain.parameters()))
    with pytest.raises(TypeError, match="SparseAdam: predicted gradients are dense"):
        AdaGP(plain, torch.optim.SparseAdam(plain.parameters()))
    with pytest.raises(TypeError, match=r"several optimizers: .* give it groups of parameters"):
        AdaGP(plain, [torch.optim.SGD([p], 0.1) for p in plain.parameters()])
    with pytest.raises(ValueError, match="no weight that is trained"):
        AdaGP(plain, torch.optim.SGD([plain.bias], 0.1))
    optimizer = torch.optim.SGD(plain.parameters(), 0.1)
    with pytest.raises(ValueError, match=r"gate is 2, and a cosine is between -1 and 1"):
        AdaGP(plain, optimizer, gate=2)
    for number in (0, 2.5, "8"):
        with pytest.raises(
            ValueError, match=f"weights_at_once is {number!r}, and must be a whole number of at least 1"
        ):
            AdaGP(plain, optimizer, weights_at_once=number)
    with pytest.raises(ValueError, match="predictor_every is 0, and must be a whole number of at least 1"):
        AdaGP(plain, optimizer, predictor_every=0)
    with pytest.raises(ValueError, match="gp_momentum is 'no', and must be one of update, keep"):
        AdaGP(plain, optimizer, gp_momentum="no")
    with pytest.raises(ValueError, match="gp_momentum is 'keep', which is for SGD, not for Adam"):
        AdaGP(plain, torch.optim.Adam(plain.parameters()), gp_momentum="keep")
    with pytest.raises(ValueError, match=r"gate is 'x', and a cosine"):
        AdaGP(plain, optimizer, gate="x")
    with pytest.raises(TypeError, match=r"network is of type SGD, and must be an nn\.Module"):
        AdaGP(optimizer, plain)
    with pytest.raises(TypeError, match=r"optimizer is of type generator, and must be a torch\.optim\.Optimizer"):
        AdaGP(plain, plain.parameters())
    with pytest.raises(TypeError, match="step takes a function that runs the network and returns the loss, not Tensor"):
        AdaGP(plain, optimizer).step(plain(torch.ones(1, 2)).sum())
    with pytest.raises(ValueError, match="no source 'guess' of gradients; there are predicted"):
        AdaGP(plain, optimizer, source="guess")
    for field in ("windows", "channels", "decay", "lr"):
        with pytest.raises(ValueError, match=f"{field} is -1"):
            PredictorSettings(**{field: -1})


@pytest.mark.parametrize("phases", [(1, 1, 0), (1, 0, 1)])
def test_a_graph_compiled_later_is_refused(phases):
    """Its layers can't be seen; the network as it is still trains."""
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 0.1), schedule(0, phases))
    compiled, x = torch.compile(network, backend="eager"), torch.randn(3, 4)
    before = weights_of(network)
    with pytest.raises(TypeError, match=r"can't train a compiled network \(torch.compile\)"):
        ada.step(lambda: compiled(x).sum())
    assert all(torch.equal(before[name], p) for name, p in network.named_parameters())
    assert ada.step(lambda: network(x).sum()) is not None


def test_one_of_several_processes_is_refused(monkeypatch):
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    network = nn.Linear(2, 2)
    with pytest.raises(TypeError, match="weights would drift apart; give the DistributedDataParallel"):
        AdaGP(network, torch.optim.SGD(network.parameters(), 0.1))


def test_copies_are_no_part_of_it():
    """Hooks are on the network that was given, and gone when it is closed."""
    network, (batch, other) = conv_network(), image_batches(2)
    with AdaGP(network, torch.optim.SGD(network.parameters(), 0.1), schedule(0, (1, 1, 0))) as ada:
        before = weights_of(network)
        with torch.no_grad():
            network(other[0])  # evaluation
        assert all(torch.equal(before[name], p) for name, p in network.named_parameters())
        ada.step(lambda: F.cross_entropy(network(batch[0]), batch[1]))
    assert not any(module._forward_hooks for module in network.modules())
    assert not any(module._forward_hooks for module in copy.deepcopy(network).modules())


@pytest.mark.parametrize("compiled", [False, True])
def test_a_copy_that_runs_in_a_batch_is_not_trained(compiled):
    """As a teacher does, compiled or not: neither it nor what it computes is taken for the network's."""
    (x, y), *_ = image_batches(1)

    def trained(with_teacher):
        network = conv_network()
        ada = AdaGP(network, torch.optim.SGD(network.parameters(), 0.1), schedule(1, (1, 1, 0)), seed=2)
        teacher = copy.deepcopy(network)
        with torch.no_grad():
            for parameter in teacher.parameters():
                parameter.add_(1)
        before = weights_of(teacher)
        asked = torch.compile(teacher, backend="eager") if compiled else teacher

        def compute():
            if with_teacher:
                asked(x)
            return F.cross_entropy(network(x), y)

        for _ in range(3):
            ada.step(compute)
            ada.end_epoch()
        assert all(torch.equal(before[name], p) for name, p in teacher.named_parameters())
        return weights_of(network)

    alone, accompanied = trained(False), trained(True)
    assert alone and all(torch.equal(alone[name], accompanied[name]) for name in alone)


def test_a_network_can_be_saved_as_a_whole():
    network, (batch,) = conv_network(), image_batches(1)
    file = io.BytesIO()
    with AdaGP(network, torch.optim.SGD(network.parameters(), 0.1), schedule(0, (1, 0, 1))) as ada:
        torch.save(network, file)
        assert b"Recorder" not in file.getvalue()  # nor with it a predictor
        file.seek(0)
        loaded = torch.load(file, weights_only=False)
        before = weights_of(loaded)
        ada.step(lambda: F.cross_entropy(network(batch[0]) + loaded(batch[0]), batch[1]))
        assert all(torch.equal(before[name], p) for name, p in loaded.named_parameters())
        assert not all(torch.equal(before[name], p) for name, p in network.named_parameters())


def test_gradients_of_what_another_optimizer_has_are_of_one_batch():
    network, (batch,) = conv_network(), image_batches(1)
    *_, last = network.parameters()
    ada = AdaGP(network, torch.optim.SGD([p for p in network.parameters() if p is not last], 0.0), schedule(3))
    norms = []
    for _ in range(2):
        ada.step(lambda: F.cross_entropy(network(batch[0]), batch[1]))
        norms.append(float(last.grad.norm()))
    assert norms[0] > 0 and norms[1] == pytest.approx(norms[0], rel=1e-4)


@pytest.mark.parametrize("gp", [False, True])
def test_a_step_that_runs_no_network_is_told(gp):
    """Nothing is trained by it: of a loss from an output that was there before, and behind close."""
    network, ((x, y),) = conv_network(), image_batches(1)
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 0.1), schedule(1, (1, int(gp), int(not gp))))
    for _ in ada.epoch(range(1)):
        ada.step(lambda: F.cross_entropy(network(x), y))
    output, before = network(x), weights_of(network)
    with pytest.raises(RuntimeError, match="must itself run the network"):
        ada.step(lambda: F.cross_entropy(output, y))
    assert all(torch.equal(before[name], p) for name, p in network.named_parameters())
    ada.step(lambda: F.cross_entropy(network(x), y))
    assert ada.phase is (Phase.GP if gp else Phase.BP)
    ada.close()
    with pytest.raises(RuntimeError, match="after close nothing is seen"):
        ada.step(lambda: F.cross_entropy(network(x), y))


@pytest.mark.parametrize("table", [schedule(1), schedule(0, (1, 1, 0))])
def test_a_step_that_returns_more_than_the_loss_is_told(table):
    network, ((x, y),) = conv_network(), image_batches(1)
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 0.1), table)
    with pytest.raises(TypeError, match="must return the loss, and gave tuple"):
        ada.step(lambda: (F.cross_entropy(network(x), y), 1))


def test_mistakes_of_making_one_are_told():
    network = conv_network()
    sgd = torch.optim.SGD(network.parameters(), 0.1)
    with pytest.raises(ValueError, match="the optimizer has none of the network's parameters"):
        AdaGP(network, torch.optim.SGD(conv_network().parameters(), 0.1))
    with pytest.raises(TypeError, match=r"must be what adagp\.schedule makes"):
        AdaGP(network, sgd, [1, (4, 4, 1)])
    with pytest.raises(ValueError, match=r"the entry \(4, 1\) must be \(epochs, GP batches, BP batches\)"):
        schedule(1, (4, 1))
    with pytest.raises(ValueError, match="the state isn't one of AdaGP's"):
        AdaGP(network, sgd).load_state_dict({})
