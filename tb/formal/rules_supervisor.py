"""Invariants of the supervisor: the cycles of a reset, and reports on their way to the earliest ones."""

from adagp.rtl.lib.interfaces import ErrorLayout
from amaranth import Cat, Const, Signal, Value

from .harness import Harness

__all__ = ["reports_rule", "resets_rule"]


def resets_rule(h: Harness, reset_cycles: int) -> tuple[Signal, Value]:
    """A reset lasts 2 * ``reset_cycles`` cycles; ``reset`` is high in cycles 1 to ``reset_cycles``, at first also in 0.

    Returns a bit for each of the last cycles, 1 if ``reset`` was high, the latest first; and these bits' value at a
    reset's end.
    """
    dut = h.dut
    expected = [1 <= cycle <= reset_cycles for cycle in range(2 * reset_cycles)]
    resets = Signal(len(expected))  # the last cycle's first
    h.m.d.sync += resets.eq(Cat(dut.reset, resets))
    elapsed, booting = h.signal("elapsed"), h.signal("booting")  # with a reset from its first cycle on
    for cycle, high in enumerate(expected):
        h.prove(f"cycle {cycle} of a reset", (elapsed != cycle) | (dut.reset == high) | booting)
        before = Cat(Const(was, 1) for was in reversed(expected[:cycle]))
        known = (elapsed != cycle) | (resets[:cycle] == before) | booting
        h.prove(f"what comes before cycle {cycle} of a reset", known)
        h.prove(
            f"cycle {cycle} of the first reset", ~booting | (elapsed != cycle) | (dut.reset == (cycle <= reset_cycles))
        )
    h.prove("the first reset ends it", ~booting | h.state("", "RESET"))
    return resets, Cat(Const(was, 1) for was in reversed(expected[1:]))


def reports_rule(h: Harness) -> None:
    """Reports on their way to the earliest ones: a loss is reported together with a failure, and stops commands."""
    dut, level, there = h.dut, 0, []
    width = dut.n_errors
    while width > 1:
        level, width = level + 1, (width + 1) // 2
        for place in range(width):
            first, loss = (ErrorLayout(h.signal(f"{name}_{level}_{place}")) for name in ("first", "loss0"))
            there.append(first.valid)
            h.prove(f"level {level}, place {place}: what is lost has failed, or something before it",
                    ~loss.valid | (first.valid & (first.index <= loss.index)))  # fmt: skip
    for name, kept in (("first", dut.error), ("loss0", dut.lost[0])):
        candidate, earlier = ErrorLayout(h.signal(f"{name}_candidate")), h.signal(f"{name}_earlier")
        there.append(candidate.valid)
        known = kept.valid & (kept.index <= candidate.index)
        h.prove(f"{name}: earlier than what is kept, or known", ~candidate.valid | (earlier != known))
        h.prove(f"{name}: earlier only where there is a report", ~earlier | candidate.valid)
    first, loss = (ErrorLayout(h.signal(f"{name}_candidate")) for name in ("first", "loss0"))
    h.prove("what is compared and lost has failed, or something before it",
            ~loss.valid | (first.valid & (first.index <= loss.index)))  # fmt: skip
    h.prove("a report on its way keeps new commands back", ~Cat(there).any() | dut.stopping)
