"""The PE array with its operand fetch, its accumulator, and the pooling unit."""
