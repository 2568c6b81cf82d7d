"""Transfers between DRAM and the scratchpads: bursts, segments, write regions."""
