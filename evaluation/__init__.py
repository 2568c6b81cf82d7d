"""Measurements: instruments, one bench for each file of results/, and the documents made of them."""
