"""Progress of a training run: counts, sums and the log, as a checkpoint keeps them."""

from dataclasses import dataclass, field

from ...spec.phases import PHASE_NAMES

__all__ = ["Progress"]


@dataclass
class Progress:
    """State of a run on the host's side; with the device's state it is all that a checkpoint needs."""

    epoch: int = 0
    step: int = 0
    """Batches done in this epoch."""
    loss_sum: float = 0.0
    correct: int = 0
    images: int = 0
    """Images of this epoch whose loss is known."""
    log: list[dict] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    """Training counters since the run began, as of the last :meth:`Trainer.read_counters`."""
    device_seconds: float = 0.0
    host_seconds: float = 0.0
    """All seconds of batches but the device's."""
    island_seconds: float = 0.0
    """Those of the host's seconds that islands took."""
    batches: list[int] = field(default_factory=lambda: [0, 0, 0])
    """Batches run so far, by phase."""
    by_phase: list[dict[str, int]] = field(default_factory=lambda: [{}, {}, {}])
    """``counters`` of each phase."""
    plateau: dict[str, float] = field(default_factory=dict)
    """State of the schedule ``plateau``."""

    def count(self, phase: int, counters: dict[str, int]) -> None:
        """Add a device's counts in a phase."""
        for name, value in counters.items():
            for sums in (self.counters, self.by_phase[phase]):
                sums[name] = sums.get(name, 0) + value

    def phases(self) -> dict[str, int]:
        """Batches and cycles of each phase, as columns of the log."""
        found: dict[str, int] = {}
        for name, count, counters in zip(PHASE_NAMES, self.batches, self.by_phase, strict=False):
            found |= {f"batches_{name}": count, f"cycles_{name}": counters.get("cycles", 0)}
        return found
