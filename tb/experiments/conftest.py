"""Fixtures of the experiments' tests."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Of PyTorch's, as tests run side by side."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def torchvision_imports():
    """Beside a torch that its compiled part wasn't made for, torchvision imports if its operators are declared.

    No network here calls them. A test that asks for this is skipped where torchvision or timm isn't installed.
    """
    if find_spec("timm") is None or (found := find_spec("torchvision")) is None:
        pytest.skip("torchvision and timm aren't installed (the extra models)")
    library = None
    try:
        torch.ops.load_library(next(Path(found.origin).parent.glob("_C*.so")))
    except (OSError, StopIteration):
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    yield library  # declared for as long as it is held


@pytest.fixture
def rng():
    return np.random.default_rng(0)
