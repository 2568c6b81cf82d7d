"""The compute engine. COMPUTE descriptors, and operands from pads A and B enter; psums (read by drain) and pooled
vectors leave.

- compute: the engine, which joins the others; im2col: an operand's vectors from its scratchpad, as convolutions need
  them
- feeder: pairs stationary tiles with passes of stream vectors; array, pe: the systolic array and its element
- accumulator: adds up the array's psums; pool: reduces windows, for pooling, depthwise convolutions and their
  gradients; pool_job: its jobs; depthwise: windows side by side; dropout: draws the results that become 0
"""
