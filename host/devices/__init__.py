"""Devices: accelerators, real or not, that run a program with the same bits, and an estimator of their time.

A :class:`.device.Device` is an accelerator with its memory, as the host sees it: arrays in and out, tables and
settings, start, wait, resume, counters. There are four:

- :class:`.golden.GoldenDevice` computes with the golden model, at once and without a notion of cycles,
- :class:`.simulated.SimDevice` runs the generated Verilog in a simulator,
- :class:`.estimator.EstimatorDevice` has no data, and only says how long commands take and what they move,
- :class:`.board.BoardDevice` speaks to an FPGA over a serial line (:mod:`.link`, :mod:`.frames`, :mod:`.port`).
"""
