"""Progress of a training run: counts, sums and the log, as a checkpoint keeps them."""

from dataclasses import dataclass, field

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
    """Training counters since the run began, up to this point."""
    device_seconds: float = 0.0
    host_seconds: float = 0.0
    batches: list[int] = field(default_factory=lambda: [0, 0, 0])
    """Batches run so far, by phase."""
    by_phase: list[dict[str, int]] = field(default_factory=lambda: [{}, {}, {}])
    """Training counters of each phase."""
    plateau: dict[str, float] = field(default_factory=dict)
    """State of the schedule ``plateau``."""
