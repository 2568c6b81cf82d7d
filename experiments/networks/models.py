"""The networks of the experiments by name: the fifteen of the paper (section 5.2), and small ones."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from ..errors import NetworkError
from .cnns import DENSENETS, INCEPTIONS, MOBILENETS, RESNETS, VGGS, cnn
from .small import SmallResNet, lenet5, small_cnn, small_cnn5, small_vgg
from .transformer import TranslationTransformer
from .yolo import YoloV3

__all__ = ["CNNS", "HALVED_MODELS", "MODELS", "PAPER_MODELS", "SEQUENTIAL_MODELS", "SMALL_MODELS", "build"]

CNNS = (*INCEPTIONS, *DENSENETS, *RESNETS, *VGGS, *MOBILENETS)
"""The thirteen that classify images (Table 1), from torchvision and timm."""
PAPER_MODELS = (*CNNS, "transformer", "yolo-v3")
SEQUENTIAL_MODELS = ("small-cnn", "small-cnn5")
"""Layers one after the other, without batch normalisation."""
SMALL_MODELS = (*SEQUENTIAL_MODELS, "small-resnet", "lenet5", "small-vgg", "resnet20")
"""Networks that can be cut into stages at any layer or block."""
HALVED_MODELS = ("small-cnn",)
"""Networks whose smallest images can still be halved."""
MODELS = (*PAPER_MODELS, *SMALL_MODELS)


@dataclass(frozen=True)
class _Kind:
    """The images that a network takes, and its builder from classes, side of an image and channels."""

    make: Callable[[int, int, int], nn.Module]
    smallest: int = 32
    step: int = 1
    colour_only: bool = True


def _cnn(name, n_classes, image_size, channels):
    return cnn(name, n_classes, image_size)


_KINDS = {name: _Kind(partial(_cnn, name)) for name in CNNS} | {
    "yolo-v3": _Kind(lambda n_classes, image_size, channels: YoloV3(n_classes), step=32),
    "small-cnn": _Kind(small_cnn, smallest=8, colour_only=False),
    "small-cnn5": _Kind(small_cnn5, smallest=8, colour_only=False),
    "small-resnet": _Kind(
        lambda n_classes, image_size, channels: SmallResNet(n_classes, channels), smallest=8, colour_only=False
    ),
    "lenet5": _Kind(lenet5, smallest=12, colour_only=False),
    "small-vgg": _Kind(small_vgg, smallest=8, colour_only=False),
    "resnet20": _Kind(
        lambda n_classes, image_size, channels: SmallResNet(n_classes, channels, 3), smallest=8, colour_only=False
    ),
}


def build(
    name: str, n_classes: int, image_size: int | None = None, seed: int = 0, *, channels: int = 3,
    source_words: int | None = None,
) -> nn.Module:  # fmt: skip
    """A network of :data:`MODELS` with new weights that depend only on ``seed``; PyTorch's generator stays as it is.

    Classifiers turn [N, channels, image_size, image_size] into [N, n_classes]; what becomes of an ImageNet network on
    small images is told in :mod:`.cnns`. ``yolo-v3`` gives [N, priors, 5 + n_classes], see :mod:`.yolo`.
    ``transformer`` has no ``image_size``; ``n_classes`` are words of the target language, ``source_words`` those of the
    other (as many by default). Raises NetworkError that names the field, or the package that is missing.
    """
    if name not in MODELS:
        raise NetworkError(f"name is {name!r}; there are {', '.join(MODELS)}")
    for field, value in (("n_classes", n_classes), ("channels", channels), ("source_words", source_words)):
        if value is not None and value < 1:
            raise NetworkError(f"{field} is {value}, and must be at least 1")
    if name == "transformer":
        if image_size is not None:
            raise NetworkError(f"image_size is {image_size}, and transformer has no images: leave it out")
        make: Callable[[], nn.Module] = partial(TranslationTransformer, source_words or n_classes, n_classes)
    else:
        if source_words is not None:
            raise NetworkError(f"source_words is {source_words}, and {name} has no words: leave it out")
        make = partial(_KINDS[name].make, n_classes, _checked_size(name, image_size, channels), channels)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return make()


def _checked_size(name, image_size, channels):
    kind = _KINDS[name]
    if image_size is None or image_size < kind.smallest or image_size % kind.step:
        multiple = f" and a multiple of {kind.step}" if kind.step > 1 else ""
        raise NetworkError(f"image_size is {image_size}, and {name} needs at least {kind.smallest}{multiple}")
    if kind.colour_only and channels != 3:
        raise NetworkError(f"channels is {channels}, and {name} has 3")
    return image_size
