"""From generated hardware to area, clock and power, with open tools."""
