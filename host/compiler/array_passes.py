"""Cycles of the array's passes and blocks, as the cost model reckons with them."""

import numpy as np

from ...spec.config import Config

__all__ = ["block_cycles", "shortest_pass"]

ADDING_CYCLES = 5
"""Accumulator: a word is added to again after this many cycles or more."""


def shortest_pass(config: Config) -> int:
    """Least cycles of a pass: the stationary operands of the next are loaded, from the cycle after its begin on."""
    return max(config.cols + 1, ADDING_CYCLES)


def block_cycles(config: Config, n_k, paced=1):
    """Cycles of a block of sums of ``n_k`` products, ``output_stationary``; if ``paced``, as fast as vectors come.

    Each operand takes a cycle for the vector of an outer position, of ``vector_lanes`` elements at most.
    """
    loaded = -(-n_k // config.vector_lanes) * max(config.rows, config.cols)
    return np.maximum(n_k, loaded) if paced else n_k
