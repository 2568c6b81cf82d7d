"""Batch norm: its unit in the compute engine.

- norm: the unit; scale: new values, by factors of their channels
- tables: constants of groups of channels; table_unit: those of a few lanes, one channel after the other
- channel_constants: constants and running statistics of a channel, from its sums; forward_steps, backward_steps: its
  states; layouts: its numbers; serial_arithmetic: its multiplier, shifter and adder; serial_divide: its divider
"""
