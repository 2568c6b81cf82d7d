"""Work of a process that holds a run's folder until it is killed; the process finds this module by its name."""

import signal

from adagp.host.training.run_folder import RunFolder

__all__ = ["hold"]


def hold(path, settings, held):
    """Begin a run in the folder, say so, and wait."""
    with RunFolder(path).in_use():
        RunFolder(path).begin(settings)
        held.send("held")
        signal.pause()
