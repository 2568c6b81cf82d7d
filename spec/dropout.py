"""Numbers of dropout: elements that share a hash, and the bits of what it depends on."""

__all__ = ["BLOCK", "PIXEL_BITS", "PROBABILITY_BITS"]

BLOCK = 8
"""Neighbouring channels of a pixel that share a hash of 64 bits."""
PIXEL_BITS = 25
"""Bits of a pixel's number: masks repeat after as many pixels."""
PROBABILITY_BITS = 16
"""Bits of a probability, and of the number that is drawn for each element."""
