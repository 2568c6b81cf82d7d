"""Fixtures of the library's tests."""

import socket

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Of PyTorch's, as tests run side by side."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def unused_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
