"""What must become of a program with commands of any kind: the golden model goes through it, judging each."""

from dataclasses import dataclass, field

import numpy as np
from adagp.golden.footprint import Runs, reads, writes
from adagp.golden.judge import Surroundings, Verdict, judge
from adagp.golden.occupancy import Tile
from adagp.golden.operands import COMPUTE, operands
from adagp.golden.program import GoldenMachine
from adagp.golden.validate import validate
from adagp.spec.commands import Command, Opcode
from adagp.spec.config import Config
from adagp.spec.errors import ErrorCode
from adagp.spec.registers import Status

__all__ = ["DECODE", "HUGE", "Course", "Expectation", "a_base", "is_work", "mask", "spans", "work"]

Interval = tuple[int, int]

HUGE = 7_000
"""Cycles of work from which on the golden model doesn't execute a command."""
DECODE = {ErrorCode[name] for name in ("BAD_OPCODE", "CONFIG_MISMATCH", "BAD_WAIT", "BAD_TENSOR", "BAD_ADDRESS")}
"""Errors of fetch's checks."""


def is_work(command: Command | None, config: Config) -> bool:
    """Whether it is a compute or UPDATE command that isn't refused for its fields alone."""
    if command is None or (command.opcode not in COMPUTE and command.opcode != Opcode.UPDATE):
        return False
    return validate(command, config) == ErrorCode.NONE


def work(command: Command | None, config: Config) -> int:
    """About the cycles of a command, upwards."""
    if command is None or not is_work(command, config):
        return 0
    if command.opcode == Opcode.UPDATE:
        return 100 + 4 * command.count
    t = Tile(command)
    tiles = int(np.prod(t.counts, dtype=object))
    rows = t.taps * t.i if t.weight else t.pixels
    depth = t.images * t.grid_h * t.grid_w if t.weight else t.taps * t.i
    fills = t.images * t.wide * t.tall * t.i + depth * t.o
    held, streamed = (rows, t.o) if command.swap else (t.o, rows)
    load = config.rows + config.cols + 4
    passes = -(-depth // config.rows) * -(-held // config.cols)
    array = depth * t.pixels if t.pool else passes * max(streamed, load)
    return 1500 + tiles * (600 + fills + array + 3 * rows * t.o)


def a_base(command: Command, ring_base: int) -> int:
    """Where operand A lies, when the ring has one entry."""
    ring = ring_base if command.ring and command.opcode in COMPUTE else 0
    return (command.a_addr + ring) & 0xFFFF_FFFF


def spans(places: dict[str, Runs]) -> list[Interval]:
    """First address and the one after the last, run by run."""
    return [interval for runs in places.values() for interval in runs.intervals()]


def mask(intervals: list[Interval], n_bytes: int) -> np.ndarray:
    """Which of ``n_bytes`` lie in the intervals."""
    found = np.zeros(n_bytes, bool)
    for start, end in intervals:
        found[start:end] = True
    return found


def _overlap(some: list[Interval], others: list[Interval]) -> bool:
    return any(a < d and c < b for a, b in some for c, d in others)


@dataclass
class Course:
    """What the memory must hold, and where the program stops.

    ``loose``: bytes of the failing command's result, which may hold those of ``other``; ``free``: any value. ``fate``:
    what becomes of the command at ``place``. ``codes``: errors that the program may stop with at ``index``; empty: it
    ends. ``open``: the golden model left off at ``index``, what comes behind isn't known.
    """

    memory: np.ndarray
    other: np.ndarray
    loose: np.ndarray
    free: np.ndarray
    fate: str = "not reached"
    codes: set[ErrorCode] = field(default_factory=set)
    index: int = 0
    open: bool = False


class Expectation:
    """A program under way in ``golden``, whose memory holds ``image`` and, behind it, zeroes to work out results in."""

    def __init__(self, golden: GoldenMachine, image: np.ndarray, commands: list, regions: list[Interval]):
        self.golden, self.image, self.commands, self.regions = golden, image, commands, regions
        self.config, self.n_bytes = golden.config, image.size
        golden.memory[: self.n_bytes], golden.memory[self.n_bytes :] = image, 0
        memory = golden.memory[: self.n_bytes]
        self.course = Course(memory, memory, np.zeros(self.n_bytes, bool), np.zeros(self.n_bytes, bool))
        self.done: list[Command] = []
        self.given = {"wait_main": 0, "wait_update": 0}

    def follow(self, place: int, stopped: int | None) -> Course:
        """Go through the program; ``stopped``: where the accelerator did, which decides if both would be right."""
        for index, command in enumerate(self.commands):
            if self.golden.status != Status.BUSY:
                break
            fate, goes_on = self._pass(index, command, stopped)
            if index == place:
                self.course.fate = fate
            if not goes_on:
                break
        return self.course

    def _pass(self, index, command, stopped):
        """One command: what becomes of it, and whether the program goes on."""
        course, golden = self.course, self.golden
        if command and index and not command.phase_mask & 1:
            return "skipped", True
        verdict = self._judge(command)
        names = [code.name for code in sorted(verdict.codes)]
        fate = "either " + " or ".join(names) if len(names) > 1 else names[0]
        if ErrorCode.NONE not in verdict.codes or (stopped == index and len(names) > 1):
            course.codes, course.index = set(verdict.codes - {ErrorCode.NONE}), index
            self._fail(command, verdict)
            return fate, False
        if not is_work(command, self.config):
            fate = command.opcode.name
        else:
            fate = "executed" if len(names) == 1 else fate
            if not self._known(command):
                course.open, course.index = True, index
                self.release(self.commands[index:])
                huge = work(command, self.config) > HUGE
                return "too much work" if huge else f"{fate}, tensors beyond memory", False
            if self._ambiguous(command):
                fate += ", overlapping"
                self.release(self.commands[index:])
            self.done.append(command)
            self.given["wait_main" if command.opcode in COMPUTE else "wait_update"] += 1
        golden.step()
        if golden.status & Status.HOST:
            golden.resume()
        if golden.status == Status.ERROR:
            course.codes, course.index = {golden.error}, index
            return golden.error.name, False
        return fate, True

    def release(self, commands: list) -> None:
        """What ``commands`` write may come out anyhow."""
        for command in commands:
            if is_work(command, self.config):
                self.course.free |= self._target(command)

    def _target(self, command):
        return mask(spans(writes(command, self.config)), self.n_bytes)

    def _judge(self, command) -> Verdict:
        if command is None:
            return Verdict(frozenset({ErrorCode.BAD_OPCODE}))
        around = Surroundings(self.n_bytes, self.regions, self._a_base(command), self.given)
        return judge(command, self.config, around)

    def _fail(self, command, verdict):
        """``command`` fails; what it may have written. Those before it are complete."""
        course = self.course
        if not verdict.partial:
            return
        target = self._target(command)
        if course.free.any() or not self._known(command) or self._ambiguous(command):
            course.free |= target
            return
        course.memory = course.memory.copy()
        self.golden.step()
        course.other = np.where(target, self.golden.memory[: self.n_bytes], course.other)
        course.loose |= target

    def _waits(self, command):
        """Whether it begins when all before it are complete."""
        return all(getattr(command, name) == count for name, count in self.given.items())

    def _a_base(self, command):
        return a_base(command, self.golden.ring_base)

    def _known(self, command):
        """Whether golden can work out the result."""
        places = operands(command, self.config, self._a_base(command)).values()
        inside = all(place.address + place.n_bytes <= self.golden.memory.size for place in places)
        return inside and work(command, self.config) <= HUGE

    def _ambiguous(self, command):
        """Whether results depend on time: it writes what it reads, or doesn't wait for what it shares memory with."""
        read, written = reads(command, self.config, self._a_base(command)), writes(command, self.config)
        in_place = written if command.opcode == Opcode.UPDATE else {}
        results = list(written.values())
        if _overlap(spans({name: runs for name, runs in read.items() if name not in in_place}), spans(written)):
            return True
        pairs = [(one, other) for i, one in enumerate(results) for other in results[i + 1 :]]
        if any(_overlap(one.intervals(), other.intervals()) for one, other in pairs):
            return True
        return not self._waits(command) and any(self._meets(read, written, earlier) for earlier in self.done)

    def _meets(self, read, written, earlier):
        before = spans(reads(earlier, self.config, self._a_base(earlier)))
        results = spans(writes(earlier, self.config))
        return _overlap(spans(read) + spans(written), results) or _overlap(spans(written), before)
