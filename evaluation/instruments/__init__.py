"""Instruments that the benches share: single commands, batches, synthesis, energy, result files."""
