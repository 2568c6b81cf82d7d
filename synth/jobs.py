"""Tools side by side: threads that wait for child processes, which end with them."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from . import child

__all__ = ["Submit", "side_by_side"]

_Result = TypeVar("_Result")
Submit = Callable[..., Future]


@contextmanager
def side_by_side(jobs: int) -> Iterator[Submit]:
    """A function that calls others in ``jobs`` threads; what they still do when the block is left by an exception ends.

    A job must not wait for another.
    """
    pool = ThreadPoolExecutor(jobs)
    try:
        yield pool.submit
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        child.stop()
        raise
    finally:
        pool.shutdown()
