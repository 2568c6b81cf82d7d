"""Timelines: when each unit of the machine worked on which command, as a trace for Perfetto and in numbers.

The simulation's events name a command by its number; with the program they become :class:`Slice`. A trace is a file
in the Trace Event format, which https://ui.perfetto.dev and chrome://tracing show with a track for each unit.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...gen.files import write_atomically
from ...sim.native_types import UNITS
from ...spec.config import Config
from ...spec.phases import PHASE_TITLES
from ..program import Program
from .run_folder import RunError
from .settings import SettingsError

if TYPE_CHECKING:
    from ..devices.simulated import SimDevice

__all__ = ["Slice", "Timeline", "Work", "batches", "check_window", "read_trace", "slices", "trace", "window", "work"]

TRACKS = ("batch", "fill", "array", "drain", "store", "update", *(u for u in UNITS if u.startswith("predictor")))
"""Units from top to bottom."""
CORE, PREDICTOR = 1, 2
"""Processes of a trace: the main engines with the update unit, and the predictor's own engines."""


@dataclass(frozen=True)
class Slice:
    """A unit's work on a command, in cycles ``begin`` to ``end`` - 1; see :data:`adagp.sim.native_types.EVENT`.

    ``layer`` and ``opcode`` (lower case) are the command's; a slice of the unit "batch" is a whole batch. ``dry`` is
    set if the command ran to calibrate, without effect.
    """

    unit: str
    layer: str
    opcode: str
    phase: str
    batch: int
    command: int
    dry: bool
    begin: int
    end: int
    busy: int

    @property
    def cycles(self) -> int:
        """Length of the slice in cycles."""
        return self.end - self.begin

    @property
    def name(self) -> str:
        """Name that a trace shows."""
        if self.unit == "batch":
            return f"batch {self.batch} {self.phase}"
        return " ".join((*filter(None, (self.layer, self.opcode, self.phase)), *["dry"] * self.dry))


@dataclass
class Work:
    """Sums of a unit's work on one kind of command: slices, cycles of the slices, and cycles of work in them."""

    slices: int = 0
    cycles: int = 0
    busy: int = 0


def slices(events: np.ndarray, program: Program, first_batch: int = 0) -> list[Slice]:
    """A simulation's events with the names of their commands, in the order in which they began.

    ``first_batch`` is the number of the first one recorded.
    """
    found = []
    for event in np.sort(events, order=["begin", "unit"]):
        unit, phase = UNITS[event["unit"]], PHASE_TITLES[event["phase"]]
        line = program[int(event["command"])]
        layer, opcode = ("", "") if unit == "batch" else (line.name, line.command.opcode.name.lower())
        numbers = (int(event[name]) for name in ("begin", "end", "busy"))
        batch, command = first_batch + int(event["batch"]), int(event["command"])
        found.append(Slice(unit, layer, opcode, phase, batch, command, bool(event["dry"]), *numbers))
    return found


def work(found: Iterable[Slice]) -> dict[tuple[str, str, str, str], Work]:
    """Sum the work by (phase, layer, opcode, unit); dry slices aren't counted."""
    sums: dict[tuple[str, str, str, str], Work] = {}
    for s in found:
        if s.unit != "batch" and not s.dry:
            one = sums.setdefault((s.phase, s.layer, s.opcode, s.unit), Work())
            one.slices, one.cycles, one.busy = one.slices + 1, one.cycles + s.cycles, one.busy + s.busy
    return sums


def batches(found: Iterable[Slice]) -> list[Slice]:
    """Slices of whole batches; each begins with the batch's first command and ends with its END."""
    return [s for s in found if s.unit == "batch"]


def trace(found: Iterable[Slice], config: Config) -> dict:
    """Write slices in the Trace Event format; times are in microseconds, ``args`` in cycles."""
    processes = {CORE: f"adagp {config.name}", PREDICTOR: "predictor"}
    places = {unit: (PREDICTOR if unit.startswith("predictor") else CORE, n) for n, unit in enumerate(TRACKS, 1)}
    events: list[dict] = []
    for s in sorted(found, key=lambda s: (s.begin, TRACKS.index(s.unit))):
        pid, tid = places[s.unit]
        events.append({
            "name": s.name, "cat": s.phase, "ph": "X", "ts": s.begin * 1e6 / config.clock_hz,
            "dur": s.cycles * 1e6 / config.clock_hz, "pid": pid, "tid": tid, "args": asdict(s) | {"cycles": s.cycles},
        })  # fmt: skip
    used = {(event["pid"], event["tid"]) for event in events}
    names = [
        {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": processes[pid]}}
        for pid in sorted({pid for pid, _ in used})
    ]
    for unit, (pid, tid) in places.items():
        if (pid, tid) in used:
            names.append({"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": unit}})
            names.append({"name": "thread_sort_index", "ph": "M", "pid": pid, "tid": tid, "args": {"sort_index": tid}})
    about = {"preset": config.name, "variant": config.variant, "clock_hz": config.clock_hz}
    return {"traceEvents": names + events, "displayTimeUnit": "ns", "otherData": about}


def read_trace(path: Path) -> list[Slice]:
    """Read the slices of a file that holds a :func:`trace`; raises RunError."""
    try:
        events = [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"]
        return [Slice(**{name: event["args"][name] for name in Slice.__dataclass_fields__}) for event in events]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} isn't a timeline of this version: {error}") from None


def check_window(text: str) -> tuple[int, int]:
    """Parse ``FIRST:LAST``; raises SettingsError."""
    first, colon, last = text.partition(":")
    if not (colon and first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
        raise SettingsError(f"timeline = {text!r} must be FIRST:LAST with FIRST <= LAST, numbers of batches")
    return int(first), int(last)


def window(text: str, n_batches: int) -> tuple[int, int]:
    """Parse ``FIRST:LAST`` of a run that has ``n_batches``; raises SettingsError."""
    first, last = check_window(text)
    if last >= n_batches:
        raise SettingsError(f"timeline = {text!r}: the run has batches 0 to {n_batches - 1}")
    return first, last


class Timeline:
    """The file ``path`` with the trace of a run's batches ``first`` to ``last``, counted over all epochs.

    The trainer calls :meth:`begin` before the batches of each start, :meth:`end` after them, :meth:`save` with each
    checkpoint, and :meth:`resume` if the run goes on from one. Times count from the first recorded batch; a run that
    goes on counts from the end of its earlier recording.
    """

    def __init__(self, device: "SimDevice", program: Program, path: Path, first: int, last: int):
        self.device, self.program, self.path, self.first, self.last = device, program, path, first, last
        self.slices: list[Slice] = []
        self._running = program
        self._shift: int | None = None  # from the device's cycles to those of the file
        self._batch: int | None = None  # the first of those being recorded
        self._saved = True

    def resume(self, batch: int) -> None:
        """Keep the file's slices of batches before ``batch``, with which the run goes on."""
        if self.path.exists():
            self.slices = [s for s in read_trace(self.path) if s.batch < batch]

    def begin(self, batch: int, count: int, program: Program | None = None) -> None:
        """Begin to record if one of the ``count`` batches from ``batch`` on is wanted, which ``program`` runs."""
        self._running = program or self.program
        if batch <= self.last and batch + count > self.first:
            self._batch = batch
            self.device.record_events()

    def end(self) -> None:
        """Take the slices of the batches since :meth:`begin`, which are complete."""
        if self._batch is None:
            return
        new = slices(self.device.events, self._running, self._batch)
        new = [s for s in new if self.first <= s.batch <= self.last]
        self.device.record_events(False)
        if self._shift is None:
            self._shift = max((s.end for s in self.slices), default=0) - min(s.begin for s in new)
        self.slices += [replace(s, begin=s.begin + self._shift, end=s.end + self._shift) for s in new]
        self._batch, self._saved = None, False

    def save(self) -> None:
        """Write the file if there is anything new."""
        if not self._saved:
            text = json.dumps(trace(self.slices, self.device.config))
            write_atomically(self.path, (text + "\n").encode())
            self._saved = True
