"""Tools side by side: threads that wait for child processes, which end with them."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager

from . import process

__all__ = ["Submit", "ended_by_signals", "results", "side_by_side"]

Submit = Callable[..., Future]

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """End the block by SystemExit on SIGTERM and SIGHUP, as Ctrl-C ends it by KeyboardInterrupt, so that tools end too.

    Tools run in sessions of their own, which a closing terminal doesn't reach. A second signal is ignored, so
    it doesn't disturb the end. Signals that were ignored before, as by nohup, stay ignored. Outside the main thread
    this does nothing.
    """
    before = {number: signal.getsignal(number) for number in SIGNALS}
    chosen = [number for number in SIGNALS if before[number] != signal.SIG_IGN]

    def end(number, _frame):
        for other in chosen:
            signal.signal(other, signal.SIG_IGN)
        sys.exit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        chosen = []
    for number in chosen:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in chosen:
            signal.signal(number, before[number])


@contextmanager
def side_by_side(jobs: int) -> Iterator[Submit]:
    """Yield a function that calls others in ``jobs`` threads. An exception in the block ends their tools.

    A job must not wait for another.
    """
    pool = ThreadPoolExecutor(jobs)
    try:
        yield pool.submit
    except BaseException:
        process.stop()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    finally:
        pool.shutdown()
        process.resume()


def results(submit: Submit, calls: Sequence[tuple]) -> list:
    """Results of ``calls``, each (function, arguments...), in their order. The first failure raises at once."""
    futures = [submit(*call) for call in calls]
    for future in as_completed(futures):
        future.result()
    return [future.result() for future in futures]
