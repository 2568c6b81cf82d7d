"""Ways to train: plain training for part of the epochs, and those that replace some batches' backward pass."""

from collections import Counter
from dataclasses import dataclass

from ...algorithm import PredictorSettings, schedule
from ...algorithm.paper_numbers import EPOCHS, PHASES, WARMUP_EPOCHS
from ...algorithm.schedules import Position, phase_name
from ...spec.schedule import KEEP, Schedule
from .ideas import IDEAS

__all__ = ["ALL_METHODS", "METHODS", "PLAIN", "STALE_METHODS", "Method", "Pipelining"]

PLAIN = (1.0, 0.85, 0.7, 0.55, 0.4)
"""Budgets of plain training, as shares of the epochs: the line that methods are compared with."""


@dataclass(frozen=True)
class Pipelining:
    """Pipelined training with stale weights. ``depth``: share of the layers or blocks up to which the network is cut
    before each, at least before the second. ``schedule``: one of ``adagp pipeline`` that isn't flushed. ``stash``: with
    old weights kept for backward passes. ``share``: of the epochs; later ones aren't pipelined.
    """

    depth: float
    schedule: str = "stale-registers"
    stash: bool = False
    share: float = 1.0


@dataclass(frozen=True)
class Method:
    """``share`` of the epochs are run. ``entries``: of the schedule behind the warm-up, "paper" for the paper's.

    ``source``: of gradients in GP batches, of :data:`adagp.spec.schedule.SOURCES`, "dni", or one of :mod:`.ideas`.
    ``raw``: the predictor as the paper has it, its targets not normalised. ``gate``: see :class:`adagp.AdaGP`.
    ``every``, ``gp_momentum``: as ``predictor_every`` and ``gp_momentum`` of :class:`adagp.AdaGP`.
    ``deferred``: with steps of GP batches that wait, see :mod:`.deferred`; they keep momentum.
    ``pipelining``: in place of these, with source "stale".
    """

    name: str
    share: float = 1.0
    source: str = "predicted"
    entries: str | tuple[tuple[int, int, int], ...] = ()
    raw: bool = False
    gate: float | None = None
    every: int = 1
    gp_momentum: str = "update"
    deferred: bool = False
    pipelining: Pipelining | None = None

    @property
    def plain(self) -> bool:
        """True for plain training."""
        return not self.entries and not self.pipelining

    def schedule(self, epochs: int) -> Schedule:
        """For a run of ``epochs``: warm-up, and of the paper's table each entry, in the paper's proportion."""
        if not self.entries:
            return schedule(max(1, epochs))

        def part(of: int) -> int:
            return max(1, round(of * epochs / EPOCHS))

        table = [(part(n), gp, bp) for n, gp, bp in PHASES] if self.entries == "paper" else self.entries
        return schedule(part(WARMUP_EPOCHS), *table)

    def planned(self, epochs: int, n_batches: int) -> dict[str, int]:
        """Batches of a run by phase; a gate is taken as closed."""
        position, found, is_open = Position(self.schedule(epochs)), Counter[str](), self.gate is None
        for _ in range(epochs):
            for _ in range(n_batches):
                found[phase_name(position.next(is_open))] += 1
                position.advance(is_open)
            position.end_epoch()
        return dict(found)

    @property
    def predictor(self) -> PredictorSettings:
        """Its predictor's settings."""
        return PredictorSettings.paper() if self.raw else PredictorSettings()


_EVEN = ((1, 1, 1),)
"""One batch with other gradients for each with true ones."""

METHODS = {method.name: method for method in (
    *(Method(f"bp-{share:g}", share=share, source="skip") for share in PLAIN),
    Method("ada-gp", entries="paper"),
    Method("ada-gp-1:1", entries=_EVEN),
    Method("ada-gp-raw", entries="paper", raw=True),
    Method("ada-gp-gated", entries="paper", gate=0.1),
    Method("ada-gp-every-4", entries="paper", every=4),
    Method("ada-gp-keep", entries="paper", gp_momentum=KEEP),
    *(Method(f"ada-gp-every-{every}-keep", entries="paper", every=every, gp_momentum=KEEP) for every in (4, 16)),
    Method("ada-gp-deferred", entries="paper", gp_momentum=KEEP, deferred=True),
    Method("ada-gp-every-4-deferred", entries="paper", every=4, gp_momentum=KEEP, deferred=True),
    *(Method(f"{source}-1:1", source=source, entries=_EVEN)
      for source in ("random", "zero", "last", "mean", "skip", "dni", *IDEAS)),
    Method("skip", source="skip", entries="paper"),
    *(Method(f"{name}-{gp}:{bp}", source=source, entries=((1, gp, bp),))
      for name, source in (("ada-gp", "predicted"), ("skip", "skip")) for gp, bp in ((2, 1), (1, 2))),
    *(Method(f"half-{gp}:{bp}", source="half", entries=((1, gp, bp),)) for gp, bp in ((3, 1), (1, 0))),
    Method("coarse", source="coarse", entries="paper"),
    Method("coarse-1:0", source="coarse", entries=((1, 1, 0),)),
)}  # fmt: skip
"""By name."""

STALE_METHODS = {name: Method(name, source="stale", pipelining=pipelining) for name, pipelining in (
    ("stale-early", Pipelining(0.0)),
    ("stale-half", Pipelining(0.5)),
    ("stale-deep", Pipelining(1.0)),
    ("stale-1f1b", Pipelining(1.0, "stale-1f1b")),
    ("stale-stash", Pipelining(1.0, stash=True)),
    ("stale-hybrid", Pipelining(1.0, share=0.5)),
)}  # fmt: skip
"""By name; they cost what plain training does, and aren't part of the comparison at equal cost."""

ALL_METHODS = METHODS | STALE_METHODS
"""By name."""
