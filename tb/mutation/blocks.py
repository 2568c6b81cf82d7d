"""The blocks' benches: those of tb/cocotb that run on one block, on its netlist with mutants."""

import importlib
from collections.abc import Callable
from pathlib import Path

from adagp.rtl.compute import compute
from adagp.rtl.compute.array import Array
from adagp.rtl.control import csr
from adagp.rtl.dma import fill
from adagp.rtl.drain import drain
from adagp.rtl.sequencer import sequencer
from amaranth.lib import wiring
from unit_bench import unit_path

from .block_bench import TB, BlockBench
from .choice import Mutant
from .observations import CONFIG
from .sources import sources

__all__ = ["BENCHES", "bench_sources", "benches"]


def _on_axi(module: str) -> Callable[[], wiring.Component]:
    return lambda: importlib.import_module(module).design(CONFIG)


def _fill():
    from axi import OnAxi

    return OnAxi(CONFIG, fill.Fill(CONFIG), read="client")


UNIT_BENCHES = "test_units"
"""The module of tb/cocotb that runs benches of tb/unit."""
UNITS = importlib.import_module(UNIT_BENCHES).UNITS

BENCHES = {
    bench.block: bench
    for bench in (
        *(BlockBench(block, UNIT_BENCHES, unit.design) for block, unit in UNITS.items()),
        BlockBench("Array", "test_array", lambda: Array(CONFIG)),
        BlockBench("Compute", "test_compute", lambda: compute.Compute(CONFIG)),
        BlockBench("Csr", "test_csr", lambda: csr.Csr(CONFIG)),
        BlockBench("Drain", "test_drain", lambda: drain.Drain(CONFIG)),
        BlockBench("Fill", "test_fill", _fill),
        BlockBench("Sequencer", "test_sequencer", lambda: sequencer.Sequencer(CONFIG)),
        BlockBench("Store", "test_store", _on_axi("test_store")),
        BlockBench("Update", "test_update", _on_axi("test_update")),
    )
}
"""By the block's module; each is seeded."""

AROUND = {"Array": "Compute", "AdamScale": "AdamLane", "ChannelConstants": "Norm", "Cosine": "Gate"}
"""Blocks within blocks, or beside others that the bench is named after."""


def benches(mutant: Mutant) -> list[BlockBench]:
    """The benches that a mutant is in, the smallest first; none if it is only in the accelerator."""
    found, block = [], mutant.module.partition(".")[0]
    while block:
        found += [BENCHES[block]] if block in BENCHES else []
        block = AROUND.get(block, "")
    return found


def bench_sources(bench: BlockBench) -> str:
    """Digest of a bench's sources; what makes Verilog isn't among them, as what is simulated is a netlist."""
    roots = [TB / "cocotb" / f"{bench.module}.py", Path(__file__).with_name("block_bench.py")]
    if bench.module == UNIT_BENCHES:
        roots.append(unit_path(UNITS[bench.block].module))
    return sources(roots, but=["gen"])
