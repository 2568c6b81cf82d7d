"""A process for each device of a pipeline on this machine: this one has the first device and gives the orders."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from torch import distributed

from .job import Job, pipeline_sources
from .orders import Orders, answered, followed, join, joined
from .plan import PipelineFailure
from .steps import PipelineError
from .watch import watched

__all__ = ["QUIET", "Processes", "follow"]

HOST = "127.0.0.1"
QUIET = 3
"""Exit code of a process whose failure all others know."""
PATIENCE = timedelta(days=7)
"""Patience of gloo: processes of one machine close their connections when they end; others may wait for a long test."""
_READY = "adagp/ready/{rank}"
_GRACE = 5.0
"""Seconds that processes have to end by themselves."""


class Processes:
    """A pipeline of as many processes as devices; raises PipelineError for a network that can't be cut, and others.

    Each order goes to all, and all answer. If a process fails or is killed, :meth:`order` raises PipelineFailure.
    """

    def __init__(self, job: Job):
        self._others: list[subprocess.Popen] = []
        self._logs: list[int] = []
        self._usable = False
        self._device = job.open_device()  # builds a simulator before others look for it
        try:
            self._start(job)
            self._rank = joined(job, 0, self._device)
        except PipelineError as error:
            self._end()
            raise PipelineError(str(error).removeprefix("rank 0: ")) from None
        except BaseException:
            self._end()
            raise
        self.network, self._usable = self._rank.network, True

    def _start(self, job: Job) -> None:
        size = job.plan.devices
        store = distributed.TCPStore(HOST, 0, size, is_master=True, wait_for_workers=False)
        threads = str(max(1, (os.cpu_count() or 1) // size))
        for rank in range(1, size):
            with tempfile.TemporaryFile() as log:
                self._logs.append(os.dup(log.fileno()))
                other = subprocess.Popen(
                    [sys.executable, "-m", f"{__package__}.follower"], stdin=subprocess.PIPE, stdout=log, stderr=log,
                    env={"OMP_NUM_THREADS": threads} | os.environ, start_new_session=True,
                )  # fmt: skip
            self._others.append(other)
            assert other.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # stays open: when it closes, that process ends
                other.stdin.write(json.dumps({"rank": rank, "port": store.port, "job": job.to_dict()}).encode() + b"\n")
                other.stdin.flush()
        self._orders = Orders(store, size, lambda rank: self._others[rank - 1].poll() is not None)
        if (ended := self._orders.awaited(_READY)) is not None:
            raise PipelineFailure(f"rank {ended} of the pipeline didn't start: {self._last_line(ended)}")
        mine = pipeline_sources()
        for rank in range(1, size):
            if store.get(_READY.format(rank=rank)).decode() != mine:
                raise PipelineError(f"rank {rank} of the pipeline has other code of adagp than rank 0")
        join(store, 0, size, PATIENCE)

    def _send(self, order: tuple | None) -> None:
        """Send an order to all processes once all wait for it; raises PipelineFailure if one has ended."""
        if (ended := self._orders.send(order)) is not None:
            raise PipelineFailure(f"rank {ended} of the pipeline has ended")

    def _watched(self) -> contextlib.AbstractContextManager[None]:
        """Let an order hang no longer than some time after a process has ended."""
        return watched(self._others, lambda: self._why(PipelineFailure("a process has ended")))

    def order(self, name: str, *arguments: Any) -> Sequence[Any]:
        """Let each process' :class:`~adagp.host.pipelines.ranks.Rank` call a method; returns their results."""
        self._usable = False
        try:
            with self._watched():
                self._send((name, arguments))
                found = answered(self._rank, 0, name, arguments)
        except (PipelineError, RuntimeError) as error:
            raise PipelineFailure(self._why(error)) from error
        self._usable = True
        return found

    def close(self) -> None:
        """Let the processes end, and close this one's device."""
        if self._usable:
            with contextlib.suppress(PipelineError, RuntimeError), self._watched():
                self._send(None)
        self._end()

    def _end(self) -> None:
        if distributed.is_initialized():
            distributed.destroy_process_group()
        for other in self._others:
            assert other.stdin is not None
            with contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
                if self._usable:
                    other.wait(_GRACE)
                other.stdin.close()
                other.wait(_GRACE)
            other.kill()
            other.wait()
        while self._logs:
            os.close(self._logs.pop())
        self._device.close()

    def _why(self, error: Exception) -> str:
        """The reason of a failure, with the process that was killed, if one was."""
        end = time.monotonic() + _GRACE
        while time.monotonic() < end and any(other.poll() is None for other in self._others):
            time.sleep(0.02)
        for rank, other in enumerate(self._others, 1):
            if (other.returncode or 0) < 0:
                return f"the pipeline has ended: rank {rank} was killed by {signal.Signals(-other.returncode).name}"
            if other.returncode not in (None, 0, QUIET):
                return f"the pipeline has ended: rank {rank}: {self._last_line(rank)}"
        return str(error)

    def _last_line(self, rank: int) -> str:
        log = self._logs[rank - 1]
        lines = os.pread(log, os.fstat(log).st_size, 0).decode(errors="replace").split("\n")
        said = next((line for line in reversed(lines) if line.strip()), "it said nothing")
        return said.removeprefix("adagp.")


def follow(rank: int, port: int, job: Job) -> None:
    """Be the process of a device after the first one: follow the orders of the first process until its last."""
    store = distributed.TCPStore(HOST, port, job.plan.devices, is_master=False)
    store.set(_READY.format(rank=rank), pipeline_sources())
    device = job.open_device()
    try:
        join(store, rank, job.plan.devices, PATIENCE)
        followed(store, joined(job, rank, device), rank, lambda key: store.wait([key], PATIENCE))
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()
        device.close()
