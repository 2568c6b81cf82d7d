"""The way from the accumulator to the output scratchpad: epilogue, bias, reorganise."""
