"""The contract as data: configuration, command layout, register map, tile program, limits.

Nothing here imports amaranth or torch, so that hardware, golden model and host can share it.
"""
