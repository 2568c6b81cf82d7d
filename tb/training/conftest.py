"""Fixtures of the library's tests."""

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Of PyTorch's, as tests run side by side."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
