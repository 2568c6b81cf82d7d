"""The golden model as a device."""

from collections.abc import Sequence

import numpy as np

from ...golden.adam import Powers
from ...spec.config import Config
from ...spec.registers import COUNTERS, Status
from ...spec.schedule import Schedule, State, Threshold
from ..program import Program
from .device import all_regions, failure

__all__ = ["GoldenDevice"]


class GoldenDevice:
    """A :class:`~adagp.host.devices.device.Device` that computes with the golden model; it has no notion of cycles.

    ``memory_bytes`` is the size of its memory (default: the part's capacity; only touched pages cost anything).
    """

    def __init__(self, config: Config, memory_bytes: int | None = None):
        from ...golden.program import GoldenMachine

        self.config = config
        self.memory_size = memory_bytes or config.dram.capacity_bytes
        self.machine = GoldenMachine(config, np.zeros(self.memory_size, np.uint8))
        self._program: Program | None = None

    def write(self, address: int, array: np.ndarray) -> None:
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.machine.memory[address : address + data.size] = data

    def read(self, address: int, n_bytes: int) -> np.ndarray:
        return self.machine.memory[address : address + n_bytes].copy()

    def set_exponents(self, tensor: int, current: int, following: int | None = None) -> None:
        self.machine.set_exponents(tensor, current, following)

    def exponents(self, tensor: int) -> tuple[int, int | None]:
        return self.machine.get_exponents(tensor)

    def set_scale(self, tensor: int, exponent: int, fraction: int = 0) -> None:
        self.machine.set_exponents(tensor, exponent)
        table = self.machine.exponents
        table.next[tensor], table.is_scale[tensor] = fraction, True

    def scale(self, tensor: int) -> tuple[int, int]:
        table = self.machine.exponents
        return int(table.cur[tensor]), int(table.next[tensor])

    def set_adam_powers(self, first: int, second: int) -> None:
        self.machine.powers = Powers(first, second)

    def adam_powers(self) -> tuple[int, int]:
        return self.machine.powers.first, self.machine.powers.second

    def set_hyper(self, index: int, mantissa: int, exponent: int) -> None:
        self.machine.set_hyper(index, mantissa, exponent)

    def set_seed(self, seed: int) -> None:
        self.machine.seed = seed

    def set_batch(self, batch: int) -> None:
        self.machine.batch = batch

    def set_regions(self, regions: Sequence[tuple[int, int]]) -> None:
        self.machine.regions = all_regions(regions)

    def set_ring(self, base: int, stride: int, count: int, index: int = 0) -> None:
        machine = self.machine
        machine.ring_base, machine.ring_stride, machine.ring_count, machine.ring_index = base, stride, count, index

    def set_ring_index(self, index: int) -> None:
        self.machine.ring_index = index

    def set_predictor_window(self, address: int) -> None:
        """Do nothing: this device has no memory on chip."""

    def set_schedule(self, schedule: Schedule, threshold: Threshold | None = None) -> None:
        self.machine.schedule, self.machine.threshold = schedule, threshold

    def set_position(self, position: State, gate_open: bool = True) -> None:
        self.machine.position, self.machine.gate_open = position, gate_open

    def position(self) -> tuple[State, bool]:
        return self.machine.position, self.machine.gate_open

    def start(self, program: Program, phase: int | None, batches: int = 1, calibrate: bool = False) -> None:
        self._program = program
        self.machine.start(program.address, phase, batches, calibrate)

    def resume(self) -> None:
        self.machine.resume()

    def wait(self) -> Status:
        status = self.machine.run()
        if status & Status.ERROR:
            error = failure(self._program, self.machine.error, self.machine.error_index)
            self.machine.clear()
            raise error
        return status

    def counters(self, phase: int) -> dict[str, int]:
        known = self.machine.counters[phase]
        return {name: int(known.get(name, 0)) for name, _ in COUNTERS}

    def reset_counters(self) -> None:
        self.machine.reset_counters()

    def close(self) -> None:
        pass
