"""Orders of a pipeline's first process to all of its processes: each calls a method of its Rank, and all answer."""

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import count
from typing import Any

from torch import distributed
from torch.distributed.pipelining import schedules

from .distributed import RankNetwork, gathered
from .job import Job
from .ranks import Rank

__all__ = ["Orders", "answered", "followed", "join", "joined", "polled"]

_ORDER = "adagp/order/{number}"
_TAKEN = "adagp/order/{number}/{rank}"
_LOOK = 0.002
"""Seconds between two looks into the store."""


class Orders:
    """The orders of the first process, told by the ``store`` and sent over gloo.

    ``ended`` says whether a process has ended, by its rank.
    """

    def __init__(self, store: Any, size: int, ended: Callable[[int], bool]):
        self._store, self._size, self._ended = store, size, ended
        self._number = 0

    def awaited(self, key: str, **fields: int) -> int | None:
        """Wait until each other process has set its key in the store; returns the rank of one that ended instead."""
        left = set(range(1, self._size))
        while True:
            left = {rank for rank in left if not self._store.check([key.format(rank=rank, **fields)])}
            if not left:
                return None
            for rank in left:
                if self._ended(rank):
                    return rank
            time.sleep(_LOOK)

    def send(self, order: tuple | None) -> int | None:
        """Send an order to all processes once all wait for it; returns the rank of one that has ended instead.

        Sent to a process that is just ending, gloo now and then waits for ever.
        """
        self._number += 1
        self._store.set(_ORDER.format(number=self._number), "")
        if (ended := self.awaited(_TAKEN, number=self._number)) is not None:
            return ended
        self._store.delete_key(_ORDER.format(number=self._number))
        for rank in range(1, self._size):
            self._store.delete_key(_TAKEN.format(number=self._number, rank=rank))
        distributed.broadcast_object_list([order], src=0)
        return None


def followed(store: Any, own: Rank, rank: int, wait: Callable[[str], None]) -> None:
    """Follow the orders of the first process until its last; ``wait`` returns once the store has a key."""
    for number in count(1):
        orders: list[Any] = [None]
        with contextlib.suppress(RuntimeError):  # the first process has ended
            wait(_ORDER.format(number=number))
            store.set(_TAKEN.format(number=number, rank=rank), "")
            distributed.broadcast_object_list(orders, src=0)
        if orders[0] is None:
            return
        answered(own, rank, *orders[0])


def polled(store: Any, key: str) -> None:
    """Wait until the store has a key, and let signals come in meanwhile."""
    while not store.check([key]):
        time.sleep(_LOOK)


def join(store: Any, rank: int, size: int, patience: timedelta) -> None:
    """Make the processes' group. Failures are told in a line, so torch's runtime doesn't log its whole schedule."""
    logging.getLogger(schedules.__name__).setLevel(logging.CRITICAL)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=patience)


def joined(job: Job, rank: int, device: Any) -> Rank:
    """A process' part of the pipeline, with the network's first weights; raises PipelineError."""
    given, options = job.arguments(device)
    network = RankNetwork(*given, **options)
    job.load(network)
    return Rank(network, network.train)


def answered(own: Rank, rank: int, name: str, arguments: tuple) -> Sequence[Any]:
    """The results of all processes for an order; raises PipelineError."""
    if name != "train":
        return gathered(rank, lambda: getattr(own, name)(*arguments))
    share = own.train(*arguments)  # tells all others if it fails
    return gathered(rank, lambda: share)
