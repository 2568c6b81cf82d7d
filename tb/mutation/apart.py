"""What benches say of a mutant, and where they run: in processes of their own.

A broken accelerator may go on for ever, or take the process with it.
"""

import resource
import signal
from collections.abc import Callable
from enum import StrEnum
from multiprocessing import get_context

__all__ = ["VARIABLE", "Kind", "apart", "verdict"]

VARIABLE = "ADAGP_MUTANT"
"""Environment variable that says which mutant is active; 0: none."""


class Kind(StrEnum):
    """What gives a mutant away."""

    GOLDEN = "golden"
    """Other values than the golden model's, or than those that a block's bench computes itself."""
    INTACT = "intact"
    """The intact netlist shows something else: cycles, or what no golden model knows."""
    TIMEOUT = "timeout"
    """It comes to no end."""
    EXCEPTION = "exception"
    """The bench breaks off, for whatever else."""


def verdict(found: str | None = None, kind: Kind | None = None) -> dict:
    """What a bench says of a mutant: what it has ``found``, in a few words (None: nothing), and of which kind."""
    return {"found": found, "kind": kind}


def apart(bench: Callable[[], dict], seconds: int | None = None) -> dict:
    """The verdict that ``bench`` returns in another process; that it dies tells too.

    It, and each process that it starts, may take ``seconds`` of CPU time, if given.
    """
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def ask():
        if seconds is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        sender.send(bench())

    process = context.Process(target=ask)
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        process.join()
        if process.exitcode == -signal.SIGXCPU:
            return verdict("no end", Kind.TIMEOUT)
        return verdict("the process died", Kind.EXCEPTION)
    finally:
        process.join()
