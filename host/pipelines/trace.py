"""Timelines of a pipeline: a track for each device with its steps, as a trace for Perfetto."""

import json
from collections.abc import Sequence
from pathlib import Path

from ...gen.files import write_atomically
from ...spec.config import Config
from ...spec.phases import PHASE_NAMES
from ..training.run_folder import RunError
from .staged_network import Ran

__all__ = ["DeviceTimeline"]


class DeviceTimeline:
    """The file ``path`` with the steps of a run's batches ``first`` to ``last``, counted over all epochs.

    It is in the Trace Event format, which https://ui.perfetto.dev and chrome://tracing show. Times are in microseconds
    at the devices' clock, and in cycles in ``args``. Batches follow each other without a gap: the host's time between
    them isn't in it. A run that goes on keeps the batches of its file before its checkpoint.
    """

    def __init__(self, config: Config, path: Path, first: int, last: int):
        self.config, self.path, self.first, self.last = config, path, first, last
        self._steps: list[dict] = []
        self._shift: float | None = None
        self._saved = True

    def resume(self, batch: int) -> None:
        """Keep the file's steps of batches before ``batch``; raises RunError for another file."""
        if not self.path.exists():
            return
        try:
            events = [event for event in json.loads(self.path.read_text())["traceEvents"] if event["ph"] == "X"]
            self._steps = [event["args"] for event in events if event["args"]["batch"] < batch]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{self.path} isn't a pipeline's timeline of this version: {error}") from None

    def add(self, batch: int, ran: Sequence[Ran], follows: bool = False) -> None:
        """Take the steps of a batch, if it is one of those wanted; the clock of one that ``follows`` has gone on."""
        if not self.first <= batch <= self.last:
            return
        if self._shift is None or not follows:
            self._shift = max((step["end"] for step in self._steps), default=0) - min(each.begin for each in ran)
        shift = self._shift
        for each in sorted(ran, key=lambda one: (one.begin, one.device)):
            step = each.step
            self._steps.append({
                "device": each.device, "what": step.what.name.lower(), "stage": step.stage,
                "micro_batch": step.micro_batch, "replica": step.replica, "batch": batch,
                "begin": shift + each.begin, "end": shift + each.end,
                "label": f"{step.what}{'' if step.micro_batch is None else step.micro_batch}",
                "phase": PHASE_NAMES[step.phase],
            })  # fmt: skip
        self._saved = False

    def save(self) -> None:
        """Write the file if there is anything new."""
        if not self._saved:
            write_atomically(self.path, (json.dumps(self._trace()) + "\n").encode())
            self._saved = True

    def _trace(self) -> dict:
        scale, pid = 1e6 / self.config.clock_hz, 1
        names: list[dict] = [
            {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": f"pipeline of {self.config.name}"}}
        ]
        for device in sorted({step["device"] for step in self._steps}):
            track = {"ph": "M", "pid": pid, "tid": device + 1}
            names.append({"name": "thread_name", **track, "args": {"name": f"device {device}"}})
            names.append({"name": "thread_sort_index", **track, "args": {"sort_index": device}})
        events = [
            {"name": f"{step['label']} stage {step['stage']}", "cat": step["what"], "ph": "X", "pid": pid,
             "tid": step["device"] + 1, "ts": step["begin"] * scale, "dur": (step["end"] - step["begin"]) * scale,
             "args": step}
            for step in self._steps
        ]  # fmt: skip
        about = {"preset": self.config.name, "variant": self.config.variant, "clock_hz": self.config.clock_hz}
        return {"traceEvents": names + events, "displayTimeUnit": "ns", "otherData": about}
