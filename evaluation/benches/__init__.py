"""Benches: one module for each file of results/."""
