"""The PE array's product: exact, whatever the order of its sums."""

import numpy as np
import torch

__all__ = ["matmul"]

_FLOAT64_EXACT = 1 << 53
_INT64_EXACT = 1 << 63


def _magnitude(x: np.ndarray) -> int:
    """A bound of ``|x|``: the type's own where it is narrow, else what is there."""
    if x.dtype.itemsize <= 2:
        return 1 << (8 * x.dtype.itemsize - 1)
    return max(-int(x.min()), int(x.max()))


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a [..., m, k] @ b [..., k, n]`` of integers as int64, leading axes as torch broadcasts them.

    Computed in float64 where no partial sum can reach 2^53, so that the order of the additions can't
    matter, in int64 otherwise, by torch, whose number of threads the caller can set. Raises OverflowError
    where not even int64 is sure to hold the sums.
    """
    bound = a.shape[-1] * _magnitude(a) * _magnitude(b)
    for limit, dtype in ((_FLOAT64_EXACT, torch.float64), (_INT64_EXACT, torch.int64)):
        if bound < limit:
            return (torch.tensor(a, dtype=dtype) @ torch.tensor(b, dtype=dtype)).to(torch.int64).numpy()
    raise OverflowError(f"a sum of {a.shape[-1]} products may reach {bound}, which int64 can't hold")
