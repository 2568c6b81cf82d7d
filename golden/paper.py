"""What the paper (ADA-GP, MICRO 2023) says, each number with its place in it."""

__all__ = ["DRAM_ENERGY_SAVING", "EPOCHS", "FPGA_RESOURCES", "PHASES", "SPEEDUP", "WARMUP_EPOCHS"]

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
FPGA_RESOURCES = {
    "baseline": {"lut": 472004, "ff": 31402, "ramb36": 1327, "ramb18": 514, "dsp48": 166},
    "low": {"lut": 489286, "ff": 31856, "ramb36": 1327, "ramb18": 514, "dsp48": 166},
    "efficient": {"lut": 493171, "ff": 31916, "ramb36": 2407, "ramb18": 514, "dsp48": 166},
    "max": {"lut": 494080, "ff": 37452, "ramb36": 2407, "ramb18": 514, "dsp48": 246},
}
"""Of 180 PEs on "the Virtex 7 FPGA board" (section 5.1; Table 4a). It isn't said which one; none of the family has as
many block RAMs as the last two."""
