"""Bring-up of a board's DDR3 memory by the host: initialisation, calibration, test."""
