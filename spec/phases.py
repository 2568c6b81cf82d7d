"""Phases of a batch by index, as registers, counters and events number it; spec/commands.py has the bits."""

__all__ = ["BP", "EVALUATION", "GP", "PHASE_NAMES", "PHASE_TITLES", "WARMUP"]

WARMUP, BP, GP, EVALUATION = range(4)

PHASE_NAMES = ("warmup", "bp", "gp", "evaluation")
"""Names in results and logs."""
PHASE_TITLES = ("warm-up", "BP", "GP", "evaluation")
"""Names for people: in plots and tables."""
