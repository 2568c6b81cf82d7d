"""Batch norm: what is computed once for each channel. No command uses it yet.

- channel_constants: rows of constants and running statistics, from a channel's sums; forward_steps, backward_steps: its
  states; layouts: its numbers; serial_arithmetic: its multiplier, shifter and adder; serial_divide: its divider
- norm_sums: the sums of all channels
"""
