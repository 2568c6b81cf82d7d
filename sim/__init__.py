"""Simulation: Verilator model, native driver loop with a DRAM model, waveforms."""

from .build import BuildError
from .native_types import DECERR, IDEAL, SLVERR, DramTotals, Fault
from .simulation import Simulation, SimulationError

__all__ = ["DECERR", "IDEAL", "SLVERR", "BuildError", "DramTotals", "Fault", "Simulation", "SimulationError"]
