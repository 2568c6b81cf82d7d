"""The blocks' benches: those of tb/cocotb that run on one block, on its netlist with mutants."""

import contextlib
import importlib
import io
import math
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from adagp.rtl import compute, csr, dma_read, drain, sequencer
from adagp.rtl.array import Array
from amaranth.lib import wiring

from .bench import VARIABLE
from .choice import Mutant
from .seen import CONFIG

__all__ = ["BENCHES", "ORDER", "BlockBench", "benches", "names"]

ORDER = ("block", "top")
"""A block's bench, then the top's."""

TB = Path(__file__).parents[1]
LIMIT = 2
"""A bench may take so many times the CPU time that it takes intact."""

sys.path[:0] = [str(TB), str(TB / "cocotb")]  # the benches import each other by bare names, as under pytest


@dataclass(frozen=True)
class BlockBench:
    """A bench of tb/cocotb: its module, and the design that it runs on."""

    block: str
    module: str
    design: Callable[[], wiring.Component]

    def difference(self, top: Path, mutant: int, seconds: int | None = None, seed: int = 1) -> str | None:
        """What the bench says about the netlist ``top`` with this mutant, in a few words; None if it passes.

        ``seconds`` of CPU time, if given, are all that the simulation may take.
        """
        from runner import run

        os.environ[VARIABLE] = str(mutant)
        soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
        try:
            with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stdout(io.StringIO()):
                if seconds is not None:  # inherited by what simulates; this process has the time it has taken on top
                    resource.setrlimit(resource.RLIMIT_CPU, (seconds + math.ceil(time.process_time()), hard))
                run(self.module, top, CONFIG, Path(scratch), seed=seed)
        except AssertionError as error:
            return _reason(str(error))
        finally:
            resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
            os.environ[VARIABLE] = "0"
        return None

    def seconds(self, top: Path) -> int:
        """CPU time that the bench may take for a mutant, from what it takes intact, which must pass."""
        from runner import build

        build("verilator", top)
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        reason = self.difference(top, 0)
        assert reason is None, f"the bench of {self.block} fails on the intact netlist: {reason}"
        return LIMIT * math.ceil(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before) + 5


def _reason(log: str) -> str:
    """The last exception in a bench's log."""
    if "the simulation left no results" in log:
        return "no end"
    lines = [line.strip() for line in log.splitlines() if "Error" in line or "Timeout" in line]
    return (lines or ["failed"])[-1][-120:]


def _on_axi(module: str) -> Callable[[], wiring.Component]:
    return lambda: importlib.import_module(module).design(CONFIG)


def _fill():
    from axi import OnAxi

    return OnAxi(CONFIG, dma_read.Fill(CONFIG), read="client")


BENCHES = {
    bench.block: bench
    for bench in (
        BlockBench("Array", "test_array", lambda: Array(CONFIG)),
        BlockBench("Compute", "test_compute", lambda: compute.Compute(CONFIG)),
        BlockBench("Csr", "test_csr", lambda: csr.Csr(CONFIG)),
        BlockBench("Drain", "test_drain", lambda: drain.Drain(CONFIG)),
        BlockBench("Fill", "test_dma_read", _fill),
        BlockBench("Sequencer", "test_sequencer", lambda: sequencer.Sequencer(CONFIG)),
        BlockBench("Store", "test_dma_write", _on_axi("test_dma_write")),
        BlockBench("Update", "test_update", _on_axi("test_update")),
    )
}
"""By the block's module; each is seeded."""

AROUND = {"Array": "Compute"}
"""Blocks within blocks."""


def benches(mutant: Mutant) -> list[BlockBench]:
    """The benches that a mutant is in, the smallest first; none if it is only in the accelerator."""
    found, block = [], mutant.module.partition(".")[0]
    while block in BENCHES:
        found.append(BENCHES[block])
        block = AROUND.get(block, "")
    return found


def names(mutant: Mutant, order: Sequence[str] = ORDER) -> list[str]:
    """Names of the benches that a mutant is run against, in order: those of ``benches``, "top"."""
    kinds = {"block": [bench.block for bench in benches(mutant)], "top": ["top"]}
    return [name for kind in order for name in kinds[kind]]
