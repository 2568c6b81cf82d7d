"""The estimator as a device: counters of a program's batches without data, in a fraction of the simulation's time."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from ...spec.config import Config
from ...spec.registers import COUNTERS, N_PHASES, Status
from ...spec.schedule import Schedule, State, Threshold, following
from ..estimate.machine import Machine
from ..estimate.repeats import Known
from ..estimate.traffic import Table
from ..program import Program
from .device import DeviceError, all_regions

__all__ = ["EstimatorDevice"]

NO_DATA = "the estimator has no data, only the times and bytes of commands: take the device sim, golden or board"


class EstimatorDevice:
    """A :class:`~adagp.host.devices.device.Device` that runs a program's commands in time alone.

    What is written is forgotten, and nothing can be read. Counters are those of the machine, but for saturations, which
    depend on data and are 0. :meth:`bytes`, :meth:`busy` and :meth:`layers` say more than the machine's own. With
    ``known``, what repeats is left out, for a fraction of the time: bytes and products are the same, and cycles nearly.
    With ``row_stationary`` GEMMs take the time of a modelled array without RTL, on the machine's own tiles.
    """

    def __init__(self, config: Config, known: Known | None = None, row_stationary: bool = False):
        self.config, self.memory_size, self._known = config, config.dram.capacity_bytes, known
        self._row_stationary = row_stationary
        self._exponents: dict[int, tuple[int, int | None]] = {}
        self._scales: dict[int, tuple[int, int]] = {}
        self._powers = (0, 0)
        self._ring = (0, 0, 0)  # base, stride, count
        self._index = self._left = self._window = self._phase = 0
        self._schedule: Schedule | None = None
        self._position, self._gate_open = State(), True
        self._status = Status(0)
        self._machine: Machine | None = None
        self._seen_counts: Counter = Counter()  # of the machine, as they were when last added
        self._seen_busy: Counter = Counter()
        self._seen_table: Table = Counter()
        self._seen_layers: Counter = Counter()
        self.reset_counters()

    def write(self, address: int, array: np.ndarray) -> None:
        """Forget the array: nothing depends on data."""

    def read(self, address: int, n_bytes: int) -> NoReturn:
        raise DeviceError(NO_DATA)

    def set_exponents(self, tensor: int, current: int, following: int | None = None) -> None:
        self._exponents[tensor] = current, following

    def exponents(self, tensor: int) -> tuple[int, int | None]:
        return self._exponents.get(tensor, (0, None))

    def set_scale(self, tensor: int, exponent: int, fraction: int = 0) -> None:
        self._scales[tensor] = exponent, fraction

    def scale(self, tensor: int) -> tuple[int, int]:
        return self._scales.get(tensor, (0, 0))

    def set_adam_powers(self, first: int, second: int) -> None:
        self._powers = first, second

    def adam_powers(self) -> tuple[int, int]:
        return self._powers

    def set_hyper(self, index: int, mantissa: int, exponent: int) -> None:
        """Forget the value."""

    def set_regions(self, regions: Sequence[tuple[int, int]]) -> None:
        all_regions(regions)  # raises ValueError for regions that don't fit

    def set_ring(self, base: int, stride: int, count: int, index: int = 0) -> None:
        self._ring, self._index = (base, stride, count), index

    def set_ring_index(self, index: int) -> None:
        self._index = index

    def set_predictor_window(self, address: int) -> None:
        self._window, self._machine = address, None

    def set_schedule(self, schedule: Schedule, threshold: Threshold | None = None) -> None:
        self._schedule = schedule

    def set_seed(self, seed: int) -> None:
        """Forget the seed: nothing is drawn."""

    def set_batch(self, batch: int) -> None:
        """Forget the number: nothing is drawn."""

    def set_position(self, position: State, gate_open: bool = True) -> None:
        self._position, self._gate_open = position, gate_open

    def position(self) -> tuple[State, bool]:
        return self._position, self._gate_open

    def start(self, program: Program, phase: int | None, batches: int = 1, calibrate: bool = False) -> None:
        if calibrate:
            raise DeviceError("the estimator can't calibrate, as exponents depend on data: start without calibration")
        if phase is None and self._schedule is None:
            raise DeviceError("phase = None needs a schedule: call set_schedule first, or give the phase")
        if self._machine is None:
            self._machine = Machine(self.config, self._window, self._known, self._row_stationary)
            self._seen_counts, self._seen_busy, self._seen_table = Counter(), Counter(), Counter()
            self._seen_layers = Counter()
        self._commands = [line.command for line in program]
        self._scheduled, self._left = phase is None, max(1, batches)
        self._begin(self._machine, self._phase if phase is None else phase)

    def _begin(self, machine: Machine, phase: int) -> None:
        if self._scheduled and self._schedule is not None:
            mask, self._position = following(self._position, self._schedule, self._gate_open)
            phase = mask.bit_length() - 1
        self._phase, self._status = phase, Status.BUSY
        base, stride, _ = self._ring
        machine.start(self._commands, phase, base + self._index * stride)

    def resume(self) -> None:
        assert self._machine is not None and self._status & Status.HOST, "the program doesn't wait at HOST"
        self._status = Status.BUSY
        self._machine.resume()

    def wait(self) -> Status:
        machine = self._machine
        assert machine is not None, "no program was started"
        while self._status == Status.BUSY:
            machine.run()
            self._count(machine)
            if machine.waiting:
                self._status = Status.BUSY | Status.HOST
                break
            self._left -= 1
            self._index = 0 if self._index + 1 >= self._ring[2] else self._index + 1
            if not self._left:
                self._status = Status.DONE
                break
            machine.between()
            self._begin(machine, self._phase)
        return self._status

    def _count(self, machine: Machine) -> None:
        """Add what was counted since the last time to the phase's counters."""
        pairs: Any = (
            (self._counters, machine.counts(), self._seen_counts), (self._busy, machine.busy(), self._seen_busy),
            (self._tables, machine.table, self._seen_table), (self._layers, machine.layers, self._seen_layers),
        )  # fmt: skip
        for totals, now, before in pairs:
            for name, value in now.items():
                totals[self._phase][name] += value - before[name]
                before[name] = value

    def counters(self, phase: int) -> dict[str, int]:
        known, table = self._counters[phase], self.bytes(phase)
        moved = {way: sum(n for (*_, each), n in table.items() if each == way) for way in ("read", "write", "chip")}
        found = {"read_bytes": moved["read"], "write_bytes": moved["write"], "predictor_bytes": moved["chip"]} | known
        return {name: int(found.get(name, 0)) for name, _ in COUNTERS}

    def bytes(self, phase: int) -> Table:
        """Bytes of a phase by command, operand and direction."""
        return self._tables[phase]

    def busy(self, phase: int) -> dict[str, float]:
        """Cycles of a phase in which each unit and each side of the memory port was at work."""
        return dict(self._busy[phase])

    def layers(self, phase: int) -> dict[int, int]:
        """Cycles of a phase's ended batches by the layer whose commands took them on the main array, or REST."""
        return dict(self._layers[phase])

    @property
    def last(self) -> dict[str, int]:
        """Cycles from the first start to the end of the last command of each unit, and until ``now``."""
        machine = self._machine
        return {**machine.last, "now": machine.counts()["cycles"]} if machine else {}

    @property
    def left_out(self) -> int:
        """Cycles, of all phases, in which what is known repeats."""
        return self._machine.clock.left_out if self._machine else 0

    def reset_counters(self) -> None:
        phases = range(N_PHASES)
        self._counters: dict[int, Counter] = {phase: Counter() for phase in phases}
        self._tables: dict[int, Table] = {phase: Counter() for phase in phases}
        self._busy: dict[int, Counter] = {phase: Counter() for phase in phases}
        self._layers: dict[int, Counter] = {phase: Counter() for phase in phases}

    def close(self) -> None:
        pass
