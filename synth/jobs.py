"""Tools side by side: threads that wait for child processes, which end with them."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager

from . import child

__all__ = ["Submit", "results", "side_by_side"]

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


def results(submit: Submit, calls: Sequence[tuple]) -> list:
    """Results of calls, given as (function, arguments...), in their order; the first that fails raises at once."""
    futures = [submit(*call) for call in calls]
    for future in as_completed(futures):
        future.result()
    return [future.result() for future in futures]
