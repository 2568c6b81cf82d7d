"""One batch of networks of unusual form: results, gradients and evaluation are those of torch in float64."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from adagp.host.compiler.lowering import LoweringError
from adagp.host.devices.golden import GoldenDevice
from adagp.host.training.inference import predict
from adagp.host.training.network import Network
from adagp.spec.phases import WARMUP
from adagp.spec.presets import preset
from made_modules import Made
from torch import nn
from torch.nn import functional

TINY, MEMORY, BATCH, IMAGE = preset("tiny"), 4 << 20, 4, (2, 6, 6)
RATE = 2**-7


def conv(channels=2):
    return nn.Conv2d(2, channels, 3, padding=1)


def loss(*results):
    """Weights every element by its place, so that each has another gradient."""
    return sum((each * torch.linspace(-1, 2, each.numel(), dtype=each.dtype).reshape(each.shape)).sum()
               for each in results)  # fmt: skip


ROWS = nn.Linear(8, 8)
CASES = {
    "a sum of ReLUs": (lambda m, x: functional.relu(m.one(x)) + functional.relu(m.two(x)), conv(), conv()),
    "a ReLU and what it comes from": (lambda m, x: (lambda y: functional.relu(y) + m.two(y))(m.one(x)), conv(), conv()),
    "a ReLU that is also used": (
        lambda m, x: (lambda y: (y, m.two(y)))(functional.relu(m.one(x))), conv(), conv(),
    ),
    "a sum of ReLUs and of a result": (
        lambda m, x: (lambda y: (y + functional.relu(m.two(x)), y))(functional.relu(m.one(x))), conv(), conv(),
    ),
    "ReLUs of linear layers": (
        lambda m, x: functional.relu(m.one(x.flatten(1))) + functional.relu(m.two(x.flatten(1))),
        nn.Linear(72, 5), nn.Linear(72, 5),
    ),
    "a maximum over rows": (lambda m, x: functional.max_pool2d(m.two(m.one(x)), (1, 3), 1, (0, 1)), ROWS, ROWS),
    "a mean over rows": (lambda m, x: functional.avg_pool2d(m.two(m.one(x)), (1, 3), 1, (0, 1)), ROWS, ROWS),
    "an adaptive mean over rows": (lambda m, x: functional.adaptive_avg_pool2d(m.two(m.one(x)), 1), ROWS, ROWS),
    "a number": (lambda m, x: m.two(torch.tanh(m.one(x))).square().mean(), conv(), conv()),
    "parameters in a list": (lambda m, x: m.one(x) * m.two[0], conv(), nn.ParameterList([torch.ones(1)])),
    "groups in a chain": None, "dilation in a chain": None, "another padding in a chain": None,
}  # fmt: skip
CHAINS = {
    "groups in a chain": nn.Conv2d(4, 4, 3, groups=2), "dilation in a chain": nn.Conv2d(4, 4, 3, dilation=2),
    "another padding in a chain": nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"),
}  # fmt: skip


def made(name):
    torch.manual_seed(1)
    if name in CHAINS:
        return nn.Sequential(conv(4), nn.ReLU(), CHAINS[name]).double()
    forward, one, two = CASES[name]
    one, two = deepcopy(one), deepcopy(two)
    for part in (one, two):
        for parameter in part.parameters():
            nn.init.uniform_(parameter, -0.5, 0.5)
    return Made(forward, one=one, two=two).double()


@pytest.mark.parametrize("name", CASES)
def test_a_batch(name):
    module, shape = made(name), (6, 8) if "rows" in name else IMAGE
    network, device = Network(module, shape, BATCH, TINY), GoldenDevice(TINY, MEMORY)
    first = {key: value.clone() for key, value in module.state_dict().items()}
    network.load_state(device, first)
    network.set_hyper(device, RATE, 0.0, 0.0)
    images = np.random.default_rng(3).uniform(-1, 1, (BATCH, *shape))
    network.write_input(device, images)
    network.start(device, WARMUP, calibrate=True)
    network.wait(device)
    got = network.read_results(device)
    network.write_loss(device, loss)
    device.resume()
    network.wait(device)
    expected = module(torch.from_numpy(images))
    expected = (expected,) if isinstance(expected, torch.Tensor) else expected
    for mine, theirs in zip(got, expected, strict=True):
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs.detach().numpy(), atol=1e-3)
    after = network.state_dict(device)
    gradients = torch.autograd.grad(loss(*expected), list(module.parameters()))
    for (key, _), gradient in zip(module.named_parameters(), gradients, strict=True):
        assert gradient.abs().max() > 1e-3, key
        found = (first[key] - torch.as_tensor(after[key])) / RATE
        np.testing.assert_allclose(found, gradient, atol=0.01 * float(gradient.abs().max()) + 1e-3, err_msg=key)


class Scaled(nn.Module):
    """A network whose results are infinite for images that are zero, and finite for all others."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(72, 3)

    def forward(self, x):
        return self.head((x / x.abs().amax((1, 2, 3), keepdim=True)).flatten(1))


def test_the_last_images_are_not_filled_up_with_zeros():
    torch.manual_seed(1)
    module = Scaled().double()
    network, device = Network(module, IMAGE, BATCH, TINY), GoldenDevice(TINY, MEMORY)
    network.load_state(device, module.state_dict())
    images = np.random.default_rng(3).uniform(-1, 1, (BATCH + 1, *IMAGE))
    network.write_input(device, images[:BATCH])
    network.start(device, WARMUP, calibrate=True)
    network.wait(device)
    network.write_loss(device, loss)
    device.resume()
    network.wait(device)
    found = predict(network, device, images)
    assert found.shape == (BATCH + 1, 3) and np.isfinite(found).all()
    state = network.state_dict(device)
    module.load_state_dict({key: torch.as_tensor(value) for key, value in state.items()})
    np.testing.assert_allclose(found, module(torch.from_numpy(images)).detach().numpy(), atol=2e-3)


@pytest.mark.parametrize(("part", "said"), [
    (nn.Conv2d(3, 4, 3), "0 (Conv2d): takes 3 channels, but 2 arrive"),
    (nn.Linear(7, 3), "0 (Linear): needs Flatten before it, the value is 2x6x6"),
])  # fmt: skip
def test_a_chain_that_does_not_fit_is_refused_by_its_layer(part, said):
    with pytest.raises(LoweringError) as refused:
        Network(nn.Sequential(part), IMAGE, BATCH, TINY)
    assert str(refused.value) == said
