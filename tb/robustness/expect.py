"""The expected outcome of a program with commands of any kind: the golden model runs it and judges each."""

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from adagp.golden.footprint import reads, writes
from adagp.golden.judge import Surroundings, Verdict, judge
from adagp.golden.program import GoldenMachine
from adagp.spec.commands import COMMAND_BYTES, Command, Opcode
from adagp.spec.errors import ErrorCode
from adagp.spec.opcodes import NORMS, UPDATES
from adagp.spec.operands import WAITS, counted, operands
from adagp.spec.registers import Status

from .extent import HUGE, Interval, a_base, is_work, mask, overlap, spans, work

__all__ = ["BARRIERS", "DECODE", "Behind", "Course", "Expectation"]

DECODE = {ErrorCode[name] for name in ("BAD_OPCODE", "CONFIG_MISMATCH", "BAD_WAIT", "BAD_TENSOR", "BAD_ADDRESS")}
"""Errors of fetch's checks."""
READ_TABLES = tuple(opcode for opcode in NORMS if opcode != Opcode.NORM_SUMS)
"""Commands whose results are undefined, since here the numbers in their tables may have any bits."""
BARRIERS = (Opcode.COMMIT, Opcode.HOST, Opcode.END)
"""Commands that wait for all commands before them."""


@dataclass(frozen=True)
class Behind:
    """A command after the failing one that may still be executed: its index, result, and the commands it waits for."""

    index: int
    target: np.ndarray
    awaited: set[int]


@dataclass
class Course:
    """The expected memory, and the command at which the program stops.

    ``loose``: bytes of the failing command's result; each may have its value in ``memory`` or in ``other``.
    ``behind``: commands after the failing one; each result as a whole must be as in ``memory`` or as in ``other``.
    ``free``: bytes of any value.
    ``fate``: outcome of the command at the place of interest.
    ``codes``: errors with which the program may stop at ``index``; empty if it runs to its end.
    ``open``: the golden model stopped at ``index``, and the outcome of later commands isn't known.
    """

    memory: np.ndarray
    other: np.ndarray
    loose: np.ndarray
    free: np.ndarray
    behind: list[Behind] = field(default_factory=list)
    fate: str = "not reached"
    codes: set[ErrorCode] = field(default_factory=set)
    index: int = 0
    open: bool = False


class Expectation:
    """A program under way in ``golden``. Its memory holds ``image``, followed by zeroes as room to compute results.

    The program lies at address 0 of the memory. ``serial``: each command waits for all before it, even if its own waits
    ask for fewer.
    """

    def __init__(self, golden: GoldenMachine, image: np.ndarray, commands: list, regions: list[Interval], serial: bool):
        self.golden, self.image, self.commands, self.regions = golden, image, commands, regions
        self.config, self.n_bytes, self.serial = golden.config, image.size, serial
        golden.memory[: self.n_bytes], golden.memory[self.n_bytes :] = image, 0
        memory = golden.memory[: self.n_bytes]
        self.course = Course(memory, memory, np.zeros(self.n_bytes, bool), np.zeros(self.n_bytes, bool))
        self.handed: dict[str, list[int]] = {kind: [] for kind in WAITS}  # indices, by the counter that counts them
        self.latest: dict[str, int] = {}  # index, by queue
        self.sums = 0  # number of known sums, from the last FORWARD with reorganise
        self.awaited: dict[int, set[int]] = {}  # commands complete when a command begins
        self.touching: dict[int, Command] = {}  # commands that accessed memory so far, in full or in part

    def follow(self, place: int, stopped: int | None) -> Course:
        """Go through the program. ``stopped``: where the accelerator stopped; decides between two right outcomes."""
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
        """Judge one command; returns its fate, and True if the program goes on."""
        course, golden = self.course, self.golden
        if command and index and not command.phase_mask & 1:
            return "skipped", True
        verdict = self._judge(command)
        names = [code.name for code in sorted(verdict.codes)]
        fate = "either " + " or ".join(names) if len(names) > 1 else names[0]
        if ErrorCode.NONE not in verdict.codes or (stopped == index and len(names) > 1):
            course.codes, course.index = set(verdict.codes - {ErrorCode.NONE}), index
            self._fail(index, command, verdict)
            return fate, False
        if not is_work(command, self.config):
            fate = command.opcode.name
        else:
            fate = "executed" if len(names) == 1 else fate
            self._hand_out(index, command)
            doubtful = self._doubtful(index, command)
            if doubtful is not None:
                self.release(doubtful)
            if not self._known(command):
                course.open, course.index = True, index
                huge = work(command, self.config) > HUGE
                return "too much work" if huge else f"{fate}, {self._unknown(command)}", False
            if doubtful is not None:
                fate += ", overlapping"
            self.touching[index] = command
        golden.step()
        if golden.status & Status.HOST:
            golden.resume()
        if golden.status == Status.ERROR:
            course.codes, course.index = {golden.error}, index
            return golden.error.name, False
        return fate, True

    def release(self, first: int) -> None:
        """Results of the commands from ``first`` on may be anything."""
        for command in self.commands[first:]:
            if is_work(command, self.config):
                self.course.free |= self._target(command)

    def _target(self, command):
        return mask(spans(writes(command, self.config)), self.n_bytes)

    def _judge(self, command) -> Verdict:
        if command is None:
            return Verdict(frozenset({ErrorCode.BAD_OPCODE}))
        given = {kind: len(handed) for kind, handed in self.handed.items()}
        return judge(command, self.config, Surroundings(self.n_bytes, self.regions, self._a_base(command), given))

    def _hand_out(self, index, command):
        """Put ``command`` at the end of its queue."""
        handed = [k for kind, indices in self.handed.items() for k in indices[: getattr(command, kind)]]
        kind = counted(command)
        queue = "wait_main" if kind == "wait_predictor" and self.config.n_cores == 1 else kind
        earlier = [self.latest[queue]] if queue in self.latest else []
        awaited = set(handed).union(*(self.awaited[k] for k in [*handed, *earlier]))
        self.awaited[index] = set(self.awaited) if self.serial else awaited
        self.handed[kind].append(index)
        self.latest[queue] = index
        if command.opcode == Opcode.FORWARD and command.reorganise:
            self.sums = max(self.sums, 4 * command.q)

    def _fail(self, index, command, verdict):
        """Let ``command`` fail, and note the results that it and later commands may have written."""
        course = self.course
        course.memory = course.memory.copy()
        if course.free.any() or verdict.codes & DECODE:  # some results are free already, or no later command has begun
            return
        self._hand_out(index, command)
        if not verdict.partial:
            self._leave_out(index)
        elif (doubtful := self._doubtful(index, command)) is not None:
            self.release(doubtful)
            return
        else:
            self.golden.step()
            program = len(self.commands) * COMMAND_BYTES  # golden has written where no region is, too
            self.golden.memory[:program] = self.image[:program]
            course.loose |= self._target(command)
            self.touching[index] = command
        self._go_behind(index)

    def _leave_out(self, index):
        """Have the golden model skip a command."""
        self.golden.memory[index * COMMAND_BYTES + 1] = 0  # its phase mask

    def _go_behind(self, failing):
        """Find the commands after the failing one that may be executed, and compute their results."""
        behind, never = [], {failing}
        for index, command in enumerate(self.commands[failing + 1 :], failing + 1):
            if command and not command.phase_mask & 1:
                continue
            verdict = self._judge(command)
            if verdict.codes & DECODE or command.opcode in BARRIERS:
                break
            if command.opcode == Opcode.HEADER:
                self._leave_out(index)
                continue
            self._hand_out(index, command)
            refused = ErrorCode.NONE not in verdict.codes and not verdict.partial
            if refused or never & self.awaited[index]:
                never.add(index)
                self._leave_out(index)
                continue
            first = self._doubtful(index, command, failing)
            if first is None and (verdict.partial or len(verdict.codes) > 1):
                first = index
            if first is not None:
                self.release(first)
                behind = [one for one in behind if one.index < first]
                break
            self.golden.step()
            self.touching[index] = command
            behind.append(Behind(index, self._target(command), self.awaited[index]))
        self.course.behind = behind

    def _a_base(self, command):
        return a_base(command, self.golden.ring_base)

    def _known(self, command):
        """True if golden can compute the result."""
        places = operands(command, self.config, self._a_base(command)).values()
        inside = all(place.address + place.n_bytes <= self.golden.memory.size for place in places)
        return inside and work(command, self.config) <= HUGE and command.opcode not in READ_TABLES

    @staticmethod
    def _unknown(command):
        """Why golden can't compute the result of a command that is small enough."""
        return "tables of any bits" if command.opcode in READ_TABLES else "tensors beyond memory"

    def _doubtful(self, index, command, failing=None):
        """The first command whose result depends on time if ``command`` is executed, None if none does.

        It is the first command with which ``command`` shares memory without waiting for it; commands from ``failing``
        on count even if it waits for them. Otherwise it is ``command`` itself, if its results overlap its inputs or
        each other, or if it needs sums that an earlier program left. If golden can't compute the result of ``command``,
        it is any command for which it doesn't wait.
        """
        if not self._known(command):
            return index if len(self.awaited[index]) == len(self.awaited) - 1 else 0
        read, written = reads(command, self.config, self._a_base(command)), writes(command, self.config)
        for k, earlier in self.touching.items():
            settled = k in self.awaited[index] and (failing is None or k < failing)
            if not settled and self._meets(read, written, earlier):
                return k
        in_place = written if command.opcode in UPDATES else {}
        inputs = spans({name: runs for name, runs in read.items() if name not in in_place})
        pairs = combinations([runs.intervals() for runs in written.values()], 2)
        clash = any(overlap(one, other) for one, other in pairs)
        unknown = command.opcode == Opcode.REORGANISE and command.c > self.sums
        return index if unknown or clash or overlap(inputs, spans(written)) else None

    def _meets(self, read, written, earlier):
        before = spans(reads(earlier, self.config, self._a_base(earlier)))
        results = spans(writes(earlier, self.config))
        return overlap(spans(read) + spans(written), results) or overlap(spans(written), before)
