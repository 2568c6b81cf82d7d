"""Recordings of a host: its accesses to an accelerator, and the memory and registers that golden expects after them."""

from pathlib import Path

import numpy as np
from adagp.host.devices.device import DeviceError, RegisterDevice
from adagp.host.devices.golden import GoldenDevice
from adagp.spec.registers import Control, Status

__all__ = ["Recorder"]

KNOWN = ("macs", "saturations", "commands")
"""The counters that the golden model has."""


class Recorder(RegisterDevice):
    """A device that computes with the golden model and writes down, in order, for a bench to repeat:

    ("memory", address, bytes), ("register", name, value) and, at each wait, ("wait", what is expected).
    """

    def __init__(self, config, memory_bytes: int):
        self.config, self.memory_size = config, memory_bytes
        self.golden = GoldenDevice(config, memory_bytes)
        self.events: list[tuple] = []
        self.tensors: set[int] = set()

    def write_register(self, name: str, value: int) -> None:
        self.events.append(("register", name, int(value) & 0xFFFF_FFFF))

    def read_register(self, name: str) -> int:
        raise AssertionError("a recording can't depend on what a register reads as")

    def wait_for_interrupt(self) -> None:
        raise AssertionError("see wait")

    def write(self, address: int, array: np.ndarray) -> None:
        self.golden.write(address, array)
        self.events.append(("memory", address, np.ascontiguousarray(array).tobytes()))

    def read(self, address: int, n_bytes: int) -> np.ndarray:
        return self.golden.read(address, n_bytes)

    def exponents(self, tensor: int) -> tuple[int, int | None]:
        return self.golden.exponents(tensor)

    def set_exponents(self, tensor, current, following=None):
        self.tensors.add(tensor)
        self.golden.set_exponents(tensor, current, following)
        super().set_exponents(tensor, current, following)

    def set_hyper(self, index, mantissa, exponent):
        self.golden.set_hyper(index, mantissa, exponent)
        super().set_hyper(index, mantissa, exponent)

    def set_regions(self, regions):
        self.golden.set_regions(regions)
        super().set_regions(regions)

    def set_ring(self, base, stride, count, index=0):
        self.golden.set_ring(base, stride, count, index)
        super().set_ring(base, stride, count, index)

    def set_ring_index(self, index):
        self.golden.set_ring_index(index)
        super().set_ring_index(index)

    def start(self, program, phase, batches=1, calibrate=False):
        self.phase = phase
        self.golden.start(program, phase, batches, calibrate)
        super().start(program, phase, batches, calibrate)

    def resume(self):
        self.golden.resume()
        super().resume()

    def wait(self) -> Status:
        """Expect HOST or DONE, or the error that is raised here too; after that comes CLEAR, as a host would."""
        expected = {"error": (0, 0)}
        failure = None
        try:
            expected["status"] = self.golden.wait()
        except DeviceError as error:
            failure = error
            expected |= {"status": Status.ERROR, "error": (int(error.code), error.index)}
        counters = self.golden.counters(self.phase)
        expected |= {
            "memory": self.golden.read(0, self.memory_size).tobytes(),
            "exponents": {tensor: self.golden.exponents(tensor) for tensor in sorted(self.tensors)},
            "phase": self.phase,
            "counters": {name: counters[name] for name in KNOWN},
        }
        self.events.append(("wait", expected))
        if failure is not None:
            self.write_register("CONTROL", Control.CLEAR)
            raise failure
        return expected["status"]

    def save(self, path: Path) -> None:
        """Write the events to a file that ``numpy.load`` reads as an object array."""
        np.save(path, np.array(self.events, dtype=object))
