"""The memory port and the on-chip memories: AXI arbiters, scratchpads, the predictor memory."""
