"""The memory port and the on-chip memories. Bursts of all blocks enter, and leave by one AXI4 master; operands and
results wait in scratchpads.

- arbiters: share the port between blocks; narrow: clients narrower than the port; axi, axi_share: the port, and a
  second master on it
- scratchpad: pads A, B and C, banked, with rotated lanes
- predictor_memory, predictor_window, banked_memory: block RAM that serves the predictor's addresses
"""
