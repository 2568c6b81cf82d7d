"""Entry point of ``adagp`` and of ``python -m adagp``."""

import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; until a command runs, Ctrl-C ends the process at once and without a traceback.

    SIGTERM ends it with 143, as an exit of its own would, so that builds under way leave nothing.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    answer = signal.getsignal(signal.SIGINT)
    if answer is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # the launcher of a checkout blocks it
    from .cli.main import main as command_line

    try:
        signal.signal(signal.SIGINT, answer)
        command_line()
    except KeyboardInterrupt:  # while typer puts the commands together: it only catches those of a command
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
