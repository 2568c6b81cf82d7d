"""Work of the machine that repeats, so that it needs to run once: tiles of a command, and commands of a shape.

Tiles that differ in their addresses alone take the same time again and again, and so do commands. :class:`Known`
keeps commands by shape, with the stretches of descriptors that repeat and the cycles in which descriptors were pushed
while no other unit worked. What is left out this way is exact in bytes and products, and nearly in cycles.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...spec.microcode.descriptors import ENGINES
from .row_stationary import Work
from .traffic import Places, Table

__all__ = ["DEEP", "Content", "Known", "Mark", "Pace", "Raw", "Run", "Shape", "kinds", "runs"]

IN_PLACE = frozenset(("command", "half", "dram", "sp", "at", "n_values", "fresh"))
"""Fields that say where a descriptor works, not for how long. The first pixel of a dropout is ``n_values``."""
OF_SUMS = "row"
"""Field of drain that only window sums depend on."""
DEEP = 24
"""Descriptors that are more than what is under way between sequencer and engines."""
FEWEST = 4
"""Steps that a run has at least: one to get under way, one that is timed, what is left out, and one to end with."""
NEAR = 64
"""Two steps keep pace if their cycles differ by this part at most."""
STARTS = 12
"""Places in a command, at most, from which no run begins, before the rest is taken to have none."""
MOST = 3_000_000
"""Descriptors that are kept at most, some gigabytes."""


def _numbers(*names: str) -> list[frozenset[int]]:
    """Numbers of fields by engine."""
    return [frozenset(n for n, bits in enumerate(layout) if bits.name in names) for layout in ENGINES.values()]


_PLACES, _PLACES_UNSUMMED, _SUMS, _CLOSE = (
    _numbers(*IN_PLACE), _numbers(*IN_PLACE, OF_SUMS), _numbers("reorganise"), _numbers("close"),
)  # fmt: skip

Raw = tuple[int, int, dict[int, int]]
"""A descriptor as the sequencer makes it: cycle of its push, number of its engine, values by the number of a field."""


class Run(NamedTuple):
    """From the descriptor ``first`` on, ``step`` descriptors ``times`` times."""

    first: int
    step: int
    times: int


class Mark(NamedTuple):
    """A descriptor's push in time: its cycle, and what units have counted by then."""

    cycle: int
    tallies: tuple[float, ...]


class Content(NamedTuple):
    """The work of some descriptors: cycles with a vector in the array, products, bytes."""

    active: int
    macs: int
    table: Table


@dataclass
class Shape:
    """Commands that differ in their tensors' places alone.

    ``owner``: name of the command, and its tensors. ``ends``: descriptors that follow a tile's end, DEEP apart or more,
    with what is under way there. ``marks``: of some of them, from a command that ran while no other unit worked;
    ``last``: the last of them by what is under way. ``named``: descriptors by field name, of those that have run.
    ``work``: that of a row-stationary array.
    """

    pushes: list[Raw]
    cycles: int
    owner: tuple[str, Places]
    runs: list[Run]
    ends: dict[int, tuple[int, ...]] = field(default_factory=dict)
    marks: dict[int, Mark] = field(default_factory=dict)
    last: dict[tuple[int, ...], int] = field(default_factory=dict)
    contents: dict[tuple[int, int], Content] = field(default_factory=dict)
    named: dict[int, tuple[str, dict[str, int]]] = field(default_factory=dict)
    work: Work | None = None

    def learn(self, marks: dict[int, Mark]) -> None:
        """Keep marks of a command, if they are more than there are; the last descriptors are to run all the same."""
        if len(marks) > len(self.marks):
            self.marks = marks
            self.last = {self.ends[at]: at for at in sorted(marks) if at <= len(self.pushes) - DEEP}


class Known:
    """Shapes of the commands of a configuration's cores; several devices may share one."""

    def __init__(self) -> None:
        self.shapes: dict[tuple, Shape] = {}
        self.size = 0

    def add(
        self, key: tuple, pushes: list[Raw], cycles: int, owner: tuple[str, Places], work: Work | None = None
    ) -> Shape:
        """Keep a new shape; all others are forgotten if there are too many."""
        if self.size > MOST:
            self.shapes.clear()
            self.size = 0
        self.size += len(pushes)
        numbers = kinds(pushes)
        self.shapes[key] = Shape(pushes, cycles, owner, runs(numbers), _ends(pushes, numbers), work=work)
        return self.shapes[key]


def _ends(pushes: Sequence[Raw], numbers: list[int]) -> dict[int, tuple[int, ...]]:
    """Descriptors after a tile's last one, at which engines owe each other no token but for what is under way.

    With each come the kinds of those before it, which are what is under way.
    """
    found: dict[int, tuple[int, ...]] = {}
    last = 0
    for at, (_, engine, slots) in enumerate(pushes, 1):
        if at - last >= DEEP and any(slots.get(number) for number in _CLOSE[engine]):
            found[at] = tuple(numbers[at - DEEP : at])
            last = at
    return found


def kinds(pushes: Sequence[Raw]) -> list[int]:
    """Numbers of descriptors, equal for those that take the same time."""
    known: dict[tuple, int] = {}
    numbers = []
    for _, engine, slots in pushes:
        summed = any(slots.get(number) for number in _SUMS[engine])
        places = (_PLACES if summed else _PLACES_UNSUMMED)[engine]
        kind = (engine, *(item for item in slots.items() if item[0] not in places))
        numbers.append(known.setdefault(kind, len(known)))
    return numbers


def runs(numbers: list[int]) -> list[Run]:
    """Stretches of descriptors' kinds that repeat, in order; each is the one that repeats most from its place."""
    found, first, tries = [], 0, 0
    while len(numbers) - first > DEEP * FEWEST and tries < STARTS:
        step, length = _repeat(numbers[first:])
        if step:
            found.append(Run(first, step, length // step))
            first += length // step * step
        else:
            first, tries = first + min(1 << tries, (len(numbers) - first) // STARTS), tries + 1
    return found


def _repeat(numbers: list[int]) -> tuple[int, int]:
    """The step by which a list repeats from its beginning, of DEEP numbers or more, and the repeats' length; or 0, 0.

    ``reach[i]``: how far the list from i on is like the list itself (Gusfield's Z).
    """
    n = len(numbers)
    reach = [0] * n
    left = right = best = saved = 0
    for i in range(1, n):
        same = min(right - i, reach[i - left]) if i < right else 0
        while i + same < n and numbers[same] == numbers[i + same]:
            same += 1
        reach[i] = same
        if i + same > right:
            left, right = i, i + same
        if same > saved:
            step = i * -(-DEEP // i)
            left_out = same + i - FEWEST * step
            if left_out > saved:
                best, saved = step, left_out
    return (best, best and saved + FEWEST * best)


class Pace:
    """The steps of a run in time: whether those to come can be left out, and what each of them takes."""

    def __init__(self, run: Run):
        self.run = run
        self._marks: list[tuple[int, Mark]] = []

    def reached(self, others: int | None, mark: Mark) -> Mark | None:
        """Cycles and tallies of a step, if steps keep pace up to this one's beginning.

        ``others``: commands begun on other units until now, None if one of them is at work.
        """
        if others is None or (self._marks and self._marks[-1][0] != others):
            self._marks = []
        if others is None:
            return None
        self._marks.append((others, mark))
        if len(self._marks) < FEWEST - 1:
            return None
        one, two, three = (each for _, each in self._marks[1 - FEWEST :])
        first, second = two.cycle - one.cycle, three.cycle - two.cycle
        if abs(first - second) * NEAR > first:
            return None
        return Mark(second, tuple(last - before for last, before in zip(three.tallies, two.tallies, strict=True)))
