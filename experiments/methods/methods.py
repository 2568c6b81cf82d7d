"""Ways to train: plain training for part of the epochs, and those that replace some batches' backward pass."""

from collections import Counter
from dataclasses import dataclass

from ...algorithm import PredictorSettings, schedule
from ...algorithm.paper_numbers import EPOCHS, PHASES, WARMUP_EPOCHS
from ...algorithm.schedules import Position, phase_name
from ...spec.schedule import Schedule
from .ideas import IDEAS

__all__ = ["METHODS", "PLAIN", "Method"]

PLAIN = (1.0, 0.85, 0.7, 0.55, 0.4)
"""Budgets of plain training, as shares of the epochs: the line that methods are compared with."""


@dataclass(frozen=True)
class Method:
    """``share`` of the epochs are run. ``entries``: of the schedule behind the warm-up, "paper" for the paper's.

    ``source``: of gradients in GP batches, of :data:`adagp.spec.schedule.SOURCES`, "dni", or one of :mod:`.ideas`.
    ``raw``: the predictor as the paper has it, its targets not normalised. ``gate``: see :class:`adagp.AdaGP`.
    """

    name: str
    share: float = 1.0
    source: str = "predicted"
    entries: str | tuple[tuple[int, int, int], ...] = ()
    raw: bool = False
    gate: float | None = None

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
