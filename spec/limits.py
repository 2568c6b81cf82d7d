"""Limits that follow from a configuration: banks, the longest sums, the most elements of a tile."""

from .norm import MAX_VALUES
from .numerics import CONSTANT_MAX, SHIFT_MIN, operand_max

__all__ = ["Limits"]


class Limits:
    """Limits that follow from an accelerator's widths and depths; a base class of :class:`.config.Config`."""

    rows: int
    cols: int
    port_width: int
    epilogue_lanes: int
    predictor_rows: int
    a_depth: int
    b_depth: int
    c_depth: int
    operand_width: int
    acc_width: int
    output_stationary: bool

    @property
    def pools(self) -> bool:
        """True if the core has a pool unit: it has unless its array is only the predictor's."""
        return self.predictor_rows > 0

    @property
    def banks(self) -> int:
        """Banks of a scratchpad: the power of two that serves array side, output side and port."""
        widest = max(self.rows, self.cols, self.port_width // self.operand_width)
        return 1 << (widest - 1).bit_length()

    @property
    def vector_lanes(self) -> int:
        """Operands of a vector on its way to the array: a row's, or as many as a scratchpad gives in a cycle."""
        return self.banks if self.output_stationary else self.rows

    @property
    def result_lanes(self) -> int:
        """Results of the widest vector: one from the array or the pool unit."""
        return max(self.rows, self.cols) if self.pools else self.cols

    @property
    def epilogue_width(self) -> int:
        """Lanes that the epilogue has."""
        return self.epilogue_lanes or self.result_lanes

    def folds(self, results):
        """Cycles that the epilogue takes for a vector of ``results`` lanes (an integer or a numpy array)."""
        return -(-results // self.epilogue_width)

    @property
    def max_values(self) -> int:
        """Most values of a channel in batch norm."""
        return min(MAX_VALUES, self.max_reduction)

    @property
    def max_reduction(self) -> int:
        """Longest sum that can't overflow an accumulator: n * operand_max^2 < 2^(acc_width-1)."""
        return ((1 << (self.acc_width - 1)) - 1) // operand_max(self.operand_width) ** 2

    @property
    def bias_room(self) -> int:
        """Places by which a bias is shifted to the left at most in a dry FORWARD; the accumulator has them."""
        return min(31, self.acc_width - self.operand_width)

    @property
    def bias_gradient_room(self) -> int:
        """Places by which a bias gradient is shifted to the left at most in a dry BACKWARD_WEIGHT."""
        return min(self.operand_width, -SHIFT_MIN)

    @property
    def max_average_taps(self) -> int:
        """Most taps of an AVGPOOL's window: constant * n * operand_max < 2^(acc_width-1) for every constant."""
        return ((1 << (self.acc_width - 1)) - 1) // (CONSTANT_MAX * operand_max(self.operand_width))

    @property
    def max_index(self) -> int:
        """Most taps of a MAXPOOL's window: an operand holds the number of each, counted from 1."""
        return operand_max(self.operand_width)

    @property
    def kept_words(self) -> int:
        """Vectors of sums that the pool unit keeps from tile to tile, a memory block's depth."""
        return 512

    @property
    def tap_rows(self) -> int:
        """Rows of a depthwise kernel that the pool unit holds, the depth of a small memory of an FPGA."""
        return 16

    @property
    def bias_words(self) -> int:
        """Words in half of the bias memory: an array that is only the predictor's has few columns."""
        return 64 if self.pools else 128

    @property
    def bias_elements(self) -> int:
        """Most biases of a tile of the array: ``cols`` a word. (DEPTHWISE has ``rows`` a word.)"""
        return self.bias_words * self.cols

    @property
    def a_elements(self) -> int:
        return self.a_depth * self.banks

    @property
    def b_elements(self) -> int:
        return self.b_depth * self.banks

    @property
    def c_elements(self) -> int:
        return self.c_depth * self.banks
