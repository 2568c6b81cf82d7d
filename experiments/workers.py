"""Runs one after the other in this process, or several at a time in processes of their own."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context, parent_process
from pathlib import Path
from queue import Empty
from signal import SIG_IGN, SIGINT, signal
from typing import Any, Protocol

import torch

from .data import Splits
from .errors import ExperimentError
from .experiment_folder import ExperimentFolder
from .preparation import prepared
from .runs import Outcome, Run, Standing, execute
from .tasks import task_of

__all__ = ["DataSettings", "Ended", "Told", "data_of", "run_all"]

_TELL_SECONDS = 0.2
"""Between two words of a process about the same epoch."""
_ORPHANED = 1
"""Exit code of a process whose parent has gone."""

Told = Callable[[Run, Standing], object]
Ended = Callable[[Run, Outcome], object]


class DataSettings(Protocol):
    """The context of runs: their examples, see :func:`.preparation.prepared`, threads of each process, and
    whether to ``follow`` each, see :func:`.runs.execute`."""

    @property
    def data(self) -> str: ...
    @property
    def image_size(self) -> int | None: ...
    @property
    def images(self) -> int: ...
    @property
    def augment(self) -> bool: ...
    @property
    def threads(self) -> int: ...
    @property
    def follow(self) -> bool: ...


class _Stopped(Exception):
    """A run that is to go on another time."""


def data_of(wanted: DataSettings, folder: Path | None) -> Splits:
    """The examples, the same for all runs. Raises DataError."""
    return prepared(wanted.data, folder, size=wanted.image_size, images=wanted.images, augment=wanted.augment)


def _ready(wanted: DataSettings) -> None:
    """Make what follows depend on nothing but the settings, as far as PyTorch can promise it."""
    torch.set_num_threads(wanted.threads)
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False


def _run(run: Run, wanted: DataSettings, data: Splits, states: Path, told: Callable[[Standing], object]):
    try:
        return execute(run, data, told, task_of(wanted.data), states, follow=wanted.follow)
    except torch.OutOfMemoryError:
        raise ExperimentError(f"{run.method}, seed {run.seed}: out of GPU memory; lower batch or jobs") from None


def run_all(
    runs: Sequence[Run], wanted: DataSettings, data: Splits, data_folder: Path | None, folder: ExperimentFolder,
    jobs: int, told: Told, ended: Ended = lambda *_: None,
) -> None:  # fmt: skip
    """Run those that haven't ended, ``jobs`` at a time, and keep their outcomes in ``folder``.

    ``told``: how runs under way stand; ``ended``: outcomes, as they come. Both are called in this thread.
    ``data_folder``: of the data set's files, which processes read for themselves. On an exception, KeyboardInterrupt
    included, all runs stop behind their batch. Raises ExperimentError if a process is killed, or has no memory.
    """
    left = [run for run in runs if not folder.has(run)]

    def keep(run: Run, outcome: Outcome) -> None:
        folder.write(run, outcome)
        ended(run, outcome)

    if min(jobs, len(left)) <= 1:
        _ready(wanted)
        for run in left:
            keep(run, _run(run, wanted, data, folder.states, partial(told, run)))
        return
    context = get_context("spawn")
    news, stop = context.Queue(), context.Event()
    begin = (wanted, data_folder, folder.states, news, stop)
    pool = ProcessPoolExecutor(min(jobs, len(left)), context, _begin, begin)
    try:
        waiting = {pool.submit(_work, run): run for run in left}
        while waiting:
            done, _ = wait(waiting, 0.1, FIRST_COMPLETED)
            _pass_on(news, told)
            for future in done:
                keep(waiting.pop(future), future.result())
    except BrokenProcessPool:
        raise ExperimentError("a process was killed, or couldn't begin; the same command goes on") from None
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


def _pass_on(news, told: Told) -> None:
    try:
        while True:
            told(*news.get_nowait())
    except Empty:
        pass


_mine: dict[str, Any] = {}
"""The context that a process works with."""


def _begin(wanted: DataSettings, folder: Path | None, states: Path, news, stop) -> None:
    signal(SIGINT, SIG_IGN)  # the one who began this says when to stop
    threading.Thread(target=_end_with_parent, daemon=True).start()
    news.cancel_join_thread()
    _ready(wanted)
    _mine.update(wanted=wanted, data=data_of(wanted, folder), states=states, news=news, stop=stop)


def _end_with_parent() -> None:
    """A killed command leaves no process that would work on the same runs as the next one."""
    parent = parent_process()
    assert parent
    parent.join()
    os._exit(_ORPHANED)


def _work(run: Run) -> Outcome:
    last = 0.0

    def tell(standing: Standing) -> None:
        nonlocal last
        if _mine["stop"].is_set():
            raise _Stopped
        if time.monotonic() - last > _TELL_SECONDS:
            last = time.monotonic()
            _mine["news"].put((run, standing))

    return _run(run, _mine["wanted"], _mine["data"], _mine["states"], tell)
