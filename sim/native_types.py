"""Types shared with the native driver: settings of the memory, faults, bursts, events and totals."""

import ctypes
from dataclasses import dataclass

import numpy as np

from ..spec.config import Config
from ..spec.dram_part import DramPart

__all__ = [
    "BURST", "DECERR", "EVENT", "IDEAL", "SLVERR", "UNITS", "DramTotals", "Fault", "NativeFault", "Settings",
    "settings",
]  # fmt: skip

SLVERR, DECERR = 2, 3
"""AXI responses of a burst that failed."""

BURST = np.dtype([
    (name, np.int64)
    for name in ("write", "id", "addr", "beats", "response", "offered", "accepted", "first", "last", "failed")
])  # fmt: skip
"""A burst as it passes through the memory, ``Passage`` of dram.h. Its times count steps of the memory."""

UNITS = (
    "batch", "update", "fill", "array", "drain", "store", "predictor fill", "predictor array", "predictor drain",
    "predictor store",
)  # fmt: skip
"""Units of the machine by number, as `Unit` of recorder.h. "array" is the array of PEs, or the pool unit or batch
norm's unit in its place, "batch" a batch as a whole; the predictor's are there only where it has engines of its own."""

EVENT = np.dtype([
    (name, np.int64) for name in ("unit", "command", "dry", "phase", "batch", "begin", "end", "busy")
])  # fmt: skip
"""A unit's work on a command, in cycles begin <= cycle < end: ``Event`` of recorder.h. ``phase`` is a phase's index,
``batch`` a number since recording began, ``busy`` counts cycles in which fill or store moves a beat, the array takes a
vector, a drain walks, an update is under way; a store that begins late has some before its begin."""

IDEAL = DramPart(
    name="ideal", bandwidth_bytes=1 << 62, capacity_bytes=1 << 30, burst_bytes=1, latency_ns=0.0,
    refresh_interval_ns=0.0, refresh_ns=0.0, turnaround_ns=0.0, max_outstanding=64,
)  # fmt: skip
"""A memory that answers in the next cycle at the port's full rate, both directions at once."""

TIME_UNIT = 1 << 16
"""The driver's unit of time: this many to a cycle."""


@dataclass(frozen=True)
class Fault:
    """A failing burst: the ``nth`` of its direction (from 0; None: every one) touching start..end - 1.

    Of a read only beat ``beat`` (modulo their number) fails, if it isn't None; a write has one response.
    """

    write: bool
    response: int = SLVERR
    nth: int | None = None
    start: int = 0
    end: int = 1 << 33
    beat: int | None = None


class NativeFault(ctypes.Structure):
    """``Fault`` of dram.h."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("write", "response", "nth", "start", "end", "beat")]

    @classmethod
    def of(cls, fault: Fault) -> "NativeFault":
        nth, beat = ((1 << 64) - 1 if number is None else number for number in (fault.nth, fault.beat))
        return cls(fault.write, fault.response, nth, fault.start, fault.end, beat)


class Settings(ctypes.Structure):
    """``Settings`` of dram.h."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "granule_bytes", "granule_time", "latency", "refresh_interval", "refresh", "turnaround",
            "max_outstanding", "write_latency", "stall", "seed",
        )
    ]  # fmt: skip


class DramTotals(ctypes.Structure):
    """Traffic at the memory port since the simulation was opened; bytes are those of read beats and write strobes."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in ("read_bytes", "write_bytes", "read_beats", "write_beats", "read_bursts", "write_bursts")
    ]

    def to_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name, *_ in self._fields_}


def settings(config: Config, part: DramPart, stall: float, seed: int, write_latency: int = 0) -> Settings:
    """Settings for ``part`` at the port of ``config``, with random stalls of the given chance per channel and cycle.

    ``write_latency``: cycles by which a write's answer comes after its data have crossed the data bus.
    """
    per_ns = config.clock_hz * TIME_UNIT / 1e9
    return Settings(
        granule_bytes=part.burst_bytes,
        granule_time=part.burst_bytes * config.clock_hz * TIME_UNIT // part.bandwidth_bytes,
        latency=round(part.latency_ns * per_ns),
        refresh_interval=round(part.refresh_interval_ns * per_ns),
        refresh=round(part.refresh_ns * per_ns),
        turnaround=round(part.turnaround_ns * per_ns),
        max_outstanding=part.max_outstanding,
        write_latency=write_latency * TIME_UNIT,
        stall=round(stall * 65536),
        seed=seed,
    )
