"""Work of a process that kills itself at a counted call; the process finds this module by its name."""

import os
import signal
import sys

from adagp.cli.main import main
from adagp.gen.files import write_atomically
from adagp.host.training.run_folder import RunFolder
from adagp.host.training.trainer import Trainer


def die_after(n_calls, within=None):
    """Kill this process after so many calls and returns, Python's own functions' too (``within``: from there only)."""

    def count(frame, *_):
        nonlocal n_calls
        if within is None or frame.f_code is within.__code__:
            n_calls -= 1
            if n_calls < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)


def train_and_die(arguments, n_checkpoints, n_calls, writing_files):
    """``adagp`` killed so many calls after new checkpoint number ``n_checkpoints`` (0: after it begins to train).

    ``writing_files``: counted are calls that write a file of the run.
    """
    run, write = Trainer.run, RunFolder.write_checkpoint

    def die_if_due():
        if n_checkpoints == 0:
            die_after(n_calls, write_atomically if writing_files else None)

    def running(trainer):
        die_if_due()
        return run(trainer)

    def writing(*what):
        nonlocal n_checkpoints
        write(*what)
        n_checkpoints -= 1
        die_if_due()

    Trainer.run, RunFolder.write_checkpoint = running, writing
    main(arguments)


def write_and_die(path, content, n_calls):
    """:func:`write_atomically` killed so many calls from its beginning, or not, if it makes fewer."""
    die_after(n_calls, write_atomically)
    write_atomically(path, content)
    sys.setprofile(None)
