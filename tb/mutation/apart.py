"""A bench in a process of its own: a broken accelerator may go on for ever, or take the process with it."""

import resource
import signal
from collections.abc import Callable
from multiprocessing import get_context

from .seen import Kind, verdict

__all__ = ["apart"]


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
