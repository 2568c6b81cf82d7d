"""A pipeline of processes that torchrun has started, on one machine or on several.

All have the same command line. They meet at the store that torchrun's agent keeps: each tells its code and settings,
and the first one answers with the job or with what differs. Then the first one gives the orders. torchrun ends all
processes with SIGTERM as soon as one has ended, and these then say why.
"""

import atexit
import contextlib
import hashlib
import ipaddress
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from torch import distributed
from torch.distributed.rendezvous import rendezvous

from ..training.settings import TrainSettings
from .distributed import gathered
from .job import Job, pipeline_sources
from .orders import Orders, answered, followed, join, joined, polled
from .plan import PipelineFailure, Plan
from .ranks import Rank
from .steps import PipelineError

__all__ = ["Meeting", "Torchrun", "differences", "introduction", "refusal", "take_part", "unreachable"]

PATIENCE = timedelta(hours=12)
"""Patience of gloo with a machine that has stopped without closing its connections; no batch takes longer."""
_READY = "ready/{rank}"
_ANSWER = "answer"
_ENDED = "ended/{rank}"
_GRACE = 3.0
"""Seconds that processes have to say that they have ended."""


class Meeting:
    """The ``store`` at which torchrun's processes meet, and this process among ``size`` of them."""

    def __init__(self, store: Any, rank: int, size: int):
        self.store, self.rank, self.size = store, rank, size
        self._done = threading.Event()

    @classmethod
    def told(cls) -> "Meeting":
        """The meeting that torchrun's environment tells of; each restart has one of its own."""
        store, rank, size = next(rendezvous("env://", timeout=PATIENCE))
        restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return cls(distributed.PrefixStore(f"adagp/{restarts}", store), rank, size)

    def ended(self, rank: int) -> bool:
        """True if a process has said that it ends."""
        return bool(self.store.check([_ENDED.format(rank=rank)]))

    def why(self, error: object) -> str:
        """The reason of a failure: the process that has ended without a word, if there is one, else the ``error``."""
        atexit.register(_end)
        with contextlib.suppress(RuntimeError):  # the store is gone
            self.store.set(_ENDED.format(rank=self.rank), "")
            end = time.monotonic() + _GRACE
            while silent := [rank for rank in range(self.size) if not self.ended(rank)]:
                if time.monotonic() > end:
                    return f"the pipeline has ended: rank {silent[0]} was killed, or has ended without a word"
                time.sleep(0.02)
        return str(error)

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Let this process say why it ends when torchrun sends SIGTERM, even within a call that no signal ends."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        handler = signal.signal(signal.SIGTERM, lambda *_: None)
        before = signal.set_wakeup_fd(writer)
        threading.Thread(target=self._wake, args=(reader,), daemon=True).start()
        try:
            yield
        finally:
            self._done.set()
            signal.set_wakeup_fd(before)
            signal.signal(signal.SIGTERM, handler)
            os.close(writer)

    def _wake(self, reader: int) -> None:
        while (byte := os.read(reader, 1)) and byte[0] != signal.SIGTERM:
            pass
        os.close(reader)
        if byte:
            reason = self.why("the pipeline has ended: torchrun ends all ranks")
            if not self._done.wait(2 * _GRACE):
                print(f"error: {reason}", file=sys.stderr, flush=True)
                os._exit(1)

    def join(self, job: Job, device: Any) -> Rank:
        """Make the group, and this process' part of the pipeline; raises PipelineError for other first weights."""
        join(distributed.PrefixStore("group", self.store), self.rank, self.size, PATIENCE)
        digests = gathered(self.rank, lambda: _digest(job))
        if other := [rank for rank, digest in enumerate(digests) if digest != digests[0]]:
            raise PipelineError(f"rank {other[0]} of the pipeline makes another network of the model than rank 0")
        return joined(job, self.rank, device)


class Torchrun:
    """The first of torchrun's processes: it has the first device and gives the orders.

    Raises PipelineError for a network that can't be cut and for processes that differ. If a process fails or is killed,
    :meth:`order` raises PipelineFailure.
    """

    def __init__(self, job: Job):
        self._stack = contextlib.ExitStack()
        self._meeting = meeting = Meeting.told()
        self._usable = False
        with contextlib.ExitStack() as opened:
            opened.enter_context(meeting.open())
            device = job.open_device()  # builds a simulator before others look for it
            opened.callback(device.close)
            opened.callback(_leave)
            self._orders = Orders(meeting.store, meeting.size, meeting.ended)
            self._meet(job)
            try:
                self._rank = meeting.join(job, device)
            except PipelineError as error:
                raise PipelineError(str(error).removeprefix("rank 0: ")) from None
            self._stack = opened.pop_all()
        self.network, self._usable = self._rank.network, True

    def _meet(self, job: Job) -> None:
        """Compare all processes with this one, and tell them the job; raises PipelineError and PipelineFailure."""
        meeting = self._meeting
        if (ended := self._orders.awaited(_READY)) is not None:
            raise PipelineFailure(f"rank {ended} of the pipeline didn't start")
        mine = json.loads(json.dumps(introduction(job.settings, job.plan, job.device)))
        others = (json.loads(meeting.store.get(_READY.format(rank=rank))) for rank in range(1, meeting.size))
        if told := refusal([mine, *others]):
            meeting.store.set(_ANSWER, json.dumps({"refused": told}))
            raise PipelineError(told)
        meeting.store.set(_ANSWER, json.dumps({"job": job.to_dict()}))

    def order(self, name: str, *arguments: Any) -> Sequence[Any]:
        """Let each process' :class:`~adagp.host.pipelines.ranks.Rank` call a method; returns their results."""
        self._usable = False
        try:
            if (ended := self._orders.send((name, arguments))) is not None:
                raise PipelineFailure(f"rank {ended} of the pipeline has ended")
            found = answered(self._rank, 0, name, arguments)
        except (PipelineError, RuntimeError) as error:
            raise PipelineFailure(self._meeting.why(error)) from error
        self._usable = True
        return found

    def close(self) -> None:
        """Let the processes end, and close this one's device."""
        if self._usable:
            with contextlib.suppress(PipelineError, RuntimeError):
                self._orders.send(None)
        self._stack.close()


def take_part(settings: TrainSettings, plan: Plan, device: str) -> None:
    """Be one of torchrun's processes after the first one; raises PipelineError and PipelineFailure as that one does."""
    meeting = Meeting.told()
    meeting.store.set(_READY.format(rank=meeting.rank), json.dumps(introduction(settings, plan, device)))
    polled(meeting.store, _ANSWER)
    answer = json.loads(meeting.store.get(_ANSWER))
    if "refused" in answer:
        raise PipelineError(answer["refused"])
    job = Job.from_dict(answer["job"])
    with contextlib.ExitStack() as opened:
        opened.enter_context(meeting.open())
        own = job.open_device()
        opened.callback(own.close)
        opened.callback(_leave)
        part = meeting.join(job, own)
        try:
            followed(meeting.store, part, meeting.rank, lambda key: polled(meeting.store, key))
        except PipelineError as error:
            raise PipelineFailure(meeting.why(error)) from error


def introduction(settings: TrainSettings, plan: Plan, device: str) -> dict:
    """The facts that a process tells the first one of itself."""
    return {
        "sources": pipeline_sources(), "settings": settings.to_dict(), "plan": asdict(plan), "device": device,
        "host": socket.gethostname(), "unreachable": unreachable(),
    }  # fmt: skip


def refusal(introductions: Sequence[dict]) -> str:
    """The first process that can't take part, and why; empty if there is none. ``introductions``: by rank.

    Processes of one machine reach each other at any address.
    """
    apart = len({each.get("host") for each in introductions}) > 1
    for rank, theirs in enumerate(introductions):
        if told := (apart and theirs.get("unreachable")) or differences(introductions[0], theirs):
            return f"rank {rank} of the pipeline {told}"
    return ""


def unreachable() -> str:
    """The reason why processes on other machines can't reach this one over gloo; empty if nothing is known against it.

    gloo takes the address that the machine's name has, unless it is told an interface.
    """
    if os.environ.get("GLOO_SOCKET_IFNAME"):
        return ""
    name = socket.gethostname()
    try:
        address = str(socket.getaddrinfo(name, None)[0][4][0])
    except OSError:
        address = "no address"
    if address != "no address" and not ipaddress.ip_address(address.split("%")[0]).is_loopback:
        return ""
    return (
        f"is on a machine whose name, {name}, has {address}, where others can't reach it: set GLOO_SOCKET_IFNAME there"
        " to the interface that leads to the other machines"
    )


def differences(mine: dict, theirs: dict) -> str:
    """The differences of a process to the first one, by their introductions; empty if there are none.

    The folder of a data set may be another, since the first process alone reads it.
    """
    if theirs["sources"] != mine["sources"]:
        return "has other code of adagp than rank 0"
    nowhere = {"data_dir": None}
    settings = TrainSettings.from_dict(mine["settings"] | nowhere).differing(theirs["settings"] | nowhere)
    ours, others = (each["plan"] | {"device": each["device"]} for each in (mine, theirs))
    told = [f"{name} = {others[name]!r}, not {value!r}" for name, value in ours.items() if others[name] != value]
    return f"has {', '.join(filter(None, [settings, *told]))}" if settings or told else ""


def _digest(job: Job) -> str:
    """The hash of the network's first weights."""
    digest = hashlib.sha256()
    for name, value in job.module.state_dict().items():
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _end() -> None:
    """End without gloo's destructors: threads of it may still wait for a process that has ended, which aborts."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def _leave() -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()
