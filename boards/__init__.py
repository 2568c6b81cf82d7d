"""Boards: one file each, with clocking and pins around the accelerator."""
