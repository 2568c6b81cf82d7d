"""The interface of an accelerator to the host, and its implementation for all that have registers."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ...spec.config import VERSION, Config
from ...spec.errors import ErrorCode
from ...spec.registers import AS_SCHEDULED, COUNTERS, DEVICE_ID, N_REGIONS, Control, Status, register
from ...spec.schedule import Schedule, State, Threshold
from ..program import Program

__all__ = ["Device", "DeviceError", "RegisterDevice", "all_regions", "failure"]


class DeviceError(RuntimeError):
    """The accelerator stopped, or isn't the one that was expected.

    ``code`` is the accelerator's own and ``index`` that of the failing command, when it was an error in a program.
    """

    def __init__(self, message: str, code: ErrorCode = ErrorCode.NONE, index: int = -1):
        super().__init__(message)
        self.code, self.index = code, index


def failure(program: Program | None, code: int, index: int) -> DeviceError:
    """The exception for a program that stopped with ``code`` at command ``index``."""
    known = code in ErrorCode.__members__.values()
    name = ErrorCode(code).name if known else f"error {code}"
    line = program.describe(index).strip() if program else f"{index}"
    return DeviceError(f"{name} at command {line}", ErrorCode(code) if known else ErrorCode.NONE, index)


def all_regions(regions: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The regions of all region registers, empty where there is none; raises ValueError for regions that don't fit."""
    if len(regions) > N_REGIONS:
        raise ValueError(f"{len(regions)} write regions, the accelerator has {N_REGIONS}")
    for start, end in regions:
        if not 0 <= start <= end < 1 << 32:
            raise ValueError(f"write region from {start:#x} to {end:#x}: 0 <= start <= end < 2^32 must hold")
    return [*regions, *[(0, 0)] * (N_REGIONS - len(regions))]


class Device(Protocol):
    """An accelerator with its memory: golden model, simulation or board, which give the same bits.

    Addresses are byte addresses in the accelerator's memory. ``phase`` is an index: 0 warm-up, 1 BP,
    2 GP, 3 evaluation; None, like scales, Adam and the schedule: only where ``config.predicts``.
    """

    config: Config
    memory_size: int

    def write(self, address: int, array: np.ndarray) -> None:
        """Put an array's bytes at ``address``."""

    def read(self, address: int, n_bytes: int) -> np.ndarray:
        """A copy of ``n_bytes`` from ``address``, as uint8."""

    def set_exponents(self, tensor: int, current: int, following: int | None = None) -> None:
        """Set a tensor's exponents; ``following`` makes it persistent (weights, momentum)."""

    def exponents(self, tensor: int) -> tuple[int, int | None]:
        """A tensor's current and, if it is persistent, next exponent."""

    def set_scale(self, tensor: int, exponent: int, fraction: int = 0) -> None:
        """Make a tensor the scale of a layer's gradients; ``fraction`` / 256 belongs to the exponent."""

    def scale(self, tensor: int) -> tuple[int, int]:
        """A scale's exponent and fraction."""

    def set_adam_powers(self, first: int, second: int) -> None:
        """Set the betas to the power of the steps that Adam has taken, fractions of 2^32."""

    def adam_powers(self) -> tuple[int, int]:
        """Adam's betas to the power of its steps."""

    def set_hyper(self, index: int, mantissa: int, exponent: int) -> None:
        """Set a hyper-parameter to ``mantissa * 2^exponent``."""

    def set_regions(self, regions: Sequence[tuple[int, int]]) -> None:
        """Allow writes to addresses start <= address < end of at most N_REGIONS regions, and to no others.

        Raises ValueError for regions that the registers can't hold.
        """

    def set_ring(self, base: int, stride: int, count: int, index: int = 0) -> None:
        """Describe the input ring and choose the entry of the next batch."""

    def set_ring_index(self, index: int) -> None:
        """Choose the entry of the input ring that the next batch takes."""

    def set_predictor_window(self, address: int) -> None:
        """Set the address of ``config.predictor_bytes`` that may be kept on chip, where only programs reach them."""

    def set_schedule(self, schedule: Schedule, threshold: Threshold | None = None) -> None:
        """Set the schedule of phases from the next batch on, and the gate's threshold (None: the gate stays)."""

    def set_seed(self, seed: int) -> None:
        """Set the seed of random signs and of dropout, 32 bits."""

    def set_batch(self, batch: int) -> None:
        """Set the number of the next batch, by which dropout draws; 32 bits. The device counts on from it."""

    def set_position(self, position: State, gate_open: bool = True) -> None:
        """Set the place in the schedule, and whether predictions are good enough to begin a run of GP."""

    def position(self) -> tuple[State, bool]:
        """The place in the schedule after the batches begun, and whether the gate is open."""

    def start(self, program: Program, phase: int | None, batches: int = 1, calibrate: bool = False) -> None:
        """Begin ``batches`` runs of a program that lies in memory at its address; ``phase`` None: as scheduled."""

    def resume(self) -> None:
        """Leave a HOST command."""

    def wait(self) -> Status:
        """Wait until the program waits at HOST or has ended; raises DeviceError when it failed."""

    def counters(self, phase: int) -> dict[str, int]:
        """The performance counters of a phase by name; 0 for those that the device hasn't got."""

    def reset_counters(self) -> None:
        """Set the performance counters of all phases to zero."""

    def close(self) -> None:
        """Let go of the device."""


class RegisterDevice(ABC):
    """A :class:`Device` that is reached through its registers and an interrupt: simulation, boards.

    The first :meth:`connect` must come before anything else.
    """

    config: Config

    @abstractmethod
    def read_register(self, name: str) -> int:
        """The value of a register."""

    @abstractmethod
    def write_register(self, name: str, value: int) -> None:
        """Set a register to the 32 low bits of ``value``."""

    @abstractmethod
    def wait_for_interrupt(self) -> None:
        """Return once the interrupt is raised."""

    def connect(self) -> None:
        """Check that it is the accelerator of ``config``, and enable the interrupt; raises DeviceError."""
        self._program: Program | None = None
        expected = {"ID": DEVICE_ID, "VERSION": VERSION, "CONFIG_HASH": self.config.config_hash}
        for name, value in expected.items():
            found = self.read_register(name)
            if found != value:
                raise DeviceError(f"{name} reads {found:08x}, for {self.config.name} it must be {value:08x}")
        self.write_register("IRQ_ENABLE", 1)

    def _write_fields(self, name: str, **values: int) -> None:
        """Set a register to these fields; raises FieldError for a value that doesn't fit."""
        self.write_register(name, register(name).pack(**values))

    def _read_fields(self, name: str) -> dict[str, int]:
        return register(name).unpack(self.read_register(name))

    def set_exponents(self, tensor: int, current: int, following: int | None = None) -> None:
        self.write_register("TENSOR", tensor)
        persistent = {} if following is None else {"next": following, "has_next": 1}
        self._write_fields("EXPONENT", cur=current, **persistent)

    def exponents(self, tensor: int) -> tuple[int, int | None]:
        self.write_register("TENSOR", tensor)
        found = self._read_fields("EXPONENT")
        return found["cur"], found["next"] if found["has_next"] else None

    def set_scale(self, tensor: int, exponent: int, fraction: int = 0) -> None:
        self.write_register("TENSOR", tensor)
        self._write_fields("EXPONENT", cur=exponent, fraction=fraction, is_scale=1)

    def scale(self, tensor: int) -> tuple[int, int]:
        self.write_register("TENSOR", tensor)
        found = self._read_fields("EXPONENT")
        return found["cur"], found["fraction"]

    def set_adam_powers(self, first: int, second: int) -> None:
        self.write_register("ADAM_POWER1", first)
        self.write_register("ADAM_POWER2", second)

    def adam_powers(self) -> tuple[int, int]:
        return self.read_register("ADAM_POWER1"), self.read_register("ADAM_POWER2")

    def set_hyper(self, index: int, mantissa: int, exponent: int) -> None:
        self.write_register("HYPER", index)
        self._write_fields("HYPER_VALUE", mantissa=mantissa, exponent=exponent)

    def set_regions(self, regions: Sequence[tuple[int, int]]) -> None:
        for index, (start, end) in enumerate(all_regions(regions)):
            self.write_register(f"REGION{index}_START", start)
            self.write_register(f"REGION{index}_END", end)

    def set_ring(self, base: int, stride: int, count: int, index: int = 0) -> None:
        for name, value in (("BASE", base), ("STRIDE", stride), ("COUNT", count), ("INDEX", index)):
            self.write_register(f"RING_{name}", value)

    def set_ring_index(self, index: int) -> None:
        self.write_register("RING_INDEX", index)

    def set_predictor_window(self, address: int) -> None:
        self.write_register("PREDICTOR", address)

    def set_schedule(self, schedule: Schedule, threshold: Threshold | None = None) -> None:
        settings = {"WARMUP_EPOCHS": schedule.warmup, "EPOCH_BATCHES": schedule.batches}
        for name, value in (*settings.items(), ("ENTRIES", len(schedule.entries))):
            self.write_register(name, value)
        for index, entry in enumerate(schedule.entries):
            self.write_register("ENTRY", index)
            self.write_register("ENTRY_EPOCHS", entry.epochs)
            self._write_fields("ENTRY_LENGTHS", gp=entry.gp, bp=entry.bp)
        mantissa, exponent = threshold or (0, 0)
        self._write_fields("GATE_THRESHOLD", mantissa=mantissa, exponent=exponent, in_use=threshold is not None)

    def set_seed(self, seed: int) -> None:
        self.write_register("SEED", seed)

    def set_batch(self, batch: int) -> None:
        self.write_register("BATCH", batch)

    def set_position(self, position: State, gate_open: bool = True) -> None:
        self.write_register("POSITION_EPOCH", position.epoch)
        self.write_register("POSITION_BATCH", position.batch)
        self._write_fields("POSITION_RUN", left=position.left, gp=position.gp)
        self.write_register("GATE", int(gate_open))

    def position(self) -> tuple[State, bool]:
        epoch, batch = self.read_register("POSITION_EPOCH"), self.read_register("POSITION_BATCH")
        run = self._read_fields("POSITION_RUN")
        return State(epoch, batch, bool(run["gp"]), run["left"]), bool(self.read_register("GATE"))

    def start(self, program: Program, phase: int | None, batches: int = 1, calibrate: bool = False) -> None:
        assert phase is not None or self.config.predicts, "only variants that predict have a schedule"
        self._program = program
        settings = {
            "PROGRAM": program.address, "PHASE": AS_SCHEDULED if phase is None else phase, "BATCHES": batches,
            "CALIBRATE": int(calibrate),
        }  # fmt: skip
        for name, value in settings.items():
            self.write_register(name, value)
        self.write_register("CONTROL", Control.START)

    def resume(self) -> None:
        self.write_register("CONTROL", Control.RESUME)

    def wait(self) -> Status:
        self.wait_for_interrupt()
        status = Status(self.read_register("STATUS"))
        if status & Status.ERROR:
            error = failure(self._program, self.read_register("ERROR"), self.read_register("ERROR_INDEX"))
            self.write_register("CONTROL", Control.CLEAR)
            raise error
        return status

    def counters(self, phase: int) -> dict[str, int]:
        values = {}
        for place, (name, _) in enumerate(COUNTERS):
            self._write_fields("COUNTER", phase=phase, place=place)
            low = self.read_register("COUNTER_LOW")  # latches the upper half
            values[name] = self.read_register("COUNTER_HIGH") << 32 | low
        return values

    def reset_counters(self) -> None:
        self.write_register("CONTROL", Control.RESET_COUNTERS)
