"""What the paper (ADA-GP, MICRO 2023) says, each number with its place in it."""

__all__ = [
    "ASIC_AREA", "ASIC_POWER", "DRAM_ENERGY_SAVING", "EPOCHS", "FPGA", "PES", "PHASES", "SPEEDUP", "WARMUP_EPOCHS",
]  # fmt: skip

PES = 180
"""Of the baseline's array (section 5.1)."""
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

FPGA = {
    "baseline": {"lut": 472_004, "ff": 31_402, "ramb36": 1_327, "ramb18": 514, "dsp": 166},
    "low": {"lut": 489_286, "ff": 31_856, "ramb36": 1_327, "ramb18": 514, "dsp": 166},
    "efficient": {"lut": 493_171, "ff": 31_916, "ramb36": 2_407, "ramb18": 514, "dsp": 166},
    "max": {"lut": 494_080, "ff": 37_452, "ramb36": 2_407, "ramb18": 514, "dsp": 246},
}
"""Resources on a Virtex-7 (table 4a)."""
ASIC_AREA = {"baseline": 2_982_691, "low": 3_035_954, "efficient": 3_062_890, "max": 3_231_136}
"""Total area (table 5a)."""
ASIC_POWER = {"baseline": 2.24e5, "low": 2.26e5, "efficient": 2.25e5, "max": 2.54e5}
"""Total, in microwatts (table 5b)."""
