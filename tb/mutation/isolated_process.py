"""Verdicts of benches on a mutant; benches run in processes of their own.

A broken accelerator may go on for ever, or take the process with it.
"""

import resource
import signal
import traceback
from collections.abc import Callable
from enum import StrEnum
from multiprocessing import get_context

__all__ = ["VARIABLE", "Kind", "TroubleError", "apart", "verdict"]

VARIABLE = "ADAGP_MUTANT"
"""Environment variable with the number of the active mutant; 0: none."""

CRASHES = tuple(-number for number in (signal.SIGABRT, signal.SIGSEGV, signal.SIGFPE, signal.SIGILL, signal.SIGBUS))
"""Exit statuses of processes that a simulation takes down."""


class Kind(StrEnum):
    """Differences that give a mutant away."""

    GOLDEN = "golden"
    """Values differ from those of the golden model, or from those that a block's bench computes."""
    INTACT = "intact"
    """Something else differs from the intact netlist: cycles, or values that the golden model can't compute."""
    TIMEOUT = "timeout"
    """The bench reaches its time limit."""
    EXCEPTION = "exception"
    """Another error ends the bench."""


def verdict(found: str | None = None, kind: Kind | None = None) -> dict:
    """A bench's verdict on a mutant: the difference ``found``, in a few words (None: nothing), and its kind."""
    return {"found": found, "kind": kind}


class TroubleError(RuntimeError):
    """A bench couldn't be run to its end for a reason that has nothing to do with the mutant."""


def apart(bench: Callable[[], dict], seconds: int | None = None) -> dict:
    """The verdict that ``bench`` returns in another process. A simulation that crashes the process is a verdict too.

    That process, and each that it starts, may take ``seconds`` of CPU time, if given. Raises :class:`TroubleError` with
    the error that ``bench`` raises, or if the process is killed from outside.
    """
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def ask():
        if seconds is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        try:
            sender.send(bench())
        except BaseException:
            sender.send(traceback.format_exc())

    process = context.Process(target=ask)
    process.start()
    sender.close()
    try:
        said = receiver.recv()
    except EOFError:
        process.join()
        if process.exitcode == -signal.SIGXCPU:
            return verdict("no end", Kind.TIMEOUT)
        if process.exitcode not in CRASHES:
            raise TroubleError(f"the bench's process ended with {process.exitcode}") from None
        return verdict("the process died", Kind.EXCEPTION)
    finally:
        process.join()
    if isinstance(said, str):
        raise TroubleError(said)
    return said
