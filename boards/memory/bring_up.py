"""A board's memory over its host link: started, calibrated and tested before an accelerator may use it."""

from collections.abc import Callable

import numpy as np

from ...host.devices.board import Line, Port
from ...host.devices.link import Link, LinkError
from .controller import DramController
from .ddr3 import DramStartError, Eye, close, start
from .memory_test import check_memory

__all__ = ["start_memory"]


class _Registers:
    """The DRAM controller's registers at the end of a link."""

    def __init__(self, link: Link):
        self._link = link

    def read(self, offset: int) -> int:
        return self._link.read_register(offset, dram=True)

    def write(self, offset: int, value: int) -> None:
        self._link.write_register(offset, value, dram=True)


class _Memory:
    """The memory at the end of a link, whatever accelerator is there."""

    def __init__(self, link: Link):
        self._link = link

    def write(self, address: int, array: np.ndarray) -> None:
        self._link.write(address, np.ascontiguousarray(array).reshape(-1).view(np.uint8).tobytes())

    def read(self, address: int, n_bytes: int) -> np.ndarray:
        return np.frombuffer(self._link.read(address, n_bytes), np.uint8)


def start_memory(
    port: Port, controller: DramController, config_hash: int, progress: Callable[[float], None] = lambda share: None
) -> tuple[tuple[Eye, ...], int]:
    """Start the memory of the board at ``port`` and test it; returns each lane's eye and the bytes compared.

    ``controller`` and ``config_hash`` are of the bitstream that the board must have. ``progress`` is told the share
    of calibration that is done. What was in the memory is lost. Raises LinkError for a board that doesn't answer or
    has another bitstream, DramStartError for a memory that doesn't work; the accelerator's port is closed then.
    """
    line = Line(port)
    try:
        link = Link(line, port.baud, port.patience)
        try:
            found = link.hello().config_hash
        except LinkError as error:
            raise LinkError(f"{port.path} at {port.baud} baud: {error}") from error
        if found != config_hash:
            raise LinkError(
                f"the board at {port.path} is of configuration {found:08x}, the folder's bitstream of"
                f" {config_hash:08x}: load that one"
            )
        registers = _Registers(link)
        eyes = start(registers, controller, progress=progress)
        try:
            compared = check_memory(_Memory(link), controller)
        except DramStartError:
            close(registers, controller)
            raise
        link.finish()
        return eyes, compared
    finally:
        line.close()
