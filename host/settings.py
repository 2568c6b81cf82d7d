"""What a training run is: its settings, checked when constructed, and their learning-rate schedule."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["SCHEDULES", "SettingsError", "TrainSettings"]

SCHEDULES = ("constant", "cosine", "step")
"""Courses that the learning rate can take."""


class SettingsError(ValueError):
    """A setting that makes no sense; the message names it, its value and what is allowed."""


@dataclass(frozen=True)
class TrainSettings:
    """Everything that decides a run's result, apart from the device it runs on."""

    model: str = "digits-cnn"
    data: str = "digits"
    data_dir: str | None = None
    preset: str = "ecp5"
    epochs: int = 6
    batch: int = 32
    learning_rate: float = 0.1
    schedule: str = "cosine"
    momentum: float = 0.9
    weight_decay: float = 5e-4
    seed: int = 0
    train_images: int | None = None
    test_images: int | None = None

    def __post_init__(self):
        for name in ("epochs", "batch"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} = {getattr(self, name)} must be at least 1")
        for name in ("train_images", "test_images"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingsError(f"{name} = {value} must be at least 1")
        if not 1e-9 <= self.learning_rate <= 1e3:
            raise SettingsError(f"learning_rate = {self.learning_rate} must satisfy 1e-9 <= learning_rate <= 1000")
        for name in ("momentum", "weight_decay"):
            value = getattr(self, name)
            if not (value == 0 or 1e-9 <= value < 1):
                raise SettingsError(f"{name} = {value} must be 0, or satisfy 1e-9 <= {name} < 1")
        if self.schedule not in SCHEDULES:
            raise SettingsError(f"schedule = {self.schedule!r} must be one of {', '.join(SCHEDULES)}")
        if not 0 <= self.seed < 1 << 63:
            raise SettingsError(f"seed = {self.seed} must satisfy 0 <= seed < 2^63")

    def learning_rate_at(self, step: int, total: int) -> float:
        """Learning rate of optimiser step ``step`` of ``total``: constant, half a cosine, or divided
        by ten after half and three quarters of the run."""
        if self.schedule == "cosine":
            return self.learning_rate * 0.5 * (1 + math.cos(math.pi * step / total))
        if self.schedule == "step":
            return self.learning_rate * 0.1 ** ((2 * step >= total) + (4 * step >= 3 * total))
        return self.learning_rate

    def to_dict(self) -> dict:
        """Plain data for run folders and checkpoints."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict) -> "TrainSettings":
        """Inverse of :meth:`to_dict`; raises SettingsError for other fields."""
        try:
            return cls(**data)
        except TypeError as error:
            raise SettingsError(f"not the settings of a run: {error}") from None

    @property
    def data_path(self) -> Path | None:
        return Path(self.data_dir) if self.data_dir else None
