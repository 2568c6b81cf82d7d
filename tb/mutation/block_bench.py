"""A bench of tb/cocotb, on its block's netlist with mutants."""

import contextlib
import importlib
import io
import math
import os
import re
import resource
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from adagp.spec.presets import preset
from amaranth.lib import wiring

from . import TB
from .isolated_process import VARIABLE, Kind, apart, verdict

__all__ = ["TB", "BlockBench"]

CONFIG = preset("tiny")
LIMIT, MORE_SECONDS = 3, 5
"""CPU time that a bench may take: LIMIT times that of the intact block, and MORE_SECONDS more."""

NEARLY = 0.9
"""The system's limit and its account of time differ a little."""
NO_RESULTS = "left no results"
"""The runner's message about a simulation that was stopped."""
STOPS = "%Error"
"""The beginning of Verilator's message when a simulation can't go on."""

_EXCEPTION = re.compile(r"\b((\w*(?:Error|Timeout))\b.*)$", re.MULTILINE)


@dataclass(frozen=True)
class BlockBench:
    """A bench of tb/cocotb: its module, and the design that it runs on."""

    block: str
    module: str
    design: Callable[[], wiring.Component]

    def difference(self, top: Path, mutant: int, seconds: int | None = None) -> dict:
        """The :func:`.verdict` of the bench on the netlist ``top`` with this mutant.

        ``seconds`` of CPU time, if given, are all that the simulation may take, once it is built.
        """
        from runner import build

        build("verilator", top)
        return apart(partial(self._run, top, mutant, seconds), seconds)

    def _run(self, top, mutant, seconds):
        from runner import run

        os.environ[VARIABLE] = str(mutant)
        try:
            with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stdout(io.StringIO()):
                seed = importlib.import_module(self.module).SEED
                run(self.module, top, CONFIG, Path(scratch), seed=seed, block=self.block)
        except AssertionError as error:
            if NO_RESULTS not in str(error):
                return _read(str(error))
            if seconds is not None and _children_seconds() > NEARLY * seconds:
                return verdict("no end", Kind.TIMEOUT)
            if STOPS not in str(error):
                raise
            return verdict("the simulation stops", Kind.EXCEPTION)
        return verdict()

    def seconds(self, top: Path) -> int:
        """CPU time that the bench may take for a mutant, from its time on the intact block, where it must pass."""
        from runner import build

        build("verilator", top)
        before = _children_seconds()
        said = self.difference(top, 0)
        assert said["found"] is None, f"the bench of {self.block} fails on the intact netlist: {said['found']}"
        return math.ceil(LIMIT * (_children_seconds() - before)) + MORE_SECONDS


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _read(log: str) -> dict:
    """The verdict in a bench's log: its last exception."""
    found, name = (_EXCEPTION.findall(log) or [("failed, with no exception in the end of its log", "")])[-1]
    kind = Kind.TIMEOUT if "Timeout" in name else Kind.GOLDEN if name == "AssertionError" else Kind.EXCEPTION
    return verdict(found[:120], kind)
