"""Networks whose training or evaluation is easily another: as PyTorch's in float64."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from adagp.host.compiler import capture
from adagp.host.compiler.values import Input
from adagp.host.devices.golden import GoldenDevice
from adagp.host.islands.runtime import IslandError
from adagp.host.training.network import Network
from adagp.spec.phases import EVALUATION, WARMUP
from adagp.spec.presets import preset
from adagp.spec.registers import Status
from made_modules import Made
from torch import nn
from torch.nn import functional

SEED, BATCH, IMAGE = 3, 4, (2, 6, 6)
TINY = replace(preset("tiny"), n_tensors=512)
RATE = 2.0**-7


class Run:
    """A network on the golden model, beside its module in PyTorch."""

    def __init__(self, make, shape=IMAGE, decay=0.0):
        print(f"seed {SEED}")
        torch.manual_seed(SEED)
        self.module = make().double()
        self.network = Network(self.module, shape, BATCH, TINY)
        self.device, self.decay = GoldenDevice(TINY, 8 << 20), decay
        self.first = {name: value.clone() for name, value in self.module.state_dict().items()}
        self.network.load_state(self.device, self.first)
        self.network.set_hyper(self.device, RATE, 0.0, decay)
        self.images = np.random.default_rng(SEED).uniform(-1, 1, (BATCH, *shape))

    def results(self, phase=WARMUP, calibrate=True):
        self.network.write_input(self.device, self.images)
        self.network.start(self.device, phase, calibrate=calibrate)
        status = self.network.wait(self.device)
        found = self.network.read_results(self.device)[0]
        if status & Status.HOST:
            self.network.write_loss(self.device, loss)
            self.device.resume()
            self.network.wait(self.device)
        return found

    def expected(self):
        """The results of PyTorch, which trains its module."""
        optimiser = torch.optim.SGD(
            [each for each in self.module.parameters() if each.requires_grad], RATE, weight_decay=self.decay
        )
        result = self.module(torch.from_numpy(self.images))
        optimiser.zero_grad()
        loss(result).backward()
        optimiser.step()
        return result.detach().numpy()

    def compare(self):
        """State after training: gradients by what weights have moved, buffers as they are."""
        state, parameters, compared = self.network.state_dict(self.device), dict(self.module.named_parameters()), 0
        for name, value in self.module.state_dict().items():
            if name in parameters:
                mine, its = (state[name] - self.first[name]) / RATE, (value - self.first[name]) / RATE
                np.testing.assert_allclose(mine, its, atol=2e-2 * (float(its.abs().max()) + 1e-2), err_msg=name)
            else:
                np.testing.assert_allclose(state[name], value, atol=1e-3, err_msg=name)
            compared += 1
        assert compared


def loss(result):
    return (result * torch.linspace(-1, 1, result.numel(), dtype=result.dtype).reshape(result.shape)).sum()


def conv(c=2, q=4, k=3, **more):
    return nn.Conv2d(c, q, k, padding=k // 2, **more)


def close(found, expected):
    np.testing.assert_allclose(found, expected, atol=2e-2 * float(np.abs(expected).max()))


def drop_path(m, x):
    return x * x.new_empty(x.shape[0], 1, 1, 1).bernoulli_(0.5) / 0.5 if m.training else x


def between(part):
    return lambda: Made(lambda m, x: m.two(m.part(m.one(x))), one=conv(), part=part, two=conv(4, 3, 1))


EVALUATION_CASES = {
    "dropout": between(nn.Dropout(0.5)),
    "channels' dropout": between(nn.Dropout2d(0.5)),
    "alpha dropout": between(nn.AlphaDropout(0.5)),
    "channels' alpha dropout": between(nn.FeatureAlphaDropout(0.5)),
    "random slopes": between(nn.RReLU(0.1, 0.9)),
    "a path that is dropped": between(Made(drop_path)),
    "a residual path that is dropped": lambda: Made(
        lambda m, x: (lambda y: m.two(functional.relu(y + m.path(m.three(y)))))(m.one(x)),
        one=conv(), three=conv(4, 4), two=conv(4, 3, 1), path=Made(drop_path),
    ),
    "batch norm and dropout around a pool": lambda: Made(
        lambda m, x: m.two(m.drop(functional.max_pool2d(m.norm(m.one(x)), 2)).flatten(1)),
        one=conv(), norm=nn.BatchNorm2d(4), drop=nn.Dropout2d(0.5), two=nn.Linear(36, 3),
    ),
    "a branch": between(Made(lambda m, x: 2 * x if m.training else x)),
    "the device's layer in training alone": between(Made(lambda m, x: functional.relu(x) if m.training else x)),
    "its layer in evaluation alone": between(Made(lambda m, x: x if m.training else functional.relu(x))),
    "a mean of half the size": between(
        Made(lambda m, x: functional.avg_pool2d(x, 3, 1, 1, divisor_override=2 - m.training))
    ),
    "a softmax of the result": lambda: Made(
        lambda m, x: (lambda y: y if m.training else y.softmax(1))(m.two(m.one(x))), one=conv(), two=conv(4, 3, 1)
    ),
    "another order": lambda: Made(
        lambda m, x: m.two(functional.relu(m.three(m.one(x)) if m.training else m.three(m.one(x)) - 1)),
        one=conv(), three=conv(4, 4), two=conv(4, 3, 1),
    ),
    "an encoder": lambda: Made(
        lambda m, x: m.two(m.part(m.one(x.flatten(2))).mean(1)),
        one=nn.Linear(36, 8), part=nn.TransformerEncoderLayer(8, 2, 12, batch_first=True), two=nn.Linear(8, 3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", EVALUATION_CASES)
def test_evaluation(case):
    run = Run(EVALUATION_CASES[case])
    run.network.set_hyper(run.device, 0.0, 0.0, 0.0)
    run.results()
    run.module.load_state_dict(run.network.state_dict(run.device))
    with torch.no_grad():
        expected = run.module.eval()(torch.from_numpy(run.images)).numpy()
    close(run.results(EVALUATION, calibrate=False), expected)


def no_grad_between(m, x):
    y = m.one(x)
    with torch.no_grad():
        z = torch.sigmoid(y) + functional.relu(y)
    return m.two(y) * z.mean(1, keepdim=True)


def count(m):
    m.n += 1
    m.mean.mul_(0.9).add_(0.1)


def counted(forward):
    def whole(m, x):
        count(m)
        return forward(m, x)

    return lambda: Made(
        whole, one=conv(), two=conv(4, 4, 1), three=conv(4, 3, 1), n=torch.zeros((), dtype=torch.int64),
        mean=torch.zeros(3),
    )  # fmt: skip


def averaged(m, x):
    y = m.one(x)
    m.mean.mul_(0.5).add_(y.mean((0, 2, 3))[:, None, None].detach(), alpha=0.5)
    return m.three(torch.sigmoid(m.two(y - m.mean)) * m.mean)


def fixed_norm():
    module = Made(lambda m, x: m.two(functional.relu(m.norm(m.one(x)))), one=conv(), norm=nn.BatchNorm2d(4),
                  two=conv(4, 3, 1))  # fmt: skip
    module.norm.running_mean += 0.3
    module.norm.eval()
    return module


def enabled(m, x):
    with torch.no_grad():
        y = torch.sigmoid(x)
        with torch.enable_grad():
            return torch.sigmoid(x) + y


TRAINING_CASES = {
    "no gradient of a part": lambda: Made(no_grad_between, one=conv(), two=conv(4, 4, 1)),
    "a gradient within a part that has none": between(Made(enabled)),
    "statistics that are fixed": fixed_norm,
    "a count without an island": counted(lambda m, x: m.three(m.two(m.one(x)))),
    "a count beside two islands": counted(lambda m, x: m.three(torch.sigmoid(m.two(torch.sigmoid(m.one(x)))))),
    "a count in two islands": counted(
        lambda m, x: m.three(
            torch.sigmoid(m.two(torch.sigmoid(m.one(x)) * (m.n + 8) / 8)) * (m.mean.sum() + 4) / (m.n + 8)
        )
    ),
    "a mean in two islands": lambda: Made(averaged, one=conv(), two=conv(4, 4, 1), three=conv(4, 3, 1),
                                          mean=torch.zeros(4, 1, 1)),
    "a module with two names": lambda: (lambda part: Made(
        lambda m, x: m.two(m.once(m.again(torch.sigmoid(m.one(x))))), one=conv(), once=part, again=part,
        two=conv(4, 3, 1),
    ))(conv(4, 4)),
}  # fmt: skip


@pytest.mark.parametrize("case", TRAINING_CASES)
def test_training(case):
    run = Run(TRAINING_CASES[case])
    for step in range(2):
        close(run.results(calibrate=step == 0), run.expected())
    run.compare()


ARRANGED = {
    "1-d convolution": (lambda: nn.Sequential(nn.Conv1d(2, 4, 3), nn.ReLU(), nn.MaxPool1d(2), nn.Flatten(),
                                              nn.Linear(8, 3)), (2, 6), ["4.Linear"]),
    "3-d convolution": (lambda: nn.Sequential(nn.Conv3d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3)),
                        (2, 4, 4, 4), ["3.Linear"]),
    "recurrent": (lambda: Made(lambda m, x: m.head(m.rows(x)[0][:, -1]), rows=nn.LSTM(8, 6, batch_first=True),
                               head=nn.Linear(6, 3)), (5, 8), ["head.Linear"]),
    "attention": (lambda: Made(lambda m, x: m.part(x, x, x)[0], part=nn.MultiheadAttention(8, 2, batch_first=True)),
                  (5, 8), ["part.linear", "part.linear_2"]),
    "channels by a slice": (lambda: Made(lambda m, x: m.two(m.one(x)[:, 1:3]), one=conv(), two=conv(2, 3, 1)),
                            IMAGE, ["one.Conv2d", "two.Conv2d"]),
    "parts of a split": (lambda: Made(lambda m, x: (lambda y, z: m.two(y) + m.two_more(z))(*m.one(x).split(2, 1)),
                                      one=conv(), two=conv(2, 3, 1), two_more=conv(2, 3, 1)), IMAGE,
                         ["one.Conv2d", "two.Conv2d", "two_more.Conv2d"]),
}  # fmt: skip


@pytest.mark.parametrize("case", ARRANGED)
def test_layers_read_arranged_values(case):
    make, shape, layers = ARRANGED[case]
    run = Run(make, shape)
    assert sorted(layer.name for layer in run.network.weighted) == layers
    found, module = run.results(), run.module
    run.module = Made(lambda m, x: module(x), whole=module)
    close(found, run.expected())
    run.module = module
    run.compare()


def test_host_parameters_without_a_gradient_have_no_decay(monkeypatch):
    monkeypatch.setattr(capture, "check_gradients", lambda *_: None)

    def make():
        module = Made(lambda m, x: m.two(torch.sigmoid(m.one(x)) * m.scale.detach()), one=conv(), two=conv(4, 3, 1))
        module.scale = nn.Parameter(torch.ones(4, 1, 1))
        return module

    run = Run(make, decay=0.1)
    close(run.results(), run.expected())
    assert torch.equal(run.network.state_dict(run.device)["scale"], run.first["scale"])
    run.compare()


def test_an_operator_that_fails_is_named():
    module = Made(lambda m, x: m.two(m.words(x)), words=nn.Embedding(5, 6), two=nn.Linear(6, 3))
    network, device = Network(module, [Input((4,), 9, whole=True)], BATCH, TINY), GoldenDevice(TINY, 1 << 20)
    network.load_state(device, module.state_dict())
    network.write_input(device, np.full((BATCH, 4), 7))
    network.start(device, WARMUP, calibrate=True)
    with pytest.raises(
        IslandError,
        match=r"^words\.Embedding, forward on the host: words: aten\.embedding\.default: index out of range",
    ):
        network.wait(device)
