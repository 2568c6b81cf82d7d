"""What the paper (ADA-GP, MICRO 2023) says, each number with its place in it."""

__all__ = ["DRAM_ENERGY_SAVING", "EPOCHS", "PHASES", "SPEEDUP", "WARMUP_EPOCHS"]

EPOCHS = 90
"""Of training (section 6.1.2, figure 15)."""
WARMUP_EPOCHS = 10
"""Section 1; sections 3.1 and 3.2 call it L."""
PHASES = ((4, 4, 1), (4, 3, 1), (4, 2, 1), (1, 1, 1))
"""Epochs, GP batches, BP batches; the last for as long as it goes on (section 3.5, its end)."""
SPEEDUP = 1.47
"""Mean over networks and data sets (abstract)."""
DRAM_ENERGY_SAVING = 0.34
"""Mean, of memory accesses (section 6.6.2)."""
