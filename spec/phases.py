"""What a batch can be, by index, as registers, counters and events number it; spec/commands.py has the bits."""

__all__ = ["BP", "EVALUATION", "GP", "PHASE_NAMES", "PHASE_TITLES", "WARMUP"]

WARMUP, BP, GP, EVALUATION = range(4)

PHASE_NAMES = ("warmup", "bp", "gp", "evaluation")
"""In results and logs."""
PHASE_TITLES = ("warm-up", "BP", "GP", "evaluation")
"""In what people look at."""
