"""The microcoded processor that runs the tile loops of compute commands."""
