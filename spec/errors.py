"""Error codes of the accelerator, as the ERROR register shows them."""

from enum import IntEnum

__all__ = ["ErrorCode"]


class ErrorCode(IntEnum):
    """Reason why the accelerator stopped; 0 while it hasn't."""

    NONE = 0
    BAD_OPCODE = 1
    """Unknown opcode, or a compute command's unknown c_mode."""
    NO_HEADER = 2
    """The program doesn't start with HEADER."""
    CONFIG_MISMATCH = 3
    """The program was assembled for another configuration or version."""
    BAD_GEOMETRY = 4
    """A shape field is 0, padding reaches a kernel's size, the output doesn't fit the input, a tensor has 2^30 bytes
    or more, or an operand can't hold the number of each of a MAXPOOL's taps."""
    BAD_TILE = 5
    """A tile size is 0."""
    A_OVERFLOW = 6
    """A tile doesn't fit half the A scratchpad."""
    B_OVERFLOW = 7
    """A tile doesn't fit half the B scratchpad."""
    C_OVERFLOW = 8
    """A tile doesn't fit half the C scratchpad."""
    ACC_OVERFLOW = 9
    """A tile doesn't fit half the accumulator, or a reduction or an average is of too many for its width."""
    BIAS_OVERFLOW = 10
    """More output channels in a tile than the bias memory holds."""
    BAD_TENSOR = 11
    """A tensor number, or COMMIT's out_id, is not below n_tensors, or a hyper-parameter index not below n_hyper - 2."""
    WRITE_REGION = 12
    """A write would leave the allowed write regions; it was not made."""
    READ_FAULT = 13
    """The memory answered a read with SLVERR or DECERR."""
    WRITE_FAULT = 14
    """The memory answered a write with SLVERR or DECERR."""
    BAD_WAIT = 15
    """A command waits for more commands than came before it."""
    BAD_ADDRESS = 16
    """An address isn't a multiple of the operand's size, or an UPDATE's not one of the port's beat."""
