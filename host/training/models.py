"""Networks by name: the built-in ones, those of libraries, and the user's own by file and function."""

import hashlib
import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import nn

from .library_models import LIBRARIES, LibraryError, library_model
from .siblings import densenet_small, mobilenet_small, resnet18_small, resnet20

__all__ = ["MODELS", "ModelError", "build_model", "model_digest", "model_file"]


class ModelError(ValueError):
    """A network that can't be found or built."""


def _head(c: int, h: int, w: int, n_classes: int) -> nn.Linear:
    """The linear layer on channels of h x w values that poolings left; raises ModelError if they left nothing."""
    if min(h, w) < 1:
        raise ModelError("the images are too small, its poolings leave nothing of them")
    return nn.Linear(c * h * w, n_classes)


def digits_cnn(shape: tuple[int, int, int], n_classes: int) -> nn.Sequential:
    """Two convolutions, two poolings, one linear layer; the default."""
    c, h, w = shape
    return nn.Sequential(
        nn.Conv2d(c, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), _head(16, h // 4, w // 4, n_classes),
    )  # fmt: skip


def mlp(shape: tuple[int, int, int], n_classes: int) -> nn.Sequential:
    """A multilayer perceptron with two hidden layers of 128."""
    c, h, w = shape
    return nn.Sequential(
        nn.Flatten(), nn.Linear(c * h * w, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, n_classes)
    )


def lenet(shape: tuple[int, int, int], n_classes: int) -> nn.Sequential:
    """A network in the manner of LeNet-5 (LeCun et al. 1998): its channels and linear layers, ReLU, max pooling."""
    c, h, w = shape
    h, w = ((h + 2) // 2 - 4) // 2, ((w + 2) // 2 - 4) // 2
    return nn.Sequential(
        nn.Conv2d(c, 6, 3, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        _head(16, h, w, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, n_classes),
    )  # fmt: skip


def _he(network: nn.Sequential) -> nn.Sequential:
    """Give the network He's initial weights: deep ones without BatchNorm hardly learn with PyTorch's."""
    for module in network:
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return network


def vgg_small(shape: tuple[int, int, int], n_classes: int) -> nn.Sequential:
    """A narrow network in VGG's pattern: pairs of 3x3 convolutions, then a pooling."""
    c, h, w = shape
    layers: list[nn.Module] = []
    for width in (16, 32, 64):
        layers += [nn.Conv2d(c, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
        layers += [nn.MaxPool2d(2)]
        c, h, w = width, h // 2, w // 2
    return _he(nn.Sequential(*layers, nn.Flatten(), _head(c, h, w, n_classes)))


def vgg13(shape: tuple[int, int, int], n_classes: int) -> nn.Sequential:
    """VGG13's ten convolutions for 32x32 images, with one linear layer and no BatchNorm."""
    c, h, w = shape
    layers: list[nn.Module] = []
    for width in (64, 128, 256, 512, 512):
        layers += [nn.Conv2d(c, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
        layers += [nn.MaxPool2d(2)]
        c, h, w = width, h // 2, w // 2
    return _he(nn.Sequential(*layers, nn.Flatten(), _head(c, h, w, n_classes)))


MODELS: dict[str, Callable[[tuple[int, int, int], int], nn.Module]] = {
    "digits-cnn": digits_cnn, "mlp": mlp, "lenet": lenet, "vgg-small": vgg_small, "vgg13": vgg13,
    "resnet20": resnet20, "resnet18-small": resnet18_small, "densenet-small": densenet_small,
    "mobilenet-small": mobilenet_small,
}  # fmt: skip


def model_file(name: str) -> Path | None:
    """The file of a network called ``file.py:function``, None for others; raises ModelError if it's missing."""
    if name.endswith(".py"):
        raise ModelError(f"{name} names a file without a function: give {name}:FUNCTION")
    if ".py:" not in name:
        return None
    path = Path(name.rpartition(":")[0])
    if not path.is_file():
        raise ModelError(f"{name}: the file {path} is missing")
    return path


def model_digest(name: str) -> str | None:
    """SHA-256 of a network's file, None for a network without one."""
    path = model_file(name)
    return None if path is None else hashlib.sha256(path.read_bytes()).hexdigest()


def _load(path: Path, function: str) -> Callable:
    spec = importlib.util.spec_from_file_location("user_model", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # it's the user's code: anything can happen
        raise ModelError(f"{path} can't be loaded: {type(error).__name__}: {error}") from error
    builder = getattr(module, function, None)
    if not callable(builder):
        raise ModelError(f"{path} has no function {function}")
    return builder


def _builder(name: str) -> Callable[[tuple[int, int, int], int], nn.Module]:
    """The function that builds the network ``name``; raises ModelError if there is none."""
    path = model_file(name)
    if path is not None:
        return _load(path, name.rpartition(":")[2])
    if name.partition(":")[0] in LIBRARIES:
        return partial(library_model, name)
    if name not in MODELS:
        libraries = ", ".join(f"{library}:NAME" for library in LIBRARIES)
        raise ModelError(f"no model {name!r}; there are: {', '.join(MODELS)}, {libraries}, or give file.py:function")
    return MODELS[name]


def build_model(name: str, shape: tuple[int, int, int], n_classes: int, seed: int) -> nn.Module:
    """The network ``name`` with weights drawn from ``seed``.

    A function of a user's file is called as ``function(shape, n_classes)`` with shape = (channels,
    height, width) and must return a ``torch.nn.Module``. Raises ModelError.
    """
    builder = _builder(name)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        try:
            model = builder(shape, n_classes)
        except (LibraryError, ModelError) as error:
            raise ModelError(f"{name}: {error}") from None
        except Exception as error:  # it may be the user's code: anything can happen
            raise ModelError(f"{name} can't be built for images of {shape}: {type(error).__name__}: {error}") from error
    if not isinstance(model, nn.Module):
        raise ModelError(f"{name} gave a value of type {type(model).__name__}; a torch.nn.Module is needed")
    return model
