"""The simulated accelerator as a device."""

from collections.abc import Callable

import numpy as np

from ...sim.simulation import Simulation, SimulationError
from ...spec.config import Config
from ...spec.registers import register
from .device import DeviceError, RegisterDevice

__all__ = ["SimDevice"]


class SimDevice(RegisterDevice):
    """A :class:`~adagp.host.devices.device.Device` that runs the generated Verilog.

    ``limit`` is the number of cycles after which a program that hasn't come to a HOST command or its end
    counts as hung; ``progress`` is called every now and then with the cycles so far. ``options`` are those of
    :class:`adagp.sim.Simulation` (part, trace, stall, ...); the simulation itself is ``simulation``.
    """

    def __init__(
        self, config: Config, *, limit: int = 1 << 32, progress: Callable[[int], None] | None = None, **options
    ):
        self.config, self.limit, self.progress = config, limit, progress
        self.simulation = Simulation(config, **options)
        self.memory_size = self.simulation.memory.size
        self.connect()

    def read_register(self, name: str) -> int:
        return self.simulation.read_register(register(name).offset)

    def write_register(self, name: str, value: int) -> None:
        self.simulation.write_register(register(name).offset, int(value))

    def wait_for_interrupt(self) -> None:
        try:
            self.simulation.run_until_irq(self.limit, self.progress)
        except SimulationError as error:
            raise DeviceError(str(error)) from error

    def write(self, address: int, array: np.ndarray) -> None:
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.simulation.memory[address : address + data.size] = data

    def read(self, address: int, n_bytes: int) -> np.ndarray:
        return self.simulation.memory[address : address + n_bytes].copy()

    def record_events(self, on: bool = True) -> None:
        """See :meth:`adagp.sim.Simulation.record_events`."""
        self.simulation.record_events(on)

    @property
    def events(self) -> np.ndarray:
        """See :attr:`adagp.sim.Simulation.events`."""
        return self.simulation.events

    def close(self) -> None:
        self.simulation.close()
