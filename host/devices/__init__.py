"""Devices that run a program: the golden model, the simulated RTL, a board."""
