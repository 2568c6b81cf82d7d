"""The simulated accelerator: a Verilated model with its DRAM, driven through its two AXI ports."""

import ctypes
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import numpy as np

from ..spec.config import Config
from ..spec.dram_part import DramPart
from ..spec.errors import ErrorCode
from ..spec.registers import Status, register
from .build import library
from .coverage import n_counters
from .native_types import BURST, EVENT, DramTotals, Fault, NativeFault, Settings, settings

__all__ = ["Simulation", "SimulationError"]

CHUNK_CYCLES = 100_000
"""Cycles between two calls of a progress function (and chances to interrupt a run)."""

NEVER = (1 << 64) - 1


class SimulationError(RuntimeError):
    """A run that can't go on: cycle limit, assertion, protocol violation, refused register access."""


@cache
def _load(path):
    native = ctypes.CDLL(str(path))
    handle, u32, u64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
    for name, result, arguments in (
        ("open", handle, (handle, u64, ctypes.POINTER(Settings))),
        ("close", None, (handle,)),
        ("open_trace", ctypes.c_int, (handle, ctypes.c_char_p)),
        ("trace_cycles", ctypes.c_int, (handle, u64, u64)),
        ("trace_commands", ctypes.c_int, (handle, u64, u64, u64)),
        ("coverage", ctypes.POINTER(u32), (handle,)),
        ("run", ctypes.c_int, (handle, u64)),
        ("reset", ctypes.c_int, (handle, u64)),
        ("inject", None, (handle, ctypes.POINTER(NativeFault))),
        ("log", None, (handle, handle, u64)),
        ("record", ctypes.c_int, (handle, ctypes.c_int)),
        ("events", u64, (handle, ctypes.POINTER(ctypes.c_void_p))),
        ("write", ctypes.c_int, (handle, u32, u32)),
        ("read", ctypes.c_int, (handle, u32, ctypes.POINTER(u32))),
        ("cycles", u64, (handle,)),
        ("message", ctypes.c_char_p, (handle,)),
        ("totals", None, (handle, ctypes.POINTER(DramTotals))),
    ):
        function = getattr(native, f"adagp_{name}", None)
        if function is None:  # functions for waveforms or coverage, in a simulator without these
            continue
        function.restype, function.argtypes = result, arguments
    return native


class Simulation:
    """One accelerator of ``config`` after reset, with its memory; a context manager.

    ``memory`` is the DRAM as bytes, shared with the running model: read and write it between calls.

    Parameters
    ----------
    config, part: the accelerator and its DRAM (default: the configuration's own; see also native_types.IDEAL)
    trace: FST file to write waveforms to; this takes a simulator of its own, several times slower
    trace_window: (first, last) cycle of the waveforms
    trace_commands: (first, last) command whose execution is in the waveforms: from the moment when the first is
        the next to be executed until the last and all before it are complete; in one batch
    trace_batch: number of the batch among those with these commands, from 0
    debug: check the design's assertions
    coverage: kinds of points (:mod:`.coverage`) and an array of the library's counters, to which this simulation adds
        its own at its close
    stall, seed: chance in 0..1 that a memory channel pauses in a cycle; start of its random numbers
    write_latency: cycles by which a write's answer comes after its data have crossed the part's data bus
    faults: bursts that fail, see :meth:`inject`
    memory_bytes: size of the memory (default: the part's capacity); only touched pages cost anything
    top: another ``top.v`` with the accelerator's ports
    """

    def __init__(
        self, config: Config, part: DramPart | None = None, *, trace: Path | str | None = None,
        trace_window: tuple[int, int] = (0, NEVER - 1), trace_commands: tuple[int, int] | None = None,
        trace_batch: int = 0, debug: bool = False, coverage: tuple[tuple[str, ...], np.ndarray] | None = None,
        stall: float = 0.0, seed: int = 1, write_latency: int = 0, faults: Iterable[Fault] = (),
        memory_bytes: int | None = None, top: Path | None = None,
    ):  # fmt: skip
        self.config = config
        self.part = part or config.dram
        self.memory = np.zeros(memory_bytes or self.part.capacity_bytes, np.uint8)
        self._handle = None
        kinds: tuple[str, ...] = ()
        self._counts: np.ndarray | None = None
        if coverage is not None:
            kinds, self._counts = coverage
        path = library(config, trace=trace is not None, debug=debug, coverage=kinds, top=top)
        if self._counts is not None and self._counts.size != (has := n_counters(path.with_suffix(".json"))):
            raise ValueError(f"room for {self._counts.size} counters, the simulator of {top or config.name} has {has}")
        self._native = _load(path)
        self._handle = self._native.adagp_open(
            self.memory.ctypes.data, self.memory.nbytes, settings(config, self.part, stall, seed, write_latency)
        )
        if not self._handle:
            raise SimulationError("an assertion failed during reset")
        self.inject(faults)
        if trace is not None:
            self._check(self._native.adagp_open_trace(self._handle, str(trace).encode()))
            if trace_commands is None:
                first, last = trace_window
                self._check(self._native.adagp_trace_cycles(self._handle, first, last + 1))
            else:
                self._check(self._native.adagp_trace_commands(self._handle, *trace_commands, trace_batch))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        self.close()

    def close(self):
        """End the simulation and finish the waveform file; ``memory`` stays readable."""
        if self._handle:
            if self._counts is not None:
                self._counts += self.counts
            self._native.adagp_close(self._handle)
        self._handle = None

    @property
    def _running(self):
        """The native simulation; raises SimulationError once it is closed."""
        if not self._handle:
            raise SimulationError("the simulation is closed")
        return self._handle

    def _check(self, result):
        if result < 0:
            message = self._native.adagp_message(self._running).decode()
            raise SimulationError(f"{message} (cycle {self.cycles})")
        return result

    @property
    def counts(self) -> np.ndarray:
        """Counters of coverage since the simulation was opened, modulo 2^32; a copy."""
        if self._counts is None:
            raise SimulationError("the simulation has no coverage")
        counts = self._native.adagp_coverage(self._running)
        return np.ctypeslib.as_array(counts, self._counts.shape).copy()

    @property
    def cycles(self) -> int:
        """Clock cycles since the simulation was opened."""
        return self._native.adagp_cycles(self._running)

    @property
    def dram_totals(self) -> DramTotals:
        """Traffic at the memory port since the simulation was opened."""
        totals = DramTotals()
        self._native.adagp_totals(self._running, totals)
        return totals

    def write_register(self, offset: int, value: int) -> None:
        """One AXI4-Lite write; raises SimulationError when it is refused."""
        response = self._check(self._native.adagp_write(self._running, offset, value & 0xFFFF_FFFF))
        if response:
            raise SimulationError(f"write to register 0x{offset:03x} refused with response {response}")

    def read_register(self, offset: int) -> int:
        """One AXI4-Lite read; raises SimulationError when it is refused."""
        value = ctypes.c_uint32()
        response = self._check(self._native.adagp_read(self._running, offset, value))
        if response:
            raise SimulationError(f"read of register 0x{offset:03x} refused with response {response}")
        return value.value

    def run_until_irq(self, max_cycles: int, progress: Callable[[int], None] | None = None) -> int:
        """Run until the interrupt is raised (at once, if it is); returns the cycles this took.

        ``progress`` is called with the cycles so far, about every CHUNK_CYCLES. Raises SimulationError
        with STATUS and ERROR after ``max_cycles`` without an interrupt.
        """
        start = self.cycles
        while True:
            done = self.cycles - start
            if self._check(self._native.adagp_run(self._running, min(CHUNK_CYCLES, max_cycles - done))):
                return self.cycles - start
            done = self.cycles - start
            if progress is not None:
                progress(done)
            if done >= max_cycles:
                raise SimulationError(f"no interrupt within {max_cycles} cycles: {self._state()}")

    def step(self, count: int) -> None:
        """Let ``count`` cycles pass, or fewer if the interrupt is raised."""
        self._check(self._native.adagp_run(self._running, count))

    def reset(self, cycles: int = 1) -> None:
        """Hold the reset of accelerator and memory controller for ``cycles``; both drop all work under way."""
        self._check(self._native.adagp_reset(self._running, cycles))

    def inject(self, faults: Iterable[Fault]) -> None:
        """Let bursts fail from now on; the ``nth`` of a direction is counted from here too."""
        for fault in faults:
            self._native.adagp_inject(self._running, NativeFault.of(fault))

    def log_bursts(self, room: int) -> None:
        """Empty :attr:`bursts`, and log the next ``room`` accepted bursts there, in order."""
        self._log, self._log_start = np.zeros(room, BURST), self._accepted()
        self._native.adagp_log(self._running, self._log.ctypes.data, room)

    @property
    def bursts(self) -> np.ndarray:
        """The bursts (:data:`.native_types.BURST`) since :meth:`log_bursts`; shared with the running model."""
        return self._log[: self._accepted() - self._log_start]

    def record_events(self, on: bool = True) -> None:
        """Forget :attr:`events`, and record new ones from the machine's next start on; or stop recording.

        Raises SimulationError where the design has no units to be watched.
        """
        self._check(self._native.adagp_record(self._running, on))

    @property
    def events(self) -> np.ndarray:
        """Events of the units since :meth:`record_events`, as :data:`.native_types.EVENT`; a copy.

        The end of a slice of fill, array, drain and update is only seen when the next begins, or with the batch.
        """
        place = ctypes.c_void_p()
        count = self._native.adagp_events(self._running, ctypes.byref(place))
        if not count:
            return np.zeros(0, EVENT)
        return np.frombuffer(ctypes.string_at(place, count * EVENT.itemsize), EVENT).copy()

    def _accepted(self):
        totals = self.dram_totals
        return totals.read_bursts + totals.write_bursts

    def _state(self):
        status, error, index = (self.read_register(register(n).offset) for n in ("STATUS", "ERROR", "ERROR_INDEX"))
        name = ErrorCode(error).name if error in list(ErrorCode) else error
        return f"STATUS {Status(status)!r}, ERROR {name} at command {index}"
