"""A core in time: its sequencer, four engines, and the tokens between them."""

from collections.abc import Callable
from types import SimpleNamespace

from ...rtl.core import TOKENS
from ...spec.commands import Command
from ...spec.config import Config
from ...spec.microcode.descriptors import ENGINES
from .clock import Clock, Process, Queue, Tokens
from .compute import Compute
from .dma import Fill, Moves, Store
from .drain import Drain
from .sequencing import sequence
from .traffic import Places

__all__ = ["Core", "Task"]

PLACES = 2
"""Descriptors in an engine's queue, a register each (sequencer.py)."""
HANDOVER_CYCLES = 3
"""From a push through both registers to its engine (sequencer.py)."""


class Task:
    """A command on its way to a core: the sequencer's task, and whose bytes it moves."""

    def __init__(self, command: Command, task: SimpleNamespace, config: Config):
        name = command.opcode.name.lower()
        self.task = task
        self.owner = "predictor " * bool(command.predictor) + name, Places(command, config, task.a_base)


class Core:
    """A core of ``config``; tasks come through ``queue``, and ``done`` is called as each is complete."""

    def __init__(self, clock: Clock, config: Config, queue: Queue, moves: Moves, done: Callable[[], None]):
        self._clock, self.config, self._queue = clock, config, queue
        self._engines = {engine: Queue(clock, PLACES) for engine in ENGINES}
        tokens = {name: Tokens(clock, count) for name, (count, *_) in TOKENS.items()}
        free, full = ({name: tokens[f"{name}_{kind}"] for name in ("a", "b", "acc")} for kind in ("free", "full"))
        self.sequencing = 0
        Fill(clock, config, self._engines["fill"], moves, tokens)
        self.compute = Compute(clock, config, self._engines["compute"], free, full)
        self.drain = Drain(clock, config, self._engines["drain"], tokens, self.compute.vectors)
        Store(clock, config, self._engines["store"], moves, tokens, done)
        clock.start(self._sequence())

    def _sequence(self) -> Process:
        """Push the descriptors of one task after the other, each in its cycle or when there is room for it."""
        clock = self._clock
        while True:
            yield self._queue.there
            task: Task = self._queue.first()
            pushes, cycles = sequence(self.config, task.task)
            start, waited = clock.now, 0
            for cycle, engine, fields in pushes:
                yield start + cycle + waited - clock.now
                queue = self._engines[engine]
                yield queue.room
                waited = clock.now - start - cycle
                queue.put((task.owner, fields) if engine in ("fill", "store") else fields, HANDOVER_CYCLES)
            yield start + cycles + waited - clock.now
            self.sequencing += cycles
            self._queue.drop()
