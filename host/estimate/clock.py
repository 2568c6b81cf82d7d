"""Processes in time: generators that wait for cycles, for tokens, and for room in queues.

A process yields a number, and goes on so many cycles later; or something that can be taken, and goes on once it has it.
"""

import heapq
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

__all__ = ["Clock", "Count", "Process", "Queue", "Tokens"]

Process = Generator[Any, Any, Any]


class Clock:
    """The events to come; ``now`` is the present cycle, without those ``left_out``."""

    def __init__(self) -> None:
        self.now = self.left_out = 0
        self._coming: list[tuple[int, int, Callable[[], None] | Process]] = []
        self._number = 0  # so that what comes in one cycle keeps its order

    def call(self, cycle: int, action: Callable[[], None]) -> None:
        """Let something happen in a cycle, at the earliest in this one."""
        self._number += 1
        heapq.heappush(self._coming, (max(cycle, self.now), self._number, action))

    def start(self, process: Process) -> None:
        """Let a process begin in this cycle."""
        self.call(self.now, lambda: self.resume(process, None))

    def resume(self, process: Process, value: Any) -> None:
        """Let a process go on with ``value`` until it waits."""
        while True:
            try:
                wanted = process.send(value)
            except StopIteration:
                return
            if isinstance(wanted, int):
                value = None
                if wanted > 0:
                    self._number += 1
                    heapq.heappush(self._coming, (self.now + wanted, self._number, process))
                    return
            elif (value := wanted.take(process)) is None:
                return

    def run(self, until: Callable[[], bool]) -> bool:
        """Let time pass until a condition holds; False if nothing is left to happen before that."""
        while not until():
            if not self._coming:
                return False
            self.now, _, coming = heapq.heappop(self._coming)
            if callable(coming):
                coming()
            else:
                self.resume(coming, None)
        return True


class Tokens:
    """Tokens that processes give and take; a taker learns the cycle in which its token was given."""

    def __init__(self, clock: Clock, count: int = 0):
        self._clock = clock
        self._given: deque[int] = deque([0] * count)
        self._takers: deque[Process] = deque()

    def give(self) -> None:
        """Give one now."""
        if self._takers:
            self._clock.resume(self._takers.popleft(), self._clock.now)
        else:
            self._given.append(self._clock.now)

    def give_at(self, cycle: int) -> None:
        """Give one in a later cycle."""
        if cycle <= self._clock.now:
            self.give()
        else:
            self._clock.call(cycle, self.give)

    def take(self, process: Process) -> int | None:
        """Take one for a process, or let it wait."""
        if self._given:
            return self._given.popleft()
        self._takers.append(process)
        return None


class Queue:
    """Items on their way from one process to another; the giver takes ``room`` first.

    A taker yields ``there``, looks at :meth:`first`, and drops the item when it no longer takes up a place.
    """

    def __init__(self, clock: Clock, depth: int):
        self._clock = clock
        self.room, self.there = Tokens(clock, depth), Tokens(clock)
        self._items: deque = deque()

    def put(self, item: Any, delay: int = 0) -> None:
        """Add an item, which its taker sees after ``delay`` cycles."""
        self._items.append(item)
        self.there.give_at(self._clock.now + delay)

    def first(self) -> Any:
        """The oldest item."""
        return self._items[0]

    def drop(self) -> Any:
        """Remove the oldest item, and give its room back."""
        item = self._items.popleft()
        self.room.give()
        return item


class _Reached:
    """A count's value that a process waits for."""

    def __init__(self, count: "Count", value: int):
        self._count, self._value = count, value

    def take(self, process: Process) -> int | None:
        if self._count.value >= self._value:
            return self._count.value
        self._count.waiting.append((self._value, process))
        return None


class Count:
    """A number that grows, and processes that wait for a value."""

    def __init__(self, clock: Clock):
        self._clock = clock
        self.value = 0
        self.waiting: list[tuple[int, Process]] = []

    def reached(self, value: int) -> _Reached:
        """Something to wait for: the count is ``value`` or more."""
        return _Reached(self, value)

    def grow(self) -> None:
        """Count one more."""
        self.value += 1
        due = [process for value, process in self.waiting if value <= self.value]
        self.waiting = [(value, process) for value, process in self.waiting if value > self.value]
        for process in due:
            self._clock.resume(process, self.value)
