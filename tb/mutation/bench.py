"""The top's bench: an accelerator with one mutant active must be seen to differ from the intact one."""

import os
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from adagp.host.device import DeviceError
from adagp.host.golden_device import GoldenDevice
from adagp.host.sim_device import SimDevice
from adagp.sim import SimulationError

from .seen import CONFIG, TIMED, Stage
from .stages import STAGES

__all__ = ["Bench"]

LIMIT = 3
"""A stage may take so many times the intact accelerator's cycles."""

VARIABLE = "ADAGP_MUTANT"


def _same(one, other) -> bool:
    return bool(np.array_equal(one, other)) if isinstance(one, np.ndarray) else one == other


class Bench:
    """Stages on the netlist of ``top``, in which ``$ADAGP_MUTANT`` says which mutant is active.

    Opening it runs them all on the intact accelerator and, where it can, on the golden model: AssertionError if they
    differ. ``stages`` are those of :mod:`.stages` unless given.
    """

    def __init__(self, top: Path, stages: list[Stage] = STAGES):
        self.top, self.stages = top, stages
        self.expected: dict[str, list] = {}
        self.cycles: dict[str, int] = {}
        os.environ[VARIABLE] = "0"
        for stage in stages:
            seen = self.expected[stage.name] = list(self._observe(stage, 1 << 24))
            if stage.golden:
                self._hold_against_golden(stage, seen)

    def _observe(self, stage: Stage, limit: int) -> Iterator[tuple[str, object]]:
        """A stage's observations, of one device after the other; the last is what it raised, if it did."""
        device = None
        self.cycles[stage.name] = 0

        def close():
            if device is not None:
                self.cycles[stage.name] = max(self.cycles[stage.name], device.simulation.cycles)
                device.close()

        def open_device(**options):
            nonlocal device
            close()
            device = SimDevice(CONFIG, limit=limit, top=self.top, **options)
            return device

        try:
            yield from stage.run(open_device)
        except (DeviceError, SimulationError) as error:
            yield "raised", str(error)
        finally:
            close()

    def _hold_against_golden(self, stage, seen):
        golden = list(stage.run(lambda memory_bytes, **_: GoldenDevice(CONFIG, memory_bytes)))
        found = [observation for observation in seen if not observation[0].startswith(TIMED)]
        for number, (expected, got) in enumerate(zip(golden, found, strict=True)):
            what = f"{stage.name}: observation {number}, {expected[0]}"
            assert expected[0] == got[0] and _same(expected[1], got[1]), what

    def difference(self, mutant: int) -> str | None:
        """Where the accelerator with this mutant is first seen to differ, ``stage: what``; None if nowhere."""
        os.environ[VARIABLE] = str(mutant)
        try:
            for stage in self.stages:
                if (found := self._stage(stage)) is not None:
                    return f"{stage.name}: {found}"
        finally:
            os.environ[VARIABLE] = "0"
        return None

    def _stage(self, stage):
        expected = iter(self.expected[stage.name])
        limit = LIMIT * self.cycles[stage.name] + 10_000
        for what, value in self._observe(stage, limit):
            known = next(expected, None)
            if known is None or known[0] != what or not _same(known[1], value):
                return f"{what}: {value}" if what == "raised" else what
        return None if next(expected, None) is None else "ends early"

    def apart(self, mutant: int) -> str | None:
        """:meth:`difference` in a process of its own, whose death is a difference too."""
        context = get_context("fork")
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=lambda: sender.send(self.difference(mutant)))
        process.start()
        sender.close()
        try:
            return receiver.recv()
        except EOFError:
            return "the process died"
        finally:
            process.join()
