"""A board's LiteDRAM core with LiteDRAM's model of PHY and memory in place of the real ones, as a module to simulate.

The model has the real PHY's latencies and ratio of clocks, and the real part's timing, which it checks; fewer rows.
"""

import copy
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import litedram.gen
from adagp.boards.board import Board
from adagp.boards.dram import Dram
from adagp.boards.litedram_core import MODULE, controller_of, make_core, settings, tidy
from adagp.boards.memory.controller import DramController
from adagp.gen.verilog import to_verilog
from adagp.rtl.memory.axi import AxiMaster
from adagp.spec.config import Config
from amaranth import ClockSignal, Shape
from litedram.phy.model import SDRAM_VERBOSE_STD, SDRAMPHYModel
from litex.build.sim import SimPlatform

__all__ = ["ROWS", "emit_simulated"]

ROWS = 2048
"""The fewest with which address bit 10 is there, by which all banks are closed."""


class _Model(SDRAMPHYModel):
    """LiteDRAM's model, which checks the memory's timing; its data are valid in all phases, not in the first alone."""

    def __init__(self, **arguments):
        super().__init__(**arguments, verbosity=SDRAM_VERBOSE_STD)
        first, *others = self.dfi.phases
        self.comb += [phase.rddata_valid.eq(first.rddata_valid) for phase in others]


def _small(part, real_rate):
    """A memory with ``ROWS`` rows a bank, at the real PHY's ratio of clocks."""

    class Small(part):
        nrows = ROWS

        def __init__(self, clk_freq, rate):
            super().__init__(clk_freq, real_rate)

    return Small


def _model_settings(phy, **_):
    """The real PHY's, whose latencies are the board's, of a model that needs no calibration."""
    model = copy.copy(phy)
    model.phytype, model.read_leveling = "SDRAMPHYModel", False
    for name in ("rdphase", "wrphase"):
        value = getattr(phy, name)
        setattr(model, name, getattr(getattr(value, "reset", None), "value", value))
    return model


def emit_simulated(board: Board, config: Config, clock_hz: int, folder: Path) -> tuple[Path, DramController]:
    """Write the memory behind a port as ``config`` has it, as module ``adagp``; returns its path and description."""
    signature = AxiMaster(config)
    id_bits = Shape.cast(signature.members["arid"].shape).width
    real = settings(board.memory, id_bits, clock_hz, board.input_hz)
    phy = make_core(dict(real)).ddrphy.settings
    simulated = {**real, "sdram_module": _small(real["sdram_module"], f"1:{board.memory.rate}")}
    source = ModuleType("litex.tools.litex_sim")  # LiteX's own needs packages of other cores
    source.get_sdram_phy_settings = partial(_model_settings, phy)
    with (
        patch.dict(sys.modules, {source.__name__: source}),
        patch.object(litedram.gen, "SDRAMPHYModel", _Model),
    ):
        platform = SimPlatform("", io=[])
        core = make_core(simulated, platform)
        fragment = core.get_fragment()
    platform.finalize(fragment)
    path = folder / "simulated.v"
    controller = controller_of(core, simulated)
    around = to_verilog(Dram(signature, board.memory.width, controller.memory_bytes, {"i_clk": ClockSignal()}))
    path.write_text(around + tidy(str(platform.get_verilog(fragment, name=MODULE))))
    return path, controller
