"""A board at the end of a serial line, as a device."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import serial

from ...spec.config import Config
from ...spec.link import BAUD
from ...spec.registers import Control, Status, register
from .device import DeviceError, RegisterDevice
from .link import PATIENCE, Link, LinkError

__all__ = ["BoardDevice", "Line", "Port"]

CLEAR_SECONDS = 5.0
"""Seconds in which a program that an earlier host left running must stop."""


@dataclass(frozen=True)
class Port:
    """The port of a board: a device such as /dev/ttyUSB1, COM3, or a URL that pyserial knows (socket://HOST:PORT).

    ``patience``: seconds to wait for an answer before asking again.
    """

    path: str
    baud: int = BAUD
    patience: float = PATIENCE

    def __post_init__(self):
        if self.baud < 1:
            raise LinkError(f"baud = {self.baud} must be at least 1")
        if not 1e-3 <= self.patience <= 60:
            raise LinkError(f"patience = {self.patience} must satisfy 0.001 <= patience <= 60 seconds")


class Line:
    """A serial port whose errors are LinkErrors; a :class:`~adagp.host.devices.port.SerialPort`."""

    def __init__(self, port: Port):
        self._path = port.path
        try:
            self._serial = serial.serial_for_url(port.path, baudrate=port.baud, timeout=0, exclusive=True)
        except (serial.SerialException, ValueError, OSError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise LinkError(f"can't open {port.path} at {port.baud} baud: {reason}") from error

    def _guarded(self, work):
        try:
            return work()
        except (
            serial.SerialException,
            OSError,
            TypeError,
        ) as error:  # TypeError: pyserial's, of a port that was closed
            raise LinkError(f"the line to {self._path} broke: {error}") from error

    @property
    def timeout(self) -> float | None:
        return self._serial.timeout

    @timeout.setter
    def timeout(self, seconds: float | None) -> None:
        self._guarded(lambda: setattr(self._serial, "timeout", seconds))

    @property
    def in_waiting(self) -> int:
        return self._guarded(lambda: self._serial.in_waiting)

    def read(self, size: int = 1, /) -> bytes:
        return self._guarded(lambda: self._serial.read(size))

    def write(self, data: bytes, /) -> int | None:
        return self._guarded(lambda: self._serial.write(data))

    def clock(self) -> float:
        return time.monotonic()

    def close(self) -> None:
        self._serial.close()


class BoardDevice(RegisterDevice):
    """A :class:`~adagp.host.devices.device.Device` on a board, whose host link is at ``port``.

    ``limit``: seconds without an interrupt after which a program counts as hung. ``progress(done, total)``, in bytes,
    is called during transfers if it is set. ``link.statistics`` counts requests, bytes and faults of the line.

    Raises LinkError for a port that can't be opened, a board that doesn't answer, or one with another accelerator.
    """

    def __init__(self, config: Config, port: Port, *, limit: float = 1800.0):
        self.config, self.port, self.limit = config, port, limit
        self.memory_size = config.dram.capacity_bytes
        self.progress: Callable[[int, int], None] | None = None
        self._line = Line(port)
        try:
            self.link = Link(self._line, port.baud, port.patience)
            self._greet()
        except BaseException:
            self._line.close()
            raise

    def _greet(self) -> None:
        """Check that the expected accelerator answers, and stop a program that an earlier host left running."""
        try:
            self.identity = self.link.hello()
        except LinkError as error:
            raise LinkError(f"{self.port.path} at {self.port.baud} baud: {error}") from error
        if self.identity.config_hash != self.config.config_hash:
            raise LinkError(
                f"the board at {self.port.path} is of configuration {self.identity.config_hash:08x}, not"
                f" {self.config.config_hash:08x} ({self.config.name}): load its bitstream, or choose the preset that it"
                " was made for"
            )
        self.connect()
        self.write_register("CONTROL", Control.CLEAR)
        end = self._line.clock() + CLEAR_SECONDS
        while self.read_register("STATUS") & Status.BUSY:
            if self._line.clock() > end:
                raise LinkError(f"the board at {self.port.path} doesn't stop what it was doing: reset it")
        # The digest says nothing of the variant, but some registers are there only in some.
        for name, wanted, without, with_ in (
            ("ENTRIES", self.config.predicts, "does not predict gradients", "predicts gradients"),
            ("PREDICTOR", self.config.predictor_on_chip, "has no predictor on chip", "has a predictor on chip"),
        ):
            self.write_register(name, 1)
            there = bool(self.read_register(name))
            self.write_register(name, 0)
            if there != wanted:
                raise LinkError(
                    f"the accelerator at {self.port.path} {with_ if there else without}, unlike variant"
                    f" {self.config.variant}: choose the one that its bitstream was made for"
                )

    def read_register(self, name: str) -> int:
        return self.link.read_register(register(name).offset)

    def write_register(self, name: str, value: int) -> None:
        self.link.write_register(register(name).offset, int(value))

    def wait_for_interrupt(self) -> None:
        end = self._line.clock() + self.limit
        while not self.link.wait():
            if self._line.clock() > end:
                status = Status(self.read_register("STATUS"))
                raise DeviceError(f"no interrupt within {self.limit:g} seconds: STATUS {status!r}")

    def write(self, address: int, array: np.ndarray) -> None:
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.link.write(address, data.tobytes(), self._shown(data.size))

    def read(self, address: int, n_bytes: int) -> np.ndarray:
        return np.frombuffer(bytearray(self.link.read(address, n_bytes, self._shown(n_bytes))), np.uint8)

    def require_memory(self, n_bytes: int) -> None:
        """Raise LinkError unless the memory has ``n_bytes`` and keeps data; its content is lost.

        Addresses wrap at the end of a smaller memory, a power of two: data written there are found at address 0.
        """
        places = [0, *(1 << bits for bits in range(12, (n_bytes - 1).bit_length()))]
        marks = np.random.default_rng(n_bytes).integers(1, 1 << 63, len(places), np.uint64)
        for place, mark in reversed(list(zip(places, marks, strict=True))):
            self.write(place, mark[None])
        for place, mark in zip(places, marks, strict=True):
            found = self.read(place, mark.nbytes).view(np.uint64)[0]
            if found == mark:
                continue
            if place and found == marks[0]:
                raise LinkError(f"the board has {place:,} bytes of memory, the network needs {n_bytes:,}")
            raise LinkError(
                f"the board's memory doesn't keep what is written at {place:#x}: run adagp board start first"
            )

    def _shown(self, total):
        progress = self.progress
        return None if progress is None else lambda done: progress(done, total)

    def close(self) -> None:
        try:
            self.link.finish()
        except LinkError:  # the caller of the request has been told
            pass
        finally:
            self._line.close()
