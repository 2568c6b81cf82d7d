"""The paper's thirteen CNNs, of torchvision and timm, in ImageNet's form and in one for small images.

The paper doesn't say how it fitted them to CIFAR. Here, as is usual for 32x32, nothing is lost at the start:

- ResNet, DenseNet: the first convolution is 3x3 with stride 1, and no pooling follows it.
- VGG (with batch norm in both forms): one linear layer in place of the three.
- MobileNet-V2: stride 1 in the first convolution and in the first block of 24 channels.
- Inception: convolutions and poolings of the stem have stride 1 and keep the size. (In both forms Inception-v3 is
  without its auxiliary classifier, so that its output is one tensor.)

ImageNet's form is for images from 64 pixels on, Inception's from 75, below which its own stem leaves nothing.
"""

from itertools import takewhile

from torch import nn

from ...host.training.library_models import MODELS_EXTRA, import_library
from ..errors import NetworkError

__all__ = ["DENSENETS", "INCEPTIONS", "MOBILENETS", "RESNETS", "VGGS", "cnn"]

INCEPTIONS = ("inception-v4", "inception-v3")
DENSENETS = ("densenet201", "densenet169", "densenet161", "densenet121")
RESNETS = ("resnet152", "resnet101", "resnet50")
VGGS = ("vgg19", "vgg16", "vgg13")
MOBILENETS = ("mobilenet-v2",)

_LARGE, _LARGE_INCEPTION = 64, 75
"""Pixels from which on ImageNet's form is taken."""
_MOBILENET_SMALL = (
    (1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip
"""Expansion, channels, blocks, stride of the first; ImageNet's strides but for the second row's, which is 2 there."""


def cnn(name: str, n_classes: int, image_size: int) -> nn.Module:
    """One of the thirteen with new weights, for colour images; raises NetworkError if a package is missing."""
    if name in INCEPTIONS:
        make = _inception_v4 if name == "inception-v4" else _inception_v3
        return make(n_classes, image_size < _LARGE_INCEPTION)
    small = image_size < _LARGE
    if name in RESNETS:
        return _resnet(name, n_classes, small)
    if name in DENSENETS:
        return _densenet(name, n_classes, small)
    return _vgg(name, n_classes, small) if name in VGGS else _mobilenet(n_classes, small)


def _unusable(package, error):
    reason = "isn't installed" if isinstance(error, ModuleNotFoundError) else f"doesn't import ({error})"
    return NetworkError(f"{package}, which builds this network, {reason}: {MODELS_EXTRA}")


def _torchvision():
    try:
        import_library("torchvision")
        from torchvision import models
    except (ImportError, RuntimeError) as error:  # RuntimeError: made for another build of torch
        raise _unusable("torchvision", error) from None
    return models


def _resnet(name, n_classes, small):
    network = getattr(_torchvision(), name)(num_classes=n_classes)
    if small:
        network.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
        network.maxpool = nn.Identity()
    return network


def _densenet(name, n_classes, small):
    network = getattr(_torchvision(), name)(num_classes=n_classes)
    if small:
        network.features.conv0 = nn.Conv2d(3, network.features.conv0.out_channels, 3, padding=1, bias=False)
        nn.init.kaiming_normal_(network.features.conv0.weight)
        network.features.pool0 = nn.Identity()
    return network


def _vgg(name, n_classes, small):
    network = getattr(_torchvision(), f"{name}_bn")(num_classes=n_classes)
    if small:
        network.avgpool = nn.AdaptiveAvgPool2d(1)
        network.classifier = nn.Linear(512, n_classes)
        nn.init.normal_(network.classifier.weight, 0, 0.01)
        nn.init.zeros_(network.classifier.bias)
    return network


def _mobilenet(n_classes, small):
    models = _torchvision()
    if not small:
        return models.mobilenet_v2(num_classes=n_classes)
    rows = [list(row) for row in _MOBILENET_SMALL]
    network = models.mobilenet_v2(num_classes=n_classes, inverted_residual_setting=rows)
    network.features[0][0].stride = (1, 1)
    return network


def _keep_size(stem: nn.Module) -> None:
    """Let a stem's convolutions and poolings pass on as many places as they get."""
    for module in stem.modules():
        if isinstance(module, nn.Conv2d):
            height, width = module.kernel_size
            module.stride, module.padding = (1, 1), (height // 2, width // 2)
        elif isinstance(module, nn.MaxPool2d):
            module.stride, module.padding = 1, 1


def _inception_v3(n_classes, small):
    network = _torchvision().Inception3(num_classes=n_classes, aux_logits=False, init_weights=True)
    if small:
        for name in ("Conv2d_1a_3x3", "Conv2d_2a_3x3", "Conv2d_2b_3x3", "Conv2d_3b_1x1", "Conv2d_4a_3x3"):
            _keep_size(getattr(network, name))
        network.maxpool1 = network.maxpool2 = nn.Identity()
    return network


def _inception_v4(n_classes, small):
    _torchvision()  # timm doesn't import without it
    try:
        from timm.models.inception_v4 import InceptionA, InceptionV4
    except (ImportError, RuntimeError) as error:
        raise _unusable("timm", error) from None
    network = InceptionV4(num_classes=n_classes)
    if small:
        for child in takewhile(lambda child: not isinstance(child, InceptionA), network.features):
            _keep_size(child)
    return network
