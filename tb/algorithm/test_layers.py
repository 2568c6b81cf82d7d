"""The predictor's view of layers, and the weights that are predicted."""

import numpy as np
import pytest
import torch
from adagp import AdaGP, schedule
from adagp.algorithm.layers import predicted_weights
from adagp.algorithm.reorganise import channels_first, reorganise
from adagp.golden.reorganise import reorganise as machine_reorganise
from adagp.spec.commands import Phase
from adagp.spec.numerics import window_sizes
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import prune
from torch.utils.checkpoint import checkpoint
from torch_networks import weights_of

HALF = schedule(0, (1, 1, 1))


@pytest.mark.parametrize("shape", [(3, 4, 4), (5, 9, 7), (2, 1, 1), (4, 2, 3)])
def test_means_are_the_machine_s_sums(shape):
    """The sums that the machine's golden model makes of the same images, over how many there are in each."""
    n, height, width = shape
    y = np.random.default_rng(1).integers(-50, 50, (n, height, width, 7))
    of_machine = machine_reorganise(y) / (n * np.prod(window_sizes(height, width)))
    means = reorganise(torch.tensor(y, dtype=torch.float64).permute(0, 3, 1, 2), 2)
    np.testing.assert_allclose(means.numpy(), of_machine, rtol=1e-5, atol=1e-5)


def test_tokens_are_windows_in_order():
    """Eight tokens of two channels, a batch of two: four windows of two tokens."""
    one = torch.arange(16.0).reshape(8, 2)
    means = reorganise(channels_first(torch.stack([one, one + 2])), 2)
    assert means.tolist() == [[[2.0, 6.0], [10.0, 14.0]], [[3.0, 7.0], [11.0, 15.0]]]


def test_linear_outputs_without_places_are_repeated():
    means = reorganise(channels_first(torch.tensor([[1.0, 4.0], [3.0, 0.0]])), 2)
    assert means.tolist() == [[[2.0] * 2] * 2] * 2


def attention_outputs(module, query, key, value):
    """The outputs of its projections, by hand: [batch, tokens, channels] each."""
    size = module.embed_dim
    if module.in_proj_weight is not None:
        weights = module.in_proj_weight.chunk(3)
    else:
        weights = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    biases = [None] * 3 if module.in_proj_bias is None else module.in_proj_bias.split(size)
    return [F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)]


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("sizes", [(8, 8), (6, 10)])
def test_projections_of_attention(batch_first, bias, sizes):
    """The predictor sees a reorganisation of their outputs."""
    torch.manual_seed(2)
    kdim, vdim = sizes
    module = nn.MultiheadAttention(8, 2, bias=bias, batch_first=batch_first, kdim=kdim, vdim=vdim)
    if bias:
        nn.init.normal_(module.in_proj_bias)
    query, key, value = torch.randn(3, 5, 8), torch.randn(3, 9, kdim), torch.randn(3, 9, vdim)
    arguments = (query, key, value) if batch_first else [x.transpose(0, 1) for x in (query, key, value)]
    result = module(*arguments)
    found = {w.name: w for w in predicted_weights(module, set(module.parameters()))}
    outputs = [reorganise(channels_first(y), 2) for y in attention_outputs(module, query, key, value)]
    merged = kdim == 8
    expected = {"in_proj_weight": torch.cat(outputs)} if merged else dict(
        zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), outputs, strict=True))  # fmt: skip
    last = result[0] if batch_first else result[0].transpose(0, 1)
    expected["out_proj.weight"] = reorganise(channels_first(last), 2)
    assert list(found) == list(expected)
    for name, weight in found.items():
        for args, kwargs in ((arguments, {}), (arguments[:1], {"key": arguments[1], "value": arguments[2]})):
            seen = weight.reorganised(args, kwargs, result, 2)
            assert seen.shape == (len(weight.weight), 2, 2)
            torch.testing.assert_close(seen, expected[name], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("kind", [nn.TransformerEncoderLayer, nn.TransformerDecoderLayer])
def test_linear_layers_of_a_transformer_have_their_batch_where_it_has(kind, batch_first):
    """Means over sentences, whichever way around they come."""
    torch.manual_seed(4)
    layer, x = kind(8, 2, 16, 0.0, batch_first=batch_first).train(), torch.randn(3, 5, 8)
    results = {}
    layer.linear1.register_forward_hook(lambda module, args, result: results.update(linear1=result))
    given = x if batch_first else x.transpose(0, 1)
    layer(*([given] * (1 + (kind is nn.TransformerDecoderLayer))))
    rows = results["linear1"] if batch_first else results["linear1"].transpose(0, 1)
    assert rows.shape == (3, 5, 16)
    found = {w.name: w for w in predicted_weights(layer, set(layer.parameters()))}
    seen = found["linear1.weight"].reorganised((), {}, results["linear1"], 2)
    mean = rows.mean(0)  # one token to a window, the rest in none
    torch.testing.assert_close(seen, mean[:4].T.reshape(16, 2, 2), atol=1e-5, rtol=1e-5)


def test_transformer_trains_and_names_its_weights():
    torch.manual_seed(3)
    layer = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
    network = nn.ModuleDict({"embed": nn.Embedding(20, 8), "layer": layer, "head": nn.Linear(8, 20)})
    ada = AdaGP(network, torch.optim.AdamW(network.parameters(), 1e-2), HALF)
    assert ada.predicted == [
        "layer.self_attn.in_proj_weight", "layer.self_attn.out_proj.weight", "layer.multihead_attn.in_proj_weight",
        "layer.multihead_attn.out_proj.weight", "layer.linear1.weight", "layer.linear2.weight", "head.weight",
    ]  # fmt: skip
    assert "embed.weight" in ada.frozen and "layer.norm1.weight" in ada.frozen
    tokens = torch.randint(0, 20, (4, 6))
    for number, phase in enumerate((Phase.GP, Phase.BP, Phase.GP)):
        before = weights_of(network)
        ada.step(lambda: network["head"](layer(network["embed"](tokens), torch.randn(4, 3, 8))).logsumexp(-1).sum())
        assert ada.phase is phase
        moved = {name for name, value in network.state_dict().items() if not torch.equal(before[name], value)}
        decayed = {name for name, value in before.items() if value.any()}  # AdamW's weight decay moves those
        assert moved == [decayed & set(ada.predicted), moved, set(ada.predicted)][number]
        assert phase is Phase.GP or "embed.weight" in moved


def test_only_trained_weights_are_predicted():
    network = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4), nn.utils.parametrizations.weight_norm(nn.Linear(4, 2)))
    network[0].weight.requires_grad_(False)
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 0.1), HALF)
    assert ada.predicted == ["1.weight"]
    assert "2.parametrizations.weight.original1" in ada.frozen and "0.weight" not in ada.frozen
    only = AdaGP(network, torch.optim.SGD([network[1].bias, *network[2].parameters(), network[1].weight], 0.1), HALF)
    assert only.frozen[0] == "1.bias"


class Twice(nn.Module):
    """A layer used twice, and its weight by another one too."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.first, self.other = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.other.weight = self.first.weight
        self.uses = []

    def forward(self, x):
        for layer in (self.first, self.first, self.other):
            self.uses.append(self.first.weight.detach().clone())
            x = layer(x)
        return x


def test_a_shared_weight_is_predicted_from_the_mean_of_its_outputs():
    """And changed behind its last use, however often it is used: three times, or six."""
    network = Twice()
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 1.0), schedule(1, (1, 1, 0)))
    assert ada.predicted == ["first.weight"]
    x = torch.randn(2, 4, generator=torch.Generator().manual_seed(3))
    for passes in (1, 1, 2, 2, 1):
        network.uses.clear()
        before, outputs = network.first.weight.detach().clone(), []
        hooks = [layer.register_forward_hook(lambda *call, seen=outputs: seen.append(call[-1].detach()))
                 for layer in (network.first, network.other)]  # fmt: skip

        def compute(passes=passes):
            y = x
            for _ in range(passes):
                y = network(y)
            return y.square().sum()

        ada.step(compute)
        for hook in hooks:
            hook.remove()
        assert len(outputs) == 3 * passes and all(torch.equal(use, before) for use in network.uses)
        if ada.phase is Phase.GP:
            means = torch.stack(outputs).mean((0, 1))[:, None, None].expand(-1, 2, 2)
            expected = before - ada.predictor.gradients({"first.weight": means})["first.weight"]
            torch.testing.assert_close(network.first.weight.detach(), expected, atol=1e-5, rtol=1e-5)
        else:
            ada.end_epoch()
    assert ada.phase is Phase.GP


MADE_OF_OTHERS = (
    lambda: nn.utils.weight_norm(nn.Linear(4, 2)), lambda: nn.utils.spectral_norm(nn.Conv2d(2, 3, 3)),
    lambda: prune.l1_unstructured(nn.Linear(4, 2), "weight", 0.5),
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated")  # weights of its kind are to be left alone
@pytest.mark.parametrize("make", MADE_OF_OTHERS)
def test_weights_that_are_made_of_others_are_not_predicted(make):
    network = nn.Sequential(make(), nn.Linear(2, 2))
    assert AdaGP(network, torch.optim.SGD(network.parameters(), 0.1)).predicted == ["1.weight"]


def test_an_attention_with_a_parametrised_projection_has_the_other():
    network = nn.MultiheadAttention(8, 2)
    nn.utils.parametrizations.orthogonal(network.out_proj)
    assert AdaGP(network, torch.optim.SGD(network.parameters(), 0.1)).predicted == ["in_proj_weight"]


def test_recomputed_layers_are_seen_once():
    def run(recompute):
        torch.manual_seed(6)
        network = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
        ada = AdaGP(network, torch.optim.SGD(network.parameters(), 0.1), schedule(1, (1, 2, 1)))
        x = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))

        def loss():
            return (checkpoint(network, x, use_reentrant=False) if recompute else network(x)).square().sum()

        for _ in range(2):
            for _ in ada.epoch(range(3)):
                ada.step(loss)
        return weights_of(network)

    plain, recomputed = run(False), run(True)
    assert all(torch.equal(plain[name], value) for name, value in recomputed.items())
