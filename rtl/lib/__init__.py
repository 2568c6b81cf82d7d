"""Building blocks that every other folder of rtl/ uses: streams, memories, arithmetic, rounding."""
