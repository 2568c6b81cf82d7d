"""The size of a board's memory, which the host finds out by writing to it."""

import numpy as np
import pytest
from adagp.host.devices.board import BoardDevice
from adagp.host.devices.link import LinkError


class Wrapping(BoardDevice):
    """A board without a line, with ``size`` bytes of memory; addresses wrap, and bytes written at ``deaf`` are lost."""

    def __init__(self, size, deaf=None):
        self.memory, self.deaf = np.zeros(size, np.uint8), deaf

    def write(self, address, array):
        if address != self.deaf:
            data = array.view(np.uint8)
            self.memory[(address + np.arange(data.size)) % self.memory.size] = data

    def read(self, address, n_bytes):
        return self.memory[(address + np.arange(n_bytes)) % self.memory.size]


def test_a_memory_that_is_too_small():
    for size in (1 << 12, 1 << 13, 1 << 20):
        for n_bytes in (8, size - 1, size):
            Wrapping(size).require_memory(n_bytes)
        for n_bytes in (size + 1, 3 * size, 16 * size):
            with pytest.raises(LinkError, match=f"has {size:,} bytes of memory, the network needs {n_bytes:,}"):
                Wrapping(size).require_memory(n_bytes)
    for deaf in (0, 1 << 12, 1 << 15):
        with pytest.raises(LinkError, match=f"doesn't keep what is written at {deaf:#x}: run adagp board start"):
            Wrapping(1 << 16, deaf).require_memory(1 << 16)
