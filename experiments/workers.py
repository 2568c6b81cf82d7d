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
from typing import Any

import torch

from .data import Splits
from .errors import ExperimentError
from .prepared import prepared
from .runs import Outcome, Run, Standing, execute
from .settings import ExperimentSettings
from .tasks import task_of

__all__ = ["data_of", "run_all"]

_TELL_SECONDS = 0.2
"""Between two words of a process about the same epoch."""
_DISMAL_EXIT = 1

Told = Callable[[Run, Standing], object]
Ended = Callable[[Run, Outcome], object]


class _Stopped(Exception):
    """A run that is to go on another time."""


def data_of(settings: ExperimentSettings, folder: Path | None) -> Splits:
    """The experiment's examples: the same for all of its runs. Raises DataError."""
    return prepared(
        settings.data, folder, size=settings.image_size, images=settings.images, augment=settings.augment
    )  # fmt: skip


def _ready(settings: ExperimentSettings) -> None:
    """Make what follows depend on nothing but the settings, as far as PyTorch can promise it."""
    torch.set_num_threads(settings.threads)
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False


def _run(run: Run, settings: ExperimentSettings, data: Splits, states: Path, told: Callable[[Standing], object]):
    try:
        return execute(run, data, told, task_of(settings.data), states, follow=True)
    except torch.OutOfMemoryError:
        raise ExperimentError(f"{run.method}, seed {run.seed}: out of GPU memory; lower batch or jobs") from None


def run_all(
    runs: Sequence[Run], settings: ExperimentSettings, data: Splits, folder: Path | None, states: Path, jobs: int,
    told: Told, ended: Ended,
) -> None:  # fmt: skip
    """``told``: how runs under way stand; ``ended``: outcomes, as they come. Both are called in this thread.

    ``folder``: of the data set's files, which processes read for themselves. On an exception, KeyboardInterrupt
    included, all runs stop behind their batch. Raises ExperimentError if a process is killed, or has no memory.
    """
    if min(jobs, len(runs)) <= 1:
        _ready(settings)
        for run in runs:
            ended(run, _run(run, settings, data, states, partial(told, run)))
        return
    context = get_context("spawn")
    news, stop = context.Queue(), context.Event()
    begin = (settings, folder, states, news, stop)
    pool = ProcessPoolExecutor(min(jobs, len(runs)), context, _begin, begin)
    try:
        waiting = {pool.submit(_work, run): run for run in runs}
        while waiting:
            done, _ = wait(waiting, 0.1, FIRST_COMPLETED)
            _pass_on(news, told)
            for future in done:
                ended(waiting.pop(future), future.result())
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
"""What a process works with."""


def _begin(settings: ExperimentSettings, folder: Path | None, states: Path, news, stop) -> None:
    signal(SIGINT, SIG_IGN)  # the one who began this says when to stop
    threading.Thread(target=_end_with_parent, daemon=True).start()
    news.cancel_join_thread()
    _ready(settings)
    _mine.update(settings=settings, data=data_of(settings, folder), states=states, news=news, stop=stop)


def _end_with_parent() -> None:
    """A killed command leaves no process that would work on the same runs as the next one."""
    parent = parent_process()
    assert parent
    parent.join()
    os._exit(_DISMAL_EXIT)


def _work(run: Run) -> Outcome:
    last = 0.0

    def tell(standing: Standing) -> None:
        nonlocal last
        if _mine["stop"].is_set():
            raise _Stopped
        if time.monotonic() - last > _TELL_SECONDS:
            last = time.monotonic()
            _mine["news"].put((run, standing))

    return _run(run, _mine["settings"], _mine["data"], _mine["states"], tell)
