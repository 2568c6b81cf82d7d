"""The watch over processes that others wait for: nothing wakes gloo when one of them ends at the wrong moment."""

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

__all__ = ["STUCK", "watched"]

STUCK = 60.0
"""Seconds after which an order that a process didn't live to answer ends this one too."""
_LOOK = 1.0
"""Seconds between two looks at the processes."""


class Process(Protocol):
    """A process that may have ended."""

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""


@contextlib.contextmanager
def watched(processes: Sequence[Process], why: Callable[[], str], seconds: float = STUCK) -> Iterator[None]:
    """Let the block hang no longer than ``seconds`` after one of the processes has ended.

    Then this process tells ``why()`` in a line and ends with exit code 1. No exception could end a call of gloo.
    """
    done = threading.Event()

    def watch() -> None:
        while not done.wait(min(_LOOK, seconds)):
            if any(process.poll() is not None for process in processes) and not done.wait(seconds):
                print(f"error: {why()}", file=sys.stderr, flush=True)
                os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        done.set()
