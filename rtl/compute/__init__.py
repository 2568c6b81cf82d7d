"""The compute engine. COMPUTE descriptors, and operands from pads A and B enter; psums (read by drain) and pooled
vectors leave.

- compute: the engine, which joins the others; im2col: an operand's vectors from its scratchpad, as convolutions need
  them; lane_offsets: walks through a tile, and addresses of a vector's lanes
- feeder: pairs stationary tiles with passes of stream vectors; array, pe: the systolic array and its element
- dataflow: chooses the array and joins it to the accumulator; sum_array, sum_pe: the array whose sums stay; sum_feeder:
  feeds it; transposer: makes vectors of outer positions for that; block_im2col: walks operands block by block of sums
- accumulator: adds up the array's psums; pool: reduces windows, for pooling, depthwise convolutions and their
  gradients; pool_job: its jobs; depthwise: windows side by side; dropout: draws the results that become 0
"""
