"""The hardware: one component per file, in Amaranth."""
