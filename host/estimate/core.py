"""A core in time: its sequencer, four engines, and the tokens between them."""

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace

from ...rtl.core import TOKENS
from ...spec.commands import Command
from ...spec.config import Config
from ...spec.microcode.descriptors import ENGINES, VectorMode
from ...spec.microcode.machine import TASK_FIELDS
from .clock import Clock, Process, Queue, Tokens
from .compute import Compute, passes
from .dma import Fill, Moves, Store
from .drain import Drain
from .repeats import Content, Known, Mark, Pace, Shape
from .row_stationary import Work
from .sequencing import named, raw_sequence
from .traffic import Places, Table

__all__ = ["Core", "Task"]

PLACES = 2
"""Descriptors in an engine's queue, a register each (sequencer.py)."""
HANDOVER_CYCLES = 3
"""From a push through both registers to its engine (sequencer.py)."""

ADDRESSES = frozenset(name for name in TASK_FIELDS if name == "a_base" or name.endswith("_addr"))
IDLE = frozenset(
    name for name in TASK_FIELDS
    if name.startswith("wait_") or name.endswith("_id") or name in ("phase_mask", "layer", "ring", "hyper")
)  # fmt: skip
"""Fields that a core does nothing with, and numbers of tensors."""


class Task:
    """A command on its way to a core: the sequencer's task, whose bytes it moves, its work if rows are stationary.

    ``chip``: addresses of the predictor memory.
    """

    def __init__(self, command: Command, task: SimpleNamespace, config: Config, chip: range, work: Work | None = None):
        name = command.opcode.name.lower()
        self.task, self.work = task, work
        self.owner = "predictor " * bool(command.predictor) + name, Places(command, config, task.a_base, chip)

    def key(self, block: int) -> tuple:
        """The task but for what its descriptors' times don't depend on; of places, those in a block, and if on chip.

        Sums of a tensor's squares read it once, those of its products with another tensor both.
        """
        given, (_, places) = vars(self.task), self.owner
        return given["a_base"] == given["b_addr"], *(
            (given[name] % block, given[name] in places.chip) if name in ADDRESSES else given[name]
            for name in TASK_FIELDS if name not in IDLE
        )  # fmt: skip


class Core:
    """A core of ``config``; tasks come through ``queue``, and ``done`` is called as each is complete.

    ``begun`` and ``ended`` count tasks. With ``known``, what repeats is left out while no other unit works, and its
    time and bytes are added; ``others`` has the commands begun on other units, None if one is at work.
    """

    def __init__(
        self, clock: Clock, config: Config, queue: Queue, moves: Moves, done: Callable[[], None],
        others: Callable[[], int | None], known: Known | None = None,
    ):  # fmt: skip
        self._clock, self.config, self._queue, self._moves = clock, config, queue, moves
        self._units, self._known = others, known
        self._like = tuple(value for name, value in vars(config).items() if name != "variant")
        self._engines = {engine: Queue(clock, PLACES) for engine in ENGINES}
        tokens = {name: Tokens(clock, count) for name, (count, *_) in TOKENS.items()}
        free, full = ({name: tokens[f"{name}_{kind}"] for name in ("a", "b", "acc")} for kind in ("free", "full"))
        self.sequencing = self.begun = self.ended = 0

        def complete() -> None:
            self.ended += 1
            done()

        Fill(clock, config, self._engines["fill"], moves, tokens)
        self.compute = Compute(clock, config, self._engines["compute"], free, full)
        self.drain = Drain(clock, config, self._engines["drain"], tokens, self.compute.vectors)
        Store(clock, config, self._engines["store"], moves, tokens, complete)
        clock.start(self._sequence())

    def _sequence(self) -> Process:
        """Push the descriptors of one task after the other, each in its cycle or when there is room for it."""
        clock = self._clock
        while True:
            yield self._queue.there
            self.begun += 1
            shape = self._shape(self._queue.first())
            ahead = _Ahead(self, shape) if self._known is not None else None
            start, waited, at = clock.now, 0, 0
            while at < len(shape.pushes):
                cycle, number, slots = shape.pushes[at]
                yield start + cycle + waited - clock.now
                if at not in shape.named:
                    shape.named[at] = _descriptor(shape, number, slots)
                engine, fields = shape.named[at]
                queue = self._engines[engine]
                yield queue.room
                waited = clock.now - start - cycle
                if ahead and (after := ahead.reached(at)) > at:
                    queue.room.give()
                    waited -= shape.pushes[after][0] - cycle
                    at = after
                    continue
                queue.put((shape.owner, fields) if engine in ("fill", "store") else fields, HANDOVER_CYCLES)
                at += 1
            if ahead:
                ahead.end()
            yield start + shape.cycles + waited - clock.now
            self.sequencing += shape.cycles
            self._queue.drop()

    def _shape(self, task: Task) -> Shape:
        """A task's descriptors; kept if what repeats is left out."""
        if self._known is None:
            return Shape(*raw_sequence(self.config, task.task), task.owner, [], work=task.work)
        key = (self._like, task.work, task.owner[0], *task.key(self._moves.block))
        known = self._known
        return known.shapes.get(key) or known.add(key, *raw_sequence(self.config, task.task), task.owner, task.work)

    def others(self) -> int | None:
        """Commands begun before on any unit, None if one but the last begun here is at work."""
        return None if self.begun > self.ended + 1 else self._units()

    def mark(self) -> Mark:
        """The present cycle, and what the core's units and the memory have counted."""
        compute, memory = self.compute, self._moves.memory
        return Mark(
            self._clock.now + self._clock.left_out,
            (*compute.stalls.values(), compute.pooled, self.drain.busy, *memory.beats.values(), memory.bus_cycles),
        )  # fmt: skip

    def leave_out(self, shape: Shape, first: int, after: int, more: Mark) -> None:
        """Count a shape's descriptors from ``first`` to ``after`` as done, in the cycles and with the tallies given."""
        compute, memory = self.compute, self._moves.memory
        *stalls, pooled, drained, read, written, bus = more.tallies
        self._clock.left_out += round(more.cycle)
        for name, cycles in zip(compute.stalls, stalls, strict=True):
            compute.stalls[name] += round(cycles)
        compute.pooled += round(pooled)
        self.drain.busy += round(drained)
        memory.beats[False] += read
        memory.beats[True] += written
        memory.bus_cycles += bus
        if (first, after) not in shape.contents:
            shape.contents[first, after] = self._content(shape, first, after)
        active, macs, table = shape.contents[first, after]
        compute.active += active
        compute.macs += macs
        self._moves.table.update(table)

    def _content(self, shape: Shape, first: int, after: int) -> Content:
        active = macs = 0
        table: Table = Counter()
        for _, number, slots in shape.pushes[first:after]:
            engine, d = _descriptor(shape, number, slots)
            if engine == "compute" and d.get("mode", 0) == VectorMode.GEMM:
                active += passes(self.config, d).active
                macs += d["n_k"] * d["n_a"] * d["n_b"]
            elif engine in ("fill", "store") and not d.get("dry"):
                self._moves.count(table, d, engine == "store", shape.owner)
        return Content(active, macs, table)


def _descriptor(shape: Shape, number: int, slots: dict[int, int]) -> tuple[str, dict[str, int]]:
    """A descriptor's engine and fields, with the cycles that a GEMM's tile takes if rows are stationary."""
    engine, d = named(number, slots)
    if shape.work and engine == "compute":
        d |= shape.work.fields(d["n_k"] * d["n_a"] * d["n_b"])
    return engine, d


class _Ahead:
    """A command of a shape in time, of which descriptors can be left out."""

    def __init__(self, core: Core, shape: Shape):
        self._core, self._shape = core, shape
        paces = [Pace(run) for run in shape.runs]
        self._steps = {
            pace.run.first + step * pace.run.step: (pace, step) for pace in paces for step in range(pace.run.times - 1)
        }  # fmt: skip
        self._marks: dict[int, Mark] = {}
        self._since: int | None = None  # commands begun on other units when the first mark was made

    def reached(self, at: int) -> int:
        """The descriptor with which to go on, once this one could be pushed."""
        end = at in self._shape.ends
        if not end and at not in self._steps:
            return at
        others = self._core.others()
        if others != self._since:
            self._marks, self._since = {}, others
        if others is None and at not in self._steps:
            return at
        mark = self._core.mark()
        if others is not None:
            known = self._shape.marks
            if at in known and (to := self._shape.last.get(self._shape.ends[at], 0)) > at:
                self._leave_out(at, to, known[at], known[to])
                return to
            if end:
                self._marks[at] = mark
        if at in self._steps:
            pace, step = self._steps[at]
            if found := pace.reached(others, mark):
                times = pace.run.times - 1 - step
                if times > 0:
                    after = at + times * pace.run.step
                    more = Mark(times * found.cycle, tuple(times * each for each in found.tallies))
                    self._core.leave_out(self._shape, at, after, more)
                    return after
        return at

    def _leave_out(self, at: int, after: int, one: Mark, other: Mark) -> None:
        more = tuple(last - before for last, before in zip(other.tallies, one.tallies, strict=True))
        self._core.leave_out(self._shape, at, after, Mark(other.cycle - one.cycle, more))
        self._marks = {}

    def end(self) -> None:
        """Let the shape keep the marks."""
        self._shape.learn(self._marks)
