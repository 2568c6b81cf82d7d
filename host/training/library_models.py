"""Networks of torchvision and timm by name, without their trained weights."""

import importlib
from typing import Any

import torch
from torch import nn

__all__ = ["LIBRARIES", "MODELS_EXTRA", "LibraryError", "import_library", "library_model"]

LIBRARIES = ("torchvision", "timm")
"""Prefixes of names: ``torchvision:resnet50``."""
MODELS_EXTRA = "pip install 'adagp[models]', in a checkout .venv/bin/pip install -c constraints.txt -e '.[models]'"
"""Commands that install the libraries and what reads images."""
_OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_undefined = torch.library.Library("torchvision", "FRAGMENT")
AUXILIARY = ("googlenet", "inception_v3")
"""Networks of torchvision that have more than one output unless told otherwise."""


class LibraryError(Exception):
    """The reason why a library has no such network, or can't be imported."""


def library_model(name: str, shape: tuple[int, int, int], n_classes: int) -> nn.Module:
    """The network ``LIBRARY:NAME`` with ``n_classes`` outputs and weights drawn anew; raises LibraryError."""
    library, _, which = name.partition(":")
    try:
        found = import_library(library)
    except Exception as error:  # one that belongs to another torch fails in ways of its own
        raise LibraryError(f"{library} can't be imported ({type(error).__name__}: {error}): {MODELS_EXTRA}") from None
    return (
        _torchvision(found, which, shape, n_classes)
        if library == "torchvision"
        else _timm(found, which, shape, n_classes)
    )


def import_library(library: str) -> Any:
    """A library, torchvision without its compiled operators if they are for another build of torch (CUDA, CPU).

    Networks don't use them, but torchvision describes two of them to torch when it is imported. Raises whatever else
    the library raises.
    """
    try:
        return importlib.import_module(library)
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
    for schema in _OPERATORS:
        _undefined.define(schema)
    return importlib.import_module(library)


def _torchvision(library: Any, which: str, shape: tuple[int, int, int], n_classes: int) -> nn.Module:
    models = importlib.import_module(f"{library.__name__}.models")
    if which not in models.list_models(module=models):
        raise LibraryError(f"torchvision classifies images with no network {which!r}; see torchvision.models")
    if shape[0] != 3:
        raise LibraryError(f"networks of torchvision take images of 3 channels, not {shape[0]}")
    more = {"aux_logits": False} if which in AUXILIARY else {}
    module: nn.Module = models.get_model(which, weights=None, num_classes=n_classes, **more)
    return module


def _timm(library: Any, which: str, shape: tuple[int, int, int], n_classes: int) -> nn.Module:
    if not library.is_model(which):
        raise LibraryError(f"timm has no network {which!r}; see timm.list_models()")
    module: nn.Module = library.create_model(which, pretrained=False, num_classes=n_classes, in_chans=shape[0])
    return module
