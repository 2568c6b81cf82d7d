"""Building blocks that know nothing of the accelerator's work, and the signatures that its blocks share.

- interfaces: layouts and signatures between blocks; token: counting tokens between engines
- skid, register_slice, block_queue, pair_queue, room_queue, standing_queue: registers and queues in streams; gearbox:
  beats to groups and back
- block_memory, table: memories; odometer: nested counters that make addresses
- multiplier, product, divide, square_root, requantise, bit_length, maximum: arithmetic; hash: random numbers
- delay, multicycle, clock_gate: helpers for pipelines and clocks
"""
