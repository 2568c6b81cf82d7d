"""A design to synthesise: an accelerator, or one of its blocks alone."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from amaranth.lib import wiring

from ..gen.cache import digest, entry
from ..gen.generator_sources import generator_sources
from ..gen.verilog import GATED, Flat, Vendor, to_rtlil
from ..rtl.compute.accumulator import Accumulator
from ..rtl.compute.array import Array
from ..rtl.compute.compute import Compute
from ..rtl.compute.pe import PE
from ..rtl.compute.sum_array import SumArray
from ..rtl.compute.sum_pe import SumPE
from ..rtl.control.control import Control
from ..rtl.core import Core
from ..rtl.dma.fill import Fill
from ..rtl.dma.store import Store
from ..rtl.drain.drain import Drain
from ..rtl.memory.predictor_memory import PredictorMemory
from ..rtl.memory.scratchpad import PingPong, Scratchpad
from ..rtl.sequencer.sequencer import Sequencer
from ..rtl.top import Top
from ..rtl.update.update import Update
from ..spec.config import Config
from .errors import TargetError
from .harness import DESIGN, PinHarness

__all__ = ["BLOCKS", "PREFIX", "WHOLE", "Design"]

WHOLE = "top"
"""The block that is all of an accelerator."""

BLOCKS: dict[str, Callable[[Config], wiring.Component]] = {
    WHOLE: Top, "control": Control, "core": Core, "sequencer": Sequencer, "fill": Fill, "store": Store,
    "compute": Compute, "array": lambda config: (SumArray if config.output_stationary else Array)(config),
    "pe": lambda config: (SumPE if config.output_stationary else PE)(config),
    "accumulator": Accumulator, "drain": Drain, "update": Update,
    "pad_a": lambda config: Scratchpad(config, 2 * config.a_depth),
    "pad_b": lambda config: Scratchpad(config, 2 * config.b_depth),
    "pad_c": lambda config: PingPong(config, config.c_depth),
    "predictor": lambda config: Core(config.predictor_core), "predictor_memory": PredictorMemory,
}  # fmt: skip
"""Blocks that can be synthesised alone."""

PLACES = {
    "sequencer": "core.sequencer", "fill": "core.fill", "store": "core.store", "compute": "core.compute",
    "array": "core.compute.array", "pe": "core.compute.array.pe_r0_c0", "accumulator": "core.compute.accumulator",
    "drain": "core.drain", "pad_a": "core.pad_a", "pad_b": "core.pad_b", "pad_c": "core.pad_c",
}  # fmt: skip
"""Paths of the blocks that don't stand right below the accelerator's top."""

HERE = Path(__file__).parent
PREFIX = "accelerator"
"""Name that :class:`~adagp.gen.verilog.Flat` gives to the design inside it."""


_MODULE = re.compile(r"^module .*?^end$", re.MULTILINE | re.DOTALL)
_UNCHECKED = re.compile(r"^ +attribute \\no_rw_check 1\n(?: +attribute .*\n)* +memory .* (\\\S+)$", re.MULTILINE)
_READ = re.compile(
    r'(MEMID "\\(\\\S+)"\n(?: +parameter .*\n)*? +parameter \\COLLISION_X_MASK )(\d+)\'0+$', re.MULTILINE
)


_ELEMENT = re.compile(r"(?<=\S)\[(\d+)\]")


def _without_brackets(rtlil):
    """RTLIL with ``a:3`` for ``a[3]`` in names of wires.

    Amaranth makes such a wire for each element of an array ``a``. Yosys' abc9 takes it for a bit of ``a``, and stops at
    an assertion if the two widths differ. (Slices of a wire follow a space.)
    """
    return _ELEMENT.sub(r":\1", rtlil)


def _without_collisions(rtlil):
    """RTLIL in which ``no_rw_check`` of a memory also holds at its read ports.

    Yosys applies the attribute only where it makes clocked read ports from Verilog. Amaranth's read ports are clocked
    already and promise the old word, for which each block memory would need some forty registers.
    """

    def module(found):
        memories = set(_UNCHECKED.findall(found[0]))

        def port(read):
            return f"{read[1]}{read[3]}'{'1' * int(read[3])}" if read[2] in memories else read[0]

        return _READ.sub(port, found[0]) if memories else found[0]

    return _MODULE.sub(module, rtlil)


@dataclass(frozen=True)
class Design:
    """An accelerator of ``config``, or one ``block`` of it.

    Raises TargetError if ``block`` doesn't exist.
    """

    config: Config
    block: str = WHOLE

    def __post_init__(self):
        if self.block not in BLOCKS:
            raise TargetError(f"no block {self.block!r}; there are: {', '.join(BLOCKS)}")
        lacks = (self.block == "predictor" and self.config.n_cores < 2) or (
            self.block == "predictor_memory" and not self.config.predictor_on_chip
        )
        if lacks:
            raise TargetError(f"variant {self.config.variant} has no block {self.block!r}")

    @property
    def name(self) -> str:
        """For files and messages."""
        whole = f"{self.config.name}-{self.config.variant}"
        return whole if self.block == WHOLE else f"{whole}-{self.block}"

    @property
    def place(self) -> str:
        """Path of the block in the accelerator."""
        return "" if self.block == WHOLE else PLACES.get(self.block, self.block)

    def scope(self, harness: bool) -> str:
        """The path of the block itself in its netlist."""
        return f"{DESIGN}.{PREFIX}" if harness else PREFIX

    def rtlil(self, family: str | None, harness: bool, gated: bool = False) -> Path:
        """Path of its RTLIL for parts of a family, with four pins if ``harness``; made now unless it is in the cache.

        The top is called ``adagp``. If ``gated``, idle blocks have clock gates, whose cell has no module there.
        """
        key = digest(
            json.dumps(self.config.to_dict(), sort_keys=True), self.block, family, harness, gated, version("amaranth"),
            generator_sources(), *((HERE / name).read_bytes() for name in ("design.py", "harness.py")),
        )  # fmt: skip
        with entry(f"rtlil-{self.name}-{key}.il") as (path, scratch):
            if scratch:
                component = Flat(BLOCKS[self.block](self.config))
                platform = GATED if gated else Vendor(family)
                text = to_rtlil(PinHarness(component) if harness else component, platform)
                (scratch / "out").write_text(_without_brackets(_without_collisions(text)))
                (scratch / "out").rename(path)
        return path
