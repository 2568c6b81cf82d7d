"""The top's bench: an accelerator with one mutant active must be seen to differ from the intact one."""

import math
import os
import time
from collections.abc import Iterator
from pathlib import Path

from adagp.host.devices.simulated import SimDevice

from .isolated_process import VARIABLE, Kind, apart, verdict
from .observations import TIMED, Stage, difference, same
from .stages import STAGES

__all__ = ["Bench"]

LIMIT = 3
"""Most cycles of a stage, and most CPU time of all stages, as multiples of the intact accelerator's."""
LEAST_SECONDS = 60
"""Seconds of CPU time that every mutant gets at least."""

NO_END = "no interrupt within"
"""The message of a simulation that takes too many cycles."""


class Bench:
    """Stages on the netlist of ``top``, in which ``$ADAGP_MUTANT`` says which mutant is active.

    Opening the bench runs all stages on the intact accelerator, and on the golden model where it can do them. It raises
    AssertionError if the two differ. ``stages`` are those of :mod:`.stages` unless given.
    """

    def __init__(self, top: Path, stages: list[Stage] = STAGES):
        self.top, self.stages = top, stages
        self.expected: dict[str, list] = {}
        self.cycles: dict[str, int] = {}
        os.environ[VARIABLE] = "0"
        before = time.process_time()
        for stage in stages:
            seen = self.expected[stage.name] = list(self._observe(stage, 1 << 24))
            assert seen[-1][0] != "raised", f"{stage.name} on the intact accelerator: {seen[-1][1]}"
            wrong = difference(stage, seen)
            assert wrong is None, f"{stage.name}: {wrong}"
        self.seconds = LIMIT * math.ceil(time.process_time() - before) + LEAST_SECONDS

    def _observe(self, stage: Stage, limit: int) -> Iterator[tuple[str, object]]:
        """Observations of a stage, device by device. If the stage raises an error, this is the last observation."""
        device = None
        self.cycles[stage.name] = 0

        def close():
            if device is not None:
                self.cycles[stage.name] = max(self.cycles[stage.name], device.simulation.cycles)
                device.close()

        def open_device(**options):
            nonlocal device
            close()
            device = SimDevice(stage.config, limit=limit, top=self.top, **options)
            return device

        open_device.top = self.top  # for stages that open devices in their own way

        try:
            yield from stage.run(open_device)
        except Exception as error:  # a broken accelerator may break anything
            yield "raised", f"{type(error).__name__}: {error}"
        finally:
            close()

    def difference(self, mutant: int) -> dict:
        """The :func:`.verdict` on the accelerator with this mutant; names the first difference as ``stage: what``."""
        os.environ[VARIABLE] = str(mutant)
        try:
            for stage in self.stages:
                if (found := self._stage(stage)) is not None:
                    return verdict(f"{stage.name}: {found[0]}", found[1])
        finally:
            os.environ[VARIABLE] = "0"
        return verdict()

    def _stage(self, stage: Stage) -> tuple[str, Kind] | None:
        expected = iter(self.expected[stage.name])
        limit = LIMIT * self.cycles[stage.name] + 10_000
        for what, value in self._observe(stage, limit):
            known = next(expected, None)
            if known is None or known[0] != what or not same(known[1], value):
                if what == "raised":
                    return f"{what}: {value}", Kind.TIMEOUT if NO_END in str(value) else Kind.EXCEPTION
                return what, Kind.GOLDEN if stage.golden and not what.startswith(TIMED) else Kind.INTACT
        return None if next(expected, None) is None else ("ends early", Kind.INTACT)

    def apart(self, mutant: int) -> dict:
        """:meth:`difference` in a process of its own."""
        return apart(lambda: self.difference(mutant), self.seconds)
