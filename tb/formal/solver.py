"""Proofs by property directed reachability and bounded search in ABC, and the structural check of gate paths."""

import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import pyosys

from .netlist import Netlist

__all__ = ["Result", "solve"]

_ABC = Path(pyosys.__file__).parent / "yosys-abc"
_BOUND = re.compile(r"No output (?:asserted|failed) in (\d+) frames")
INDUCTION = (1, 2, 4)
"""Values of k that are tried."""
INDUCTION_LIMIT = 60
"""Seconds for each, or what one search of the job may take if that's more: what is inductive takes a few, but for the
sums of the update unit's job, which take minutes."""
NEAR = 25
"""Frames in which covers are searched where failures aren't."""
_FRAME = re.compile(r"asserted in frame\s+(\d+)|CEX in frame (\d+)")


@dataclass(frozen=True)
class Result:
    """The outcome of a check: ``depth`` is the frames of a trace, or of a bounded proof."""

    name: str
    kind: str
    outcome: str
    method: str
    depth: int | None
    seconds: float

    @property
    def good(self) -> bool:
        return self.outcome in ("proved", "bounded", "reached")

    def to_dict(self) -> dict:
        return asdict(self)


def _abc(netlist: Netlist, outputs: list[int], command: str, limit: float) -> str:
    """ABC's answer to ``command`` on the OR of some outputs."""
    chosen = ",".join(map(str, outputs))
    script = f"read_aiger {netlist.path}; cone -N {chosen}; scleanup; orpos; {command}"
    try:
        found = subprocess.run([_ABC, "-c", script], capture_output=True, text=True, timeout=2 * limit + 30)
    except subprocess.TimeoutExpired:
        return "timed out"
    return found.stdout + found.stderr


def _frame(text):
    found = _FRAME.search(text)
    return None if found is None else int(found[1] or found[2])


def _induction(netlist, numbers, limit) -> int | None:
    """The k with which some assertions together are k-inductive, None if none of ``INDUCTION`` is.

    0 for those that hold whatever the state.
    """
    limit = max(limit, INDUCTION_LIMIT)
    for k in INDUCTION:
        begin = time.monotonic()
        found = _abc(netlist, numbers, f"ind -F {k + 1} -T {limit}", limit)
        if "network is combinational" in found:
            return 0 if "UNSATISFIABLE" in _abc(netlist, numbers, "sat", limit) else None
        if "are equivalent" in found:
            text = _abc(netlist, numbers, f"bmc3 -F {k + 1}", limit)
            found = _BOUND.search(text)
            return k if _frame(text) is None and found and int(found[1]) >= k else None
        # ABC says "UNDECIDED" of what isn't inductive and of what it had no time for; the latter takes longer still
        # with more frames.
        if time.monotonic() - begin >= limit:
            return None
    return None


def _reachability(netlist, numbers, limit) -> bool:
    """True if property directed reachability proves some assertions together."""
    return "Property proved" in _abc(netlist, numbers, f"pdr -T {limit}", limit)


class _Assertions:
    """The assertions of a netlist: those that are left, and what became of the others."""

    def __init__(self, netlist: Netlist, depth: int | None, limit: int, progress: Callable[[Result], None]):
        self.netlist, self.depth, self.limit, self.progress = netlist, depth, limit, progress
        self.left = [n for n, (kind, _) in netlist.outputs.items() if kind == "assert"]
        self.results = [
            Result(name, kind, "proved", "constant", None, 0.0) for kind, name in netlist.constant if kind == "assert"
        ]  # fmt: skip

    def _settle(self, numbers, outcome, method, depth, begin):
        seconds = (time.monotonic() - begin) / len(numbers)
        for number in numbers:
            self.left.remove(number)
            self.results.append(Result(self.netlist.outputs[number][1], "assert", outcome, method, depth, seconds))
            self.progress(self.results[-1])

    def prove(self):
        """All at once by induction, those that this doesn't prove each by itself, the rest by reachability."""
        for numbers in (tuple(self.left), *((number,) for number in self.left)):
            if set(numbers) <= set(self.left):
                begin = time.monotonic()
                if numbers and (k := _induction(self.netlist, numbers, self.limit)) is not None:
                    self._settle(numbers, "proved", "induction", k, begin)
        begin, numbers = time.monotonic(), tuple(self.left)
        if numbers and _reachability(self.netlist, numbers, self.limit // 4):
            self._settle(numbers, "proved", "pdr", None, begin)

    def search(self):
        """The remaining checks, one by one: refuted, proved by reachability, or without failure up to ``depth``.

        Without ``depth`` it stays open.
        """
        for number in tuple(self.left):
            begin = time.monotonic()
            if self.depth is None:
                self._settle([number], "open", "none", None, begin)
                continue
            text = _abc(self.netlist, [number], f"bmc3 -F {self.depth} -T {self.limit}", self.limit)
            found = _BOUND.search(text)
            bound = int(found[1]) if found else 0
            if (frame := _frame(text)) is not None:
                self._settle([number], "failed", "bmc", frame + 1, begin)
            elif _reachability(self.netlist, [number], self.limit):
                self._settle([number], "proved", "pdr", None, begin)
            else:
                self._settle([number], "bounded" if bound >= self.depth else "open", "bmc", bound, begin)


def _reached(netlist, number, depth, limit) -> int | None:
    """The frames of a trace that reaches a cover; None if none is found.

    The shortest, but where it takes too long to rule out shorter ones, one of another length.
    """
    for begin in (0, depth // 2, depth - 1):
        frame = _frame(_abc(netlist, [number], f"bmc3 -S {begin} -F {depth} -T {limit}", limit))
        if frame is not None:
            return frame + 1
    return None


def _covers(netlist, depth, limit, far, progress) -> list[Result]:
    results = [
        Result(name, kind, "unreached", "constant", None, 0.0) for kind, name in netlist.constant if kind == "cover"
    ]  # fmt: skip
    for number, (kind, name) in netlist.outputs.items():
        if kind == "cover" and not any(part in name for part in far):
            begin = time.monotonic()
            reached = _reached(netlist, number, depth, limit)
            outcome = "unreached" if reached is None else "reached"
            results.append(Result(name, "cover", outcome, "bmc", reached, time.monotonic() - begin))
            progress(results[-1])
    return results


def solve(
    build: Callable,
    depth: int | None,
    limit: int,
    far: tuple[str, ...] = (),
    progress: Callable = lambda result: None,
) -> list[Result]:
    """All checks of the netlist that ``build(doubtful)`` makes (see :func:`.netlist.build`).

    ``depth``: how far is searched; None: not at all for failures, and ``NEAR`` for covers. Covers whose names contain
    one of ``far`` are left out. ``limit``: seconds for one search. ``progress`` sees each result as it comes.
    Assertions help to prove each other, so all are proved anew without those that turned out not to hold for good, if
    there are any.
    """
    doubtful: frozenset[str] = frozenset()
    while True:
        netlist = build(doubtful)
        assertions = _Assertions(netlist, depth, limit, progress)
        assertions.prove()
        assertions.search()
        unproved = {result.name for result in assertions.results if result.outcome != "proved"}
        if unproved <= doubtful:
            return assertions.results + _covers(netlist, depth or NEAR, limit, far, progress)
        doubtful |= unproved
