"""Dataflows: which operand of a GEMM stays in the array while the other one streams through it.

A dataflow is named after what the PEs keep. Each of the three directions is a convolution of an input with filters, or
a product that is mapped to one, and the operand in the filters' place is the "weight" of weight-stationary:

================= ================== ====================
GEMM              ``ws`` keeps       ``is`` keeps
================= ================== ====================
FORWARD           weights            X, the activations
BACKWARD_DATA     weights            dY, the errors
BACKWARD_WEIGHT   dY, as a filter    X, the activations
================= ================== ====================

``os`` keeps neither, but the sums: it wants an array with ``Config.output_stationary``. There a command's ``swap`` says
which operand is that of the columns.

BACKWARD_WEIGHT has no weights among its operands: it slides dY over X as FORWARD slides filters over X. So ``ws`` keeps
operand B of a command and ``is`` operand A. ``free`` lets each command keep the operand that makes it faster.

Only the mapping depends on the dataflow: results are equal bit for bit. It holds for the predictor's GEMMs too. Pools,
depthwise convolutions and batch norm aren't GEMMs of the array, and are as they are.
"""

__all__ = ["DATAFLOWS", "MODELLED", "OUTPUT_STATIONARY", "swaps", "without_hardware"]

OUTPUT_STATIONARY = "os"
DATAFLOWS = {"free": (0, 1), "ws": (0,), "is": (1,), OUTPUT_STATIONARY: (0, 1)}
"""Dataflows by name: values of a command's field ``swap`` that a mapping may take (1: operand A is stationary)."""
MODELLED = ("rs",)
"""Dataflows of the estimator alone, which no hardware and no mapping has (see host/estimate/row_stationary.py)."""


def swaps(dataflow: str) -> tuple[int, ...]:
    """The values of ``swap`` that a dataflow allows; raises ValueError for an unknown one."""
    if dataflow not in DATAFLOWS:
        raise ValueError(f"dataflow = {dataflow!r} must be one of {', '.join(DATAFLOWS)}{without_hardware(dataflow)}")
    return DATAFLOWS[dataflow]


def without_hardware(dataflow: str) -> str:
    """The end of a refusal's line, for a dataflow that is a model alone; empty for others."""
    return f"; {dataflow!r} is a model without hardware, for adagp estimate alone" if dataflow in MODELLED else ""
