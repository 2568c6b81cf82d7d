"""Memory test of a board, through the port that the accelerator uses: address lines, data lines, random contents."""

from typing import Protocol

import numpy as np

from .controller import DramController
from .ddr3 import DramStartError

__all__ = ["Memory", "check_memory"]

WINDOW = 1 << 14
"""Bytes of random contents, at each of the memory's ends."""

SCATTERED = 256
"""Random places at which the memory is tested beside."""

LINE = 64
"""Bytes written at a time when addresses are tested: no cell of the memory is smaller."""


class Memory(Protocol):
    """The part of :class:`~adagp.host.devices.device.Device` that is needed here."""

    def write(self, address: int, array: np.ndarray) -> None: ...

    def read(self, address: int, n_bytes: int) -> np.ndarray: ...


def check_memory(memory: Memory, controller: DramController, *, window: int = WINDOW, seed: int = 1) -> int:
    """Test a started memory, whose contents are lost; returns the bytes compared.

    Raises DramStartError, which names an address bit that does nothing, or the byte lane that fails and how often.
    """
    rng = np.random.default_rng(seed)
    compared = _check_addresses(memory, controller, rng)
    walking = np.array([1 << bit for bit in range(16)], np.uint16).view(np.uint8)
    for data in (walking, ~walking):
        compared += _check(memory, controller, 0, np.tile(data, 2))
    for start in (0, controller.memory_bytes - window):
        compared += _check(memory, controller, start, rng.integers(0, 256, window, np.uint8))
    return compared


def _check_addresses(memory, controller, rng):
    """A line of its own at 0, at each power of two and at random places: each must be there at the end."""
    size = controller.memory_bytes
    places = [0, *(1 << bit for bit in range((LINE - 1).bit_length(), (size - 1).bit_length()))]
    places += [LINE * int(line) for line in rng.choice(size // LINE, SCATTERED, replace=False) if line & (line - 1)]
    lines = {place: rng.integers(0, 256, LINE, np.uint8) for place in places}
    for place, line in lines.items():
        memory.write(place, line)
    found = {place: memory.read(place, LINE) for place in places}
    for place, line in lines.items():
        for other, written in lines.items():
            if other > place and np.array_equal(found[place], written) and not np.array_equal(line, written):
                bit = other.bit_length() - 1
                raise DramStartError(
                    f"memory test: what was written at {other:#x} came back from {place:#x}: "
                    f"address bit {bit} has no effect"
                )
    for place, line in lines.items():
        _compare(controller, place, line, found[place])
    return LINE * len(places)


def _check(memory, controller, start, data):
    memory.write(start, data)
    _compare(controller, start, data, memory.read(start, data.size))
    return data.size


def _compare(controller, start, data, found):
    wrong = np.flatnonzero(found != data)
    if wrong.size:
        lanes = (start + wrong) * 8 // controller.lane_bits % controller.lanes
        counts = np.bincount(lanes, minlength=controller.lanes)
        which = ", ".join(f"{controller.pins(lane)}: {count}" for lane, count in enumerate(counts) if count)
        place = int(wrong[0])
        raise DramStartError(
            f"memory test: {wrong.size} of {data.size} bytes from {start:#x} are wrong ({which}); first at "
            f"{start + place:#x}, {found[place]:#04x} for {data[place]:#04x}"
        )
