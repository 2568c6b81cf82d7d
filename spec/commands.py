"""The command layout: opcodes, phases and fields of the fixed-size commands a program is made of.

A program is an array of commands in DRAM, ``COMMAND_WORDS`` 32-bit little-endian words each. The
geometry fields of a layer always describe its *forward* direction, whatever the opcode.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag

from .layout import Field, pack, unpack

__all__ = [
    "COMMAND_BYTES", "COMMAND_WORDS", "FIELDS", "Adam", "CMode", "Command", "Opcode", "Phase", "Source",
    "command_field",
]  # fmt: skip

COMMAND_WORDS = 32
COMMAND_BYTES = 4 * COMMAND_WORDS


class Opcode(IntEnum):
    """Kinds of commands. ``X``, ``Y``, ``W`` are a layer's input, output and weights."""

    HEADER = 0
    """First command of a program: names the configuration it was assembled for."""
    FORWARD = 1
    """Y = X conv W: a = X, b = W (with bias in each filter's last element), out = Y."""
    BACKWARD_DATA = 2
    """dX = dY conv-transposed W: a = dY, b = W, out = dX."""
    BACKWARD_WEIGHT = 3
    """dW (and bias gradient in each filter's last element): a = X, b = dY, out = dW."""
    MAXPOOL = 4
    """Y = window maximum; idx receives 1 + the winning tap's index: a = X, b = idx, out = Y."""
    MAXPOOL_BACKWARD = 5
    """dX = sum of the dY whose idx names this element: a = dY, b = idx, out = dX."""
    DEPTHWISE = 6
    """Y = X conv W, each channel with a filter of its own: a = X, b = W (with bias as FORWARD's), out = Y."""
    DEPTHWISE_BACKWARD_DATA = 7
    """dX of a DEPTHWISE: a = dY, b = W, out = dX."""
    DEPTHWISE_BACKWARD_WEIGHT = 8
    """dW of a DEPTHWISE: a = X, b = dY, out = dW."""
    NORM_SUMS = 9
    """Sums of each channel, of b and of a * b: a = X, b = X (or in the backward pass dY), out = sums. Tables of batch
    norm are as spec/norm.py has them."""
    NORM_CONSTANTS = 10
    """Constants of batch norm's forward pass: e = sums, b = gamma and beta, out = constants; c = running statistics,
    updated in place. a_id is that of X."""
    NORM_APPLY = 11
    """Y = each channel's A * x + B: a = X, e = constants, out = Y. b_id is that of gamma and beta."""
    NORM_RUNNING = 12
    """As NORM_CONSTANTS, but from the running statistics: b = gamma and beta, c = running statistics, out = constants.
    a_id is that of X."""
    NORM_BACKWARD = 13
    """Gradients of gamma and beta, and constants of the backward pass: e = sums, b = constants of the forward pass,
    out = the gradients, then the constants. a_id is that of dY, b_id that of X."""
    NORM_APPLY_BACKWARD = 14
    """dX = each channel's P * g + Q * x + R: a = dY, b = X, e = constants, out = dX."""
    AVGPOOL = 15
    """Y = window sum times the constant: a = X, out = Y. With a 1x1 window: copy, scale, add. With
    ``momentum``, here the probability of dropout, sums drawn at random (golden/dropout.py) become 0."""
    AVGPOOL_BACKWARD = 16
    """dX = sum of the covering windows' dY times the constant: a = dY, out = dX."""
    REORGANISE = 17
    """The sums that the last FORWARD with ``reorganise`` made, times the constant, as [n, 1, 1, c] with n = h = w = 1
    and c = four a filter: out = the result. a_id is that FORWARD's out_id."""
    UPDATE = 18
    """SGD with momentum and weight decay over ``count`` weights: a = dW, b = W (operand copy),
    c = low halves of the master weights, out = momentum. With ``quality``, d = errors of the prediction."""
    ADAM = 19
    """Adam over ``count`` weights: a = dW, b = W (operand copy), c = low halves of the master weights,
    out = first moments, d = second moments."""
    COMMIT = 20
    """Wait for everything before it, then adjust all exponents from the batch's maxima."""
    HOST = 21
    """Wait for everything before it, raise the interrupt, go on at the next doorbell."""
    END = 22
    """Wait for everything before it, count a batch; start over while batches remain, else stop."""


class Phase(IntFlag):
    """Bits of a command's phase mask; it is executed only in phases whose bit is set."""

    WARMUP = 1
    BP = 2
    GP = 4
    EVAL = 8
    TRAIN = 7
    ALL = 15


class CMode(IntEnum):
    """Uses of the C operand in the epilogue, a tensor shaped like the output."""

    NONE = 0
    MASK = 1
    """Zero where C <= 0: the backward of a ReLU whose output is C."""
    ADD = 2
    """Add C: residual connections and gradient fan-in."""
    SUB = 3
    """Subtract C: a prediction's error."""
    ADD_MASK = 4
    """Add C, then zero where D <= 0 (or C is the least value, -2^(W-1)): a gradient's fan-in after a ReLU whose output
    is D, shaped like the result too."""


class Source(IntEnum):
    """Sources of an UPDATE's gradient."""

    GIVEN = 0
    """Operand A. A mantissa of the least value (-0x8000) stands for none: the weight and its momentum stay."""
    ZERO = 1
    """It is zero everywhere: momentum coasts, weights decay."""
    RANDOM = 2
    """Operand A with random signs (golden/random_signs.py): of a prediction's norm, without what it says."""


class Adam(IntEnum):
    """Hyper-parameters by their place from ADAM's index ``hyper`` on. All but RATE and EPSILON have exponent -16."""

    RATE = 0
    BETA1 = 1
    REST1 = 2
    """1 - BETA1."""
    BETA2 = 3
    REST2 = 4
    """1 - BETA2."""
    EPSILON = 5
    """Least root of a second moment, in its LSBs (the exponent is ignored)."""


FIELDS = (
    Field("opcode", 0, 0, 8, "see Opcode"),
    Field("phase_mask", 0, 8, 8, "phases in which the command is executed (see Phase)"),
    Field("layer", 0, 16, 16, "layer number, for traces, messages, random signs and dropout only"),
    Field("relu", 1, 0, 1, "epilogue: negative results become 0"),
    Field("bias", 1, 3, 1, "FORWARD: add the bias; BACKWARD_WEIGHT: also make the bias gradient"),
    Field("swap", 1, 4, 1, "GEMM: operand A is stationary and B streams, instead of B and A"),
    Field("ring", 1, 5, 1, "operand A is the current entry of the input ring; a_addr is an offset"),
    Field("track", 1, 6, 1, "the result's maximum takes part in the next commit of out_id"),
    Field("out_outer", 1, 7, 1, "tile loops: output channels outside images and rows"),
    Field("reorganise", 1, 8, 1, "FORWARD: also sum the results up for REORGANISE"),
    Field("quality", 1, 9, 1, "UPDATE: also sum up errors and gradients; the layer's scale takes part in the commit"),
    Field("source", 1, 10, 2, "UPDATE: see Source"),
    Field("keep", 1, 13, 1, "UPDATE without quality: a step without momentum, which is neither read nor written"),
    Field("predictor", 1, 12, 1, "GEMM of the predictor: on its own array, where there is one"),
    Field("c_mode", 1, 16, 3, "epilogue: use of the C operand (see CMode)"),
    Field("wait_main", 2, 0, 16, "compute commands of this batch (executed, not the predictor's) to complete first"),
    Field("wait_update", 2, 16, 16, "UPDATE and ADAM commands of this batch (executed ones) to complete first"),
    Field("a_addr", 3, 0, 32, "byte address of operand A"),
    Field("b_addr", 4, 0, 32, "byte address of operand B"),
    Field("c_addr", 5, 0, 32, "byte address of operand C"),
    Field("out_addr", 6, 0, 32, "byte address of the result"),
    Field("a_id", 7, 0, 16, "tensor (exponent) number of operand A"),
    Field("b_id", 7, 16, 16, "tensor number of operand B"),
    Field("n", 8, 0, 16, "images in the batch"),
    Field("c", 8, 16, 16, "input channels"),
    Field("h", 9, 0, 16, "input height"),
    Field("w", 9, 16, 16, "input width"),
    Field("oh", 10, 0, 16, "output height"),
    Field("ow", 10, 16, 16, "output width"),
    Field("q", 11, 0, 16, "output channels (pools: equal to c)"),
    Field("r", 11, 16, 8, "kernel height"),
    Field("s", 11, 24, 8, "kernel width"),
    Field("stride", 12, 0, 8, "stride, both directions"),
    Field("pad_y", 12, 8, 8, "zero rows above the input (and below, as far as oh needs them)"),
    Field("pad_x", 12, 16, 8, "zero columns left of the input (and right, as far as ow needs them)"),
    Field("nb", 13, 0, 16, "tile: images"),
    Field("yb", 13, 16, 16, "tile: rows of Y (FORWARD, BACKWARD_WEIGHT, pools) or of dX (others backward)"),
    Field("cb", 14, 0, 16, "tile: input channels"),
    Field("qb", 14, 16, 16, "tile: output channels"),
    Field(
        "const_mantissa", 15, 0, 16, "AVGPOOL: unsigned constant factor. NORM_CONSTANTS, NORM_RUNNING: epsilon * n^2"
    ),
    Field("const_exponent", 15, 16, 8, "the constant's exponent", signed=True),
    Field("count", 16, 0, 32, "UPDATE, ADAM: weights in the tensor, biases included"),
    Field("hyper", 17, 0, 8, "UPDATE: table index of the learning rate, then momentum, weight decay. ADAM: see Adam"),
    Field("momentum", 17, 16, 16, "in 2^-16: NORM_CONSTANTS: momentum of statistics; AVGPOOL: probability of dropout"),
    Field("d_addr", 20, 0, 32, "byte address of operand D"),
    Field("x_pitch", 25, 0, 24, "operands from a pixel of X (in any role) to the next one; 0: c"),
    Field(
        "y_pitch",
        21,
        0,
        24,
        "compute: operands from a pixel of Y (in any role, and of its index) to the next one; 0: q. UPDATE, with"
        " Config.streamed_predictions: weights of a filter, whose last has no gradient; 0: marks alone say so",
    ),
    Field("c_pitch", 26, 0, 24, "operands from a pixel of operand C to the next one; 0: as the result"),
    Field("bound_mantissa", 27, 0, 16, "epilogue: mantissa of the bound of results (MASK: of C); 0: none"),
    Field("bound_exponent", 27, 16, 8, "epilogue: exponent of the bound", signed=True),
    Field("slope", 28, 0, 16, "epilogue: factor, in 2^-16, of results that relu or MASK would make 0"),
    Field(
        "d_pitch",
        29,
        0,
        24,
        "compute: operands from a pixel of operand D to the next one; 0: as the result. GEMM without"
        " D, with Config.matmul: operands from a filter to the next one, without biases; 0: as a layer's filters",
    ),
    Field("wait_predictor", 22, 0, 16, "predictor's commands of this batch (executed ones) to complete first"),
    Field("c_id", 23, 0, 16, "tensor number of operand C"),
    Field("out_id", 23, 16, 16, "tensor number of the result. COMMIT: tensors that it leaves out, the last ones"),
    Field("scale_id", 24, 0, 16, "number of the tensor whose exponent is the layer's scale; 0: none (scale 1)"),
    Field("d_id", 24, 16, 16, "tensor number of operand D"),
    Field("e_addr", 30, 0, 32, "byte address of operand E"),
    Field("unbiased_mantissa", 31, 0, 16, "NORM_CONSTANTS: momentum / (n * (n - 1)), unsigned"),
    Field("unbiased_exponent", 31, 16, 8, "its exponent", signed=True),
    Field("config_hash", 18, 0, 32, "HEADER: Config.config_hash"),
    Field("version", 19, 0, 32, "HEADER: adagp.spec.config.VERSION"),
)

_BY_NAME = {field.name: field for field in FIELDS}


def command_field(name: str) -> Field:
    """The field called ``name``; raises KeyError."""
    return _BY_NAME[name]


@dataclass(frozen=True)
class Command:
    """One command by field name; fields that don't matter to the opcode are 0."""

    opcode: Opcode
    fields: dict

    def __getattr__(self, name):
        if name in _BY_NAME:
            return self.fields.get(name, 0)
        raise AttributeError(name)

    def encode(self) -> list[int]:
        """COMMAND_WORDS words; raises FieldError for unknown fields or values that don't fit."""
        return pack(FIELDS, {"opcode": int(self.opcode), **self.fields}, COMMAND_WORDS)

    @classmethod
    def decode(cls, words: Sequence[int]) -> "Command":
        """Inverse of :meth:`encode`; raises ValueError for an unknown opcode."""
        values = unpack(FIELDS, words)
        return cls(Opcode(values.pop("opcode")), values)
