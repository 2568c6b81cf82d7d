"""Jobs proved within a time limit: one that takes longer than it should is stopped, with what it has started."""

import os
import signal
import time
from collections.abc import Mapping
from multiprocessing import get_context
from pathlib import Path

from .run import check
from .touched import failures

__all__ = ["LIMIT", "prove"]

LIMIT = 60
"""Seconds for all jobs together."""
FEWEST, TIMES = 5, 3
"""Seconds for a job: so many, and so many times those that it took when its results were recorded."""


def prove(
    names: list[str], seconds: Mapping[str, float], folder: Path, limit: float = LIMIT
) -> dict[str, list[str] | None]:
    """Failures of each job, or None if there was no time for it.

    ``seconds`` are those that jobs took before; one without may take all that is left of ``limit``.
    """
    end, found = time.monotonic() + limit, {}
    for name in names:
        left = end - time.monotonic()
        found[name] = _failures(name, folder, min(left, FEWEST + TIMES * seconds.get(name, left)))
    return found


def _failures(name: str, folder: Path, limit: float) -> list[str] | None:
    """A job's failures, or None if it hasn't ended after ``limit`` seconds."""
    if limit <= 0:
        return None
    receiver, sender = get_context("fork").Pipe(duplex=False)

    def ask():
        os.setsid()
        try:
            sender.send(failures(check(name, folder)))
        except BaseException as error:
            sender.send([f"{type(error).__name__}: {error}"])

    process = get_context("fork").Process(target=ask)
    process.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(limit) else None
    except EOFError:
        return ["its process died"]
    finally:
        _stop(process.pid)
        process.join()


def _stop(leader: int) -> None:
    """End the processes of a session, solvers too, that may go on for minutes."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:  # all have ended, or none has begun
        os.kill(leader, signal.SIGKILL)
