"""Descriptors: what the sequencer sends to the engines, field by field.

Internal to the accelerator: never in DRAM. Strides and addresses of scratchpads count operands;
those of DRAM count bytes. ``command`` is the command's index in its program, for error reports; ``half``
the half of the C scratchpad and bias memory in use; the sequencer adds both. The engines are described in
``docs/architecture.md``.
"""

from dataclasses import dataclass
from enum import IntEnum

from ..numerics import BOUND_BITS, SLOPE_BITS

__all__ = ["COMPUTE", "DRAIN", "ENGINES", "FILL", "STORE", "Bits", "NormTask", "Target", "VectorMode"]


class Target(IntEnum):
    """Scratchpads that a FILL writes."""

    A = 0
    B = 1
    C = 2
    BIAS = 3


class VectorMode(IntEnum):
    """Kinds of COMPUTE: a GEMM on the array, or taps reduced by the pool unit."""

    GEMM = 0
    MAX = 1
    SUM = 2
    SELECT = 3
    """Sum of the A lanes whose B lane equals the tap's number, counted from n_taps down to 1."""
    DOT = 4
    """Sum of the products of A's and B's lanes, over all tiles from one with ``first`` to one with ``last``."""
    DIGITS = 5
    """DOT whose sums leave as vectors of their digits (see :mod:`adagp.spec.norm`)."""
    SCALE = 6
    """A's lanes times factors plus an offset, each lane's own: planes of constants in B."""
    TABLES = 7
    """Constants of channels, from planes in A."""


class NormTask(IntEnum):
    """Kinds of TABLES, by what they make."""

    BATCH = 0
    """Constants of the forward pass and running statistics, from a batch's sums."""
    RUNNING = 1
    """Constants of the forward pass, from running statistics."""
    BACKWARD = 2
    """Gradients and constants of the backward pass, from sums and constants of the forward pass."""


@dataclass(frozen=True)
class Bits:
    """A descriptor field of ``width`` bits."""

    name: str
    width: int
    signed: bool = False


def _many(stem, count, width, signed=False):
    return tuple(Bits(f"{stem}{i}", width, signed) for i in range(count))


FILL = (
    Bits("command", 16), Bits("target", 2), Bits("half", 1), Bits("open", 1), Bits("ready", 1),
    Bits("clear", 17), Bits("clear_min", 1), Bits("shift", 8, True),
    Bits("dram", 32), *_many("n", 3, 16), *_many("d", 3, 32, True),
    Bits("sp", 18, True), *_many("s", 3, 18, True), Bits("length", 20), Bits("step", 18, True), Bits("mark", 1),
    Bits("vector", 1),
)  # fmt: skip
"""for i0 < n0, i1 < n1, i2 < n2, e < length: pad[sp + i0*s0 + i1*s1 + i2*s2 + e*step] =
dram[dram + i0*d0 + i1*d1 + i2*d2 + e*operand_bytes]; first, ``clear`` operands from 0 on are set to
zero (to the least mantissa if clear_min). ``step`` is 1 modulo banks. With ``mark`` only operands <= 0 are written,
each as the mark of numerics.unpredicted. ``vector``: biases of DEPTHWISE, whose vectors have ``rows`` lanes."""

COMPUTE = (
    Bits("mode", 3), Bits("new_a", 1), Bits("new_b", 1), Bits("first", 1), Bits("last", 1),
    Bits("swap", 1), Bits("ones", 1), *_many("n", 6, 16), *_many("jump", 6, 18, True),
    *_many("k", 3, 16), *_many("kjump", 3, 18, True), Bits("n_k", 17),
    Bits("n_a", 17), Bits("n_b", 17), Bits("b_stride", 17), Bits("mantissa", 16),
    Bits("exponent", 11, True), Bits("task", 2), Bits("n_values", 25), Bits("epsilon_exponent", 8, True),
    Bits("momentum", 16), Bits("unbiased", 16), Bits("unbiased_exponent", 8, True),
    Bits("w_exponent", 8, True), Bits("x_exponent", 8, True), Bits("g_exponent", 8, True),
)  # fmt: skip
"""Odometers walk A's outer positions (n0 outermost .. n5, jump_i added when level i steps) and its
reduction (k0..k2); B's outer position q starts at q*b_stride and its reduction is contiguous.

DOT: for each group of ``rows`` of the n_k channels, n_b windows of n_a positions each. In B a position is b_stride
after the one before, and kjump0 (A has k0 = 1) leads from the last position of a window to the next window. ``ones``:
the last window reads A as all ones. DIGITS with ``swap``: A stands for B too.

DOT with ``task``, the 2 or 3 columns of windows that are ``mantissa`` (1 or 2) columns apart: A walks all n4 columns of
a row of windows, each once. Without ``n_values``, B has n_a taps, row by row, and A walks the windows' n5 rows in each
column. With ``n_values``, A's positions in a pass over all pixels, there is a pass for each row of the kernel, and with
``ones`` one more, in which A reads as all ones; B has n_b times n_a positions, one for each window of each pass. A pass
gives the sums of the row's ``task`` elements, that with ones a single one.

SUM with ``momentum``, the probability of dropout: the descriptor's pixels are numbered from ``n_values`` on, their n_b
channels from ``b_stride`` on, and ``unbiased`` is the layer's number.

SCALE: for each group of ``rows`` of the n_k channels n_a vectors of B, b_stride apart, and all outer positions of A.
Those of B are planes; with task BACKWARD, as many as A's follow them. Results have the exponent of their channel, and
go to exponent ``exponent``, counted from A's.

TABLES: for each group the outer positions of A are planes. ``task`` says what is made of them (see :class:`NormTask`);
``mantissa`` and the fields from ``n_values`` on are the command's numbers. Gradients go to ``exponent``."""

DRAIN = (
    Bits("vector", 1), Bits("half", 1),
    Bits("n_out", 17), Bits("s_out", 18, True), Bits("n_in", 17), Bits("s_in", 18, True),
    Bits("lane_step", 17), Bits("lanes_last", 7), Bits("last_inner", 1),
    Bits("shift", 8, True), Bits("shift_ones", 8, True), Bits("ones", 1), Bits("swap", 1),
    Bits("bias", 1), Bits("relu", 1), Bits("c_mode", 3), Bits("shift_c", 8, True),
    Bits("idx", 18), Bits("dry", 1), Bits("track", 1), Bits("id", 12), Bits("exponent", 10, True),
    Bits("reorganise", 1), Bits("fresh", 1), Bits("at", 16), Bits("mantissa", 16),
    Bits("width", 16), Bits("height", 16), Bits("row", 16), Bits("rows", 16), Bits("zeros", 1),
    Bits("bound", BOUND_BITS), Bits("shift_bound", 8, True), Bits("slope", SLOPE_BITS), Bits("scaled", 1),
)  # fmt: skip
"""for o < n_out, i < n_in: lane l of the vector goes to C[o*s_out + i*s_in + l*lane_step]; lanes from
lanes_last on are dropped in the last o (the last i if last_inner). idx != 0: the pool unit's index
vector follows each value vector, at the address plus idx. ``scaled``: every vector has its lanes' shifts with it.

``zeros``: all sums are 0, as those of a GEMM that reduces nothing; the accumulator isn't read.

``reorganise``: the results of a GEMM's tile are added to the sums of filters and windows, from sum ``at`` (the
tile's first filter times 4) on, or with ``fresh`` replace them. The tile is ``rows`` rows from ``row`` on of images of
``height`` by ``width``. With ``vector``: sums from ``at`` on, times ``mantissa``, come instead of the pool unit's
vectors, one to a vector.

``bound`` (0: none), its shift at the exponent of the results or of C, and ``slope`` are those of the command."""

STORE = (
    Bits("command", 16), Bits("half", 1), Bits("begin", 1), Bits("close", 1), Bits("done", 1), Bits("dry", 1),
    Bits("dram", 32), *_many("n", 3, 16), *_many("d", 3, 32, True),
    Bits("sp", 18), *_many("s", 3, 18, True), Bits("length", 20),
)  # fmt: skip
"""for i0 < n0, i1 < n1, i2 < n2: length operands from C[sp + i0*s0 + i1*s1 + i2*s2] to
dram + i0*d0 + i1*d1 + i2*d2, unless dry. ``done`` on a command's last one: the command is complete when its
writes are answered."""

ENGINES = {"fill": FILL, "compute": COMPUTE, "drain": DRAIN, "store": STORE}
