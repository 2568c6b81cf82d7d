"""The registry of networks. Those of torchvision and timm are built by slow tests: nox -s slow, or pytest -m slow."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from adagp import AdaGP, schedule
from adagp.experiments.data.vocabulary import BEGIN
from adagp.experiments.errors import NetworkError
from adagp.experiments.networks import cnns
from adagp.experiments.networks.models import CNNS, MODELS, PAPER_MODELS, SMALL_MODELS, build
from adagp.experiments.networks.transformer import translation_loss
from adagp.experiments.networks.yolo_boxes import priors
from adagp.experiments.networks.yolo_loss import targets, yolo_loss
from adagp.spec.commands import Phase
from torch import nn
from torch.nn import functional as F

IMAGENET_PARAMETERS = {
    "inception-v4": 42_679_816, "inception-v3": 23_834_568, "densenet201": 20_013_928, "densenet169": 14_149_480,
    "densenet161": 28_681_000, "densenet121": 7_978_856, "resnet152": 60_192_808, "resnet101": 44_549_160,
    "resnet50": 25_557_032, "vgg19": 143_678_248, "vgg16": 138_365_992, "vgg13": 133_053_736,
    "mobilenet-v2": 3_504_872,
}  # fmt: skip
"""As published with the networks' weights; Inception-v3's 27,161,264 are with its auxiliary classifier of 3,326,696."""
FIRST_SMALL = {
    "resnet": 64 * 3 * 49 - 64 * 3 * 9, "densenet": 64 * 3 * 49 - 64 * 3 * 9, "densenet161": 96 * 3 * 49 - 96 * 3 * 9,
}  # fmt: skip
"""Weights that a first convolution of 3x3 has less than one of 7x7."""


def size(network):
    return sum(p.numel() for p in network.parameters())


def test_the_papers_fifteen_are_there():
    assert len(PAPER_MODELS) == len(set(PAPER_MODELS)) == 15 and set(CNNS) == set(IMAGENET_PARAMETERS)
    assert set(MODELS) == {*PAPER_MODELS, *SMALL_MODELS}


@pytest.mark.parametrize("arguments, options, why", (
    (("resnet18", 10, 32), {}, "name is 'resnet18'; there are inception-v4"),
    (("small-cnn", 0, 32), {}, "n_classes is 0, and must be at least 1"),
    (("small-cnn", 10, 7), {}, "image_size is 7, and small-cnn needs at least 8"),
    (("small-cnn", 10), {}, "image_size is None, and small-cnn needs at least 8"),
    (("small-cnn", 10, 32), {"channels": 0}, "channels is 0, and must be at least 1"),
    (("small-cnn", 10, 32), {"source_words": 9}, "source_words is 9, and small-cnn has no words"),
    (("resnet50", 10, 28), {}, "image_size is 28, and resnet50 needs at least 32"),
    (("resnet50", 10, 32), {"channels": 1}, "channels is 1, and resnet50 has 3"),
    (("yolo-v3", 20, 100), {}, "image_size is 100, and yolo-v3 needs at least 32 and a multiple of 32"),
    (("transformer", 100, 32), {}, "image_size is 32, and transformer has no images"),
    (("transformer", 100), {"source_words": 0}, "source_words is 0, and must be at least 1"),
))  # fmt: skip
def test_errors_name_the_field(arguments, options, why):
    with pytest.raises(NetworkError, match=why):
        build(*arguments, **options)


@pytest.mark.parametrize("name, package", (("resnet50", "torchvision"), ("inception-v4", "torchvision")))
def test_a_missing_package_is_named_with_what_to_install(name, package, monkeypatch):
    for module in [module for module in sys.modules if module.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(NetworkError, match=rf"{package}, .*isn't installed: pip install 'adagp\[models\]'"):
        build(name, 10, 32)


@pytest.mark.parametrize("name, files, why", (
    ("resnet50", {"torchvision/__init__.py": "raise RuntimeError('operator nms does not exist')"},
     "torchvision, .*doesn't import .operator nms does not exist.: pip install"),
    ("inception-v4", {"torchvision/__init__.py": "", "torchvision/models.py": "", "timm/__init__.py": ""},
     "timm, .*isn't installed: pip install"),
))  # fmt: skip
def test_a_package_that_doesnt_import_is_named(name, files, why, monkeypatch, tmp_path):
    for module in [module for module in sys.modules if module.split(".")[0] in ("torchvision", "timm")]:
        monkeypatch.delitem(sys.modules, module)
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(NetworkError, match=why):
        build(name, 10, 32)
    for module in [module for module in sys.modules if module.split(".")[0] in ("torchvision", "timm")]:
        del sys.modules[module]


def test_torchvision_may_lack_its_operators(monkeypatch):
    """It is imported by the function that declares them, of which the host's networks have a test."""
    stub = ModuleType("torchvision")
    stub.models = SimpleNamespace(resnet50=lambda num_classes: nn.Linear(2, num_classes))
    for module in [module for module in sys.modules if module.split(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(cnns, "import_library", lambda library: monkeypatch.setitem(sys.modules, library, stub))
    assert build("resnet50", 7, 64).out_features == 7


@pytest.mark.parametrize("name", SMALL_MODELS)
@pytest.mark.parametrize("side, channels", ((8, 1), (14, 1), (16, 3), (28, 1), (32, 3)))
def test_small_networks_take_their_images(name, side, channels):
    if name == "lenet5" and side < 12:
        with pytest.raises(NetworkError, match=f"image_size is {side}, and lenet5 needs at least 12"):
            build(name, 7, side, channels=channels)
        return
    network = build(name, 7, side, channels=channels)
    assert network(torch.randn(2, channels, side, side)).shape == (2, 7)


def test_small_networks_have_their_layers():
    kinds = {
        name: [sum(isinstance(m, kind) for m in build(name, 10, 32).modules()) for kind in (nn.Conv2d, nn.Linear)]
        for name in SMALL_MODELS
    }
    # ResNet-8: 7 convolutions and a linear layer, and two convolutions around blocks; ResNet-20 has 12 more.
    assert kinds == {"small-cnn": [3, 2], "small-cnn5": [5, 2], "small-resnet": [9, 1], "lenet5": [2, 3],
                     "small-vgg": [6, 2], "resnet20": [21, 1]}  # fmt: skip


@pytest.mark.parametrize("name", SMALL_MODELS)
def test_weights_depend_on_the_seed_alone(name):
    before = torch.get_rng_state()
    one, same, other = (build(name, 10, 16, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    assert not torch.equal(next(one.parameters()), next(other.parameters()))


def computation(name, network):
    """The loss of a batch of two."""
    generator = torch.Generator().manual_seed(0)
    if name == "transformer":
        source, target = (torch.randint(4, 50, (2, 6), generator=generator) for _ in range(2))
        target[:, 0] = BEGIN
        return lambda: translation_loss(network(source, target[:, :-1]), target[:, 1:])
    if name == "yolo-v3":
        x = torch.rand(2, 3, 64, 64, generator=generator)
        boxes = torch.tensor([[10.0, 12, 40, 30], [2, 3, 12, 30]])
        wanted = [targets(boxes, torch.tensor([0, 3]), priors(64), 10)] * 2
        return lambda: yolo_loss(network(x), wanted)
    x = torch.randn(2, 3, 32, 32, generator=generator)
    return lambda: F.cross_entropy(network(x), torch.tensor([3, 5]))


def train_both_ways(name):
    """A BP and a GP batch; the weights that are said to be predicted change in both."""
    network = build(name, 60 if name == "transformer" else 10, {"transformer": None, "yolo-v3": 64}.get(name, 32))
    optimizer = torch.optim.SGD(network.parameters(), 1e-3, momentum=0.9)
    with AdaGP(network, optimizer, schedule(1, (1, 1, 1))) as ada:
        compute, phases = computation(name, network), []
        parameters = dict(network.named_parameters())
        for number in range(3):
            before = {key: parameters[key].detach().clone() for key in ada.predicted}
            loss = ada.step(compute)
            phases.append(ada.phase)
            assert torch.isfinite(loss)
            still = [key for key, weight in before.items() if torch.equal(weight, parameters[key])]
            assert not still
            if number == 0:
                ada.end_epoch()
        assert phases == [Phase.WARMUP, Phase.GP, Phase.BP]
        every = {key for key, p in parameters.items() if p.dim() > 1 and "embedding" not in key}
        assert set(ada.predicted) == every


@pytest.mark.parametrize("name", SMALL_MODELS)
def test_small_networks_train_both_ways(name):
    train_both_ways(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPER_MODELS)
def test_the_papers_networks_train_both_ways(name, request):
    if name in CNNS:
        request.getfixturevalue("torchvision_imports")
    train_both_ways(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", CNNS)
def test_imagenets_networks_have_their_published_sizes(name, torchvision_imports):
    network = build(name, 1000, 224)
    assert size(network) == IMAGENET_PARAMETERS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", CNNS)
def test_small_images_change_the_first_layers_alone(name, torchvision_imports):
    network = build(name, 10, 32)
    family = name.rstrip("0123456789")
    less = FIRST_SMALL.get(name, FIRST_SMALL.get(family, 0))
    if family == "vgg":
        features = {"vgg13": 9_416_010, "vgg16": 14_728_266, "vgg19": 20_040_522}  # published for CIFAR-10
        assert size(network) == features[name]
    else:
        outputs = {"inception-v4": 1536, "densenet201": 1920, "densenet169": 1664, "densenet161": 2208,
                   "densenet121": 1024, "mobilenet-v2": 1280}.get(name, 2048)  # fmt: skip
        assert size(network) == IMAGENET_PARAMETERS[name] - less - 990 * (outputs + 1)
    seen = []
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(lambda module, args, result: seen.append(result.shape[-1]))
    with torch.no_grad():
        assert network.eval()(torch.zeros(1, 3, 32, 32)).shape == (1, 10)
    assert seen[:2] == [32, 32] and min(seen) <= 8 and seen[0] == max(seen)  # nothing is lost in front
