"""Entry point of ``adagp`` and of ``python -m adagp``."""

import os
import signal
import sys
import threading

__all__ = ["main"]


def main() -> None:
    """Run the command line; until a command runs, Ctrl-C ends the process at once and without a traceback.

    SIGTERM ends it with 143, as an exit of its own would, so that builds under way leave nothing.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    answer = signal.getsignal(signal.SIGINT)
    if answer is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.unraisablehook = interrupt_again
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # the launcher of a checkout blocks it
    from .cli.main import main as command_line

    try:
        signal.signal(signal.SIGINT, answer)
        command_line()
    except KeyboardInterrupt:  # while typer puts the commands together: it only catches those of a command
        sys.exit(128 + signal.SIGINT)


def interrupt_again(ignored: "sys.UnraisableHookArgs") -> None:
    """Send an interrupt again that came inside a callback or a destructor, where Python would print and drop it."""
    if ignored.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(ignored)
        return
    again = threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGINT])
    again.daemon = True
    again.start()


if __name__ == "__main__":
    main()
