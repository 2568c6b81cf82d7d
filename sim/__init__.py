"""Simulation: Verilator model, native driver loop with a DRAM model, waveforms."""
