"""The machine in time: commands fetched in order, their queues, cores, update unit, memory."""

from collections import Counter
from collections.abc import Sequence
from functools import partial

from ...rtl.control.batch_counter import BatchCounter
from ...rtl.control.dispatch import Dispatch
from ...rtl.control.issue import IN_FLIGHT, MAIN_DEPTH, UPDATE_DEPTH
from ...rtl.control.prefetch import COMMANDS_AHEAD
from ...spec.commands import COMMAND_BYTES, FIELDS, Command, Opcode
from ...spec.config import Config
from ...spec.microcode.machine import task
from ...spec.opcodes import UPDATES
from ...spec.operands import WAITS, counted
from .clock import Clock, Count, Process, Queue
from .core import Core, Task
from .dma import Moves
from .memory import Memory
from .repeats import Known
from .row_stationary import work_of
from .traffic import Table
from .update import Update

__all__ = ["REST", "Machine"]

REST = -1
"""In place of a layer's number: cycles of a batch after its last command on the main array."""

SKIPPED_CYCLES, ISSUED_CYCLES = 5, 24
"""Fetch's states of a command that is skipped, and of one that is handed out, with its lookups (fetch.py, issue.py)."""
SETTLING_CYCLES = 4
"""States of a command that waits for all before it (fetch.py)."""
ADJUST_CYCLES = 12
"""A COMMIT beside the entries that it visits, one a cycle (exponents.py)."""
BETWEEN_CYCLES = BatchCounter.LOCATE_CYCLES + 2
"""From a batch's END to the next one's first command, whose entry of the input ring has to be found (fetch.py)."""
LEAVING_CYCLES = 4
"""States of HOST and END (fetch.py)."""
FIRST_CYCLES = 12
"""From reading the first command on to its execution, without its beats and the part's latency (prefetch.py)."""


class Machine:
    """A design that runs batches of a program.

    ``table`` has the bytes moved, by command and operand; ``layers`` the cycles that the main array's commands of a
    layer took, each since the one before it; ``last`` when each unit ended a command last. ``window``: address of the
    predictor memory, 0 for none. With ``known``, what repeats is left out (see :mod:`.repeats`), which saves most of
    the time. With ``row_stationary`` its arrays are the modelled ones of :mod:`.row_stationary`.
    """

    def __init__(self, config: Config, window: int = 0, known: Known | None = None, row_stationary: bool = False):
        self.config, self._row_stationary = config, row_stationary
        self.clock = clock = Clock()
        self.memory = Memory(clock, config)
        self.table: Table = Counter()
        self.layers: Counter[int] = Counter()
        self.last: dict[str, int] = {}
        self.commands = self._charged = 0
        self.waiting = self.ended = False
        on_chip = window and config.predictor_on_chip
        self._chip = range(window, window + config.predictor_bytes) if on_chip else range(0)
        self._given, self._done = (
            {kind: Count(clock) for kind in WAITS}, {kind: Count(clock) for kind in WAITS},
        )  # fmt: skip
        depths = {"main": MAIN_DEPTH, "update": UPDATE_DEPTH, "predictor": config.predictor_depth}
        self._queues = {name: Queue(clock, depth) for name, depth in depths.items()}
        self._flying = {name: Queue(clock, max(IN_FLIGHT, 2 * depth)) for name, depth in depths.items()}
        self.cores: list[Core] = []
        for name, own in (("main", config), ("predictor", config.predictor_core if config.n_cores > 1 else None)):
            if own is None:
                continue
            narrow = config.port_width // own.port_width
            moves = Moves(own, self.memory, self.table, narrow)
            others = partial(self._others, len(self.cores))
            self.cores.append(Core(clock, own, self._dispatched(name), moves, self._completes(name), others, known))
        self.update = Update(
            clock, config, self._dispatched("update"), self.memory, self.table, self._chip, self._completes("update")
        )

    def _others(self, own: int) -> int | None:
        """Commands begun on units but core ``own``, None if one of them is at work."""
        units: list[Core | Update] = [core for number, core in enumerate(self.cores) if number != own]
        units.append(self.update)
        return None if any(unit.begun > unit.ended for unit in units) else sum(unit.begun for unit in units)

    def _completes(self, name: str):
        def complete() -> None:
            kind, layer = self._flying[name].drop()
            self.last[name] = self.clock.now + self.clock.left_out
            if name == "main":
                self._charge(layer)
            self._done[kind].grow()

        return complete

    def _charge(self, layer: int) -> None:
        """Let the cycles since the last ones that were charged be those of a layer."""
        now = self.clock.now + self.clock.left_out
        self.layers[layer] += now - self._charged
        self._charged = now

    def _dispatched(self, name: str) -> Queue:
        """The queue from which a unit takes its commands, once those that they wait for are complete."""
        ready = Queue(self.clock, 1)
        self.clock.start(self._dispatch(self._queues[name], ready))
        return ready

    def _dispatch(self, queue: Queue, ready: Queue) -> Process:
        while True:
            yield queue.there
            command, item = queue.first()
            for kind in WAITS:
                yield self._done[kind].reached(getattr(command, kind))
            yield ready.room
            ready.put(item, 1)
            yield ready.room  # the unit has taken it
            ready.room.give()
            queue.drop()

    def start(self, commands: Sequence[Command], phase: int, ring: int = 0) -> None:
        """Begin a batch of a phase; ``ring``: address of its entry of the input ring."""
        self.waiting = self.ended = False
        for counts in (self._given, self._done):
            for count in counts.values():
                count.value = 0
        self._fetched = self._fetch(commands, phase, ring)
        self.clock.start(self._fetched)

    def resume(self) -> None:
        """Go on after HOST."""
        self.waiting = False
        self.clock.resume(self._fetched, None)

    def run(self) -> None:
        """Let time pass until the program waits at HOST or has ended."""
        if not self.clock.run(lambda: self.waiting or self.ended):
            raise RuntimeError("the estimated machine stands still")

    def between(self) -> None:
        """Let the time between two batches pass, if it is counted."""
        if not self.config.predicts:  # else nothing runs until the phase is known
            self.clock.call(self.clock.now + BETWEEN_CYCLES, lambda: None)
            until = self.clock.now + BETWEEN_CYCLES
            self.clock.run(lambda: self.clock.now >= until)

    def counts(self) -> dict[str, int]:
        """Counters since the machine was made, those of bytes left out."""
        main, *others = (core.compute for core in self.cores)
        found = {
            "cycles": self.clock.now + self.clock.left_out, "macs": main.macs, "array_cycles": main.active,
            **main.stalls, "commands": self.commands, "predictor_macs": sum(other.macs for other in others),
            "predictor_cycles": sum(other.active for other in others),
        }  # fmt: skip
        return found | {"stall_idle": found["cycles"] - main.active - sum(main.stalls.values())}

    def busy(self) -> dict[str, float]:
        """Cycles of work of each unit and of each side of the memory port since the machine was made."""
        main, *others = self.cores
        found = {
            "array": main.compute.active, "pool and norm units": main.compute.pooled, "drain": main.drain.busy,
            "sequencer": main.sequencing, "update unit": self.update.busy, "port, reading": self.memory.beats[False],
            "port, writing": self.memory.beats[True], "DRAM bus": self.memory.bus_cycles,
        }  # fmt: skip
        return found | ({"predictor's array": others[0].compute.active} if others else {})

    def _read_first(self) -> int:
        """Cycles until a command is there after reading has begun."""
        return FIRST_CYCLES + self.memory.latency + COMMAND_BYTES // self.config.beat_bytes

    def _fetch(self, commands: Sequence[Command], phase: int, ring: int) -> Process:
        beats = COMMAND_BYTES // self.config.beat_bytes
        yield self._read_first()
        for command in commands:
            began = self.clock.now
            self.table["fetch", "", "read"] += COMMAND_BYTES
            if not command.phase_mask >> phase & 1:
                yield max(SKIPPED_CYCLES, beats + 2)
                continue
            self.commands += 1
            opcode = command.opcode
            if opcode == Opcode.HEADER:
                yield max(SKIPPED_CYCLES, beats + 2)
            elif opcode in (Opcode.COMMIT, Opcode.HOST, Opcode.END):
                yield SKIPPED_CYCLES
                for kind in WAITS:
                    yield self._done[kind].reached(self._given[kind].value)
                yield SETTLING_CYCLES
                if opcode == Opcode.COMMIT:
                    yield self.config.n_tensors - command.out_id + ADJUST_CYCLES
                    continue
                self.table["fetch", "", "read"] += COMMANDS_AHEAD * COMMAND_BYTES  # which are dropped
                yield LEAVING_CYCLES
                if opcode == Opcode.END:
                    self._charge(REST)
                    self.ended = True
                    return
                self.waiting = True
                yield _Host()
                yield self._read_first()
            else:
                yield from self._issue(command, ring)
                yield beats + 2 - (self.clock.now - began)

    def _issue(self, command: Command, ring: int) -> Process:
        kind = counted(command)
        name = kind.removeprefix("wait_")
        if name == "predictor" and self.config.n_cores == 1:
            name = "main"
        yield ISSUED_CYCLES
        yield self._queues[name].room
        yield self._flying[name].room
        self._flying[name].put((kind, command.layer))
        self._given[kind].grow()
        item: Command | Task = command
        if command.opcode not in UPDATES:
            fields = {field.name: getattr(command, field.name) for field in FIELDS}
            base = (ring if command.ring else 0) + command.a_addr
            own = self.cores[1 if name == "predictor" else 0]
            work = work_of(command, own.config.rows, own.config.cols) if self._row_stationary else None
            item = Task(
                command, task({**fields, "opcode": int(command.opcode)}, a_base=base), own.config, self._chip, work
            )
        self._queues[name].put((command, item), Dispatch.LATENCY)


class _Host:
    """Fetch's wait at HOST, until it is resumed."""

    def take(self, process: Process) -> None:
        """Wait."""
