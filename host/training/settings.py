"""Settings of a training run, checked when constructed, with the schedule of the learning rate."""

import math
import re
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from ...spec.config import SWITCHES, VARIANTS, Config
from ...spec.presets import preset
from ...spec.schedule import ENTRIES, GP_MOMENTUM, PREDICTING, PREDICTIONS, SOURCES, STREAM, Entry
from ..compiler.dataflow import DATAFLOWS, OUTPUT_STATIONARY, without_hardware

__all__ = [
    "PHASES", "SCHEDULES", "VARIANTS", "SettingsError", "TrainSettings", "parse_milestones", "parse_phases",
    "parse_switches",
]  # fmt: skip

PHASES = "4*4:1 4*3:1 4*2:1 1:1"
"""The paper's schedule: epochs, GP batches per BP batch; the last ratio lasts to the run's end."""
SCHEDULES = ("constant", "cosine", "step", "plateau")
"""Schedules of the learning rate."""


class SettingsError(ValueError):
    """A setting that isn't allowed; the message names it, its value and the rule."""


def parse_milestones(text: str) -> tuple[int, ...]:
    """Parse ``EPOCH,EPOCH,...``, which must rise; raises SettingsError."""
    words = text.split(",") if text else []
    epochs = tuple(int(word) for word in words if word.isdecimal())
    if len(epochs) < len(words) or any(later <= epoch for epoch, later in pairwise((0, *epochs))):
        raise SettingsError(f"predictor_milestones = {text!r} must be rising epochs from 1 on, such as 30,60")
    return epochs


_RUNS = re.compile(r"(?:(\d+)\*)?(\d+):(\d+)")


def parse_phases(text: str) -> tuple[Entry, ...]:
    """Parse ``EPOCHS*GP:BP ...``, whose last entry may omit its epochs; raises SettingsError."""
    found = [_RUNS.fullmatch(word) for word in text.split()]
    if not found or not all(found):
        raise SettingsError(f"phases = {text!r} must be of the form EPOCHS*GP:BP ..., such as {PHASES}")
    if any(entry and entry[1] is None for entry in found[:-1]):
        raise SettingsError(f"phases = {text!r}: each ratio but the last needs its number of epochs")
    entries = tuple(Entry(int(entry[1] or 1), int(entry[2]), int(entry[3])) for entry in found if entry)
    if any(not (1 <= entry.epochs < 1 << 16 and max(entry.gp, entry.bp) < 256) for entry in entries):
        raise SettingsError(f"phases = {text!r}: epochs are 1..65535, batches at most 255")
    if len(entries) > ENTRIES:
        raise SettingsError(f"phases = {text!r}: at most {ENTRIES} ratios, not {len(entries)}")
    return entries


def parse_switches(text: str) -> dict[str, bool]:
    """Parse names of the generator's switches, ``all`` of them, or none; raises SettingsError."""
    names = SWITCHES if text == "all" else tuple(filter(None, text.split(",")))
    if unknown := [name for name in names if name not in SWITCHES]:
        raise SettingsError(f"switches = {text!r}: {unknown[0]!r} must be one of {', '.join(SWITCHES)}, or all alone")
    return dict.fromkeys(names, True)


@dataclass(frozen=True)
class TrainSettings:
    """All settings that decide a run's result; the device isn't one of them."""

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
    variant: str = "baseline"
    switches: str = ""
    dataflow: str = "free"
    gradient_source: str = "predicted"
    warmup_epochs: int = 1
    phases: str = PHASES
    predictor_rate: float = 1e-3
    predictor_milestones: str = ""
    predictor_gamma: float = 0.1
    plateau_factor: float = 0.1
    plateau_patience: int = 10
    validation_fraction: float = 0.1
    gate: float = 0.0
    predictor_every: int = 1
    gp_momentum: str = "update"
    predictions: str = "spill"
    micro_batches: int = 1

    def __post_init__(self):
        for name in ("epochs", "batch", "micro_batches", "predictor_every"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} = {getattr(self, name)} must be at least 1")
        if self.batch % self.micro_batches:
            raise SettingsError(f"micro_batches = {self.micro_batches} must divide batch = {self.batch}")
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
        for name, known in (("variant", VARIANTS), ("gradient_source", SOURCES), ("dataflow", DATAFLOWS),
                            ("gp_momentum", GP_MOMENTUM), ("predictions", PREDICTIONS)):  # fmt: skip
            if (value := getattr(self, name)) not in known:
                raise SettingsError(f"{name} = {value!r} must be one of {', '.join(known)}{without_hardware(value)}")
        if self.gradient_source != "predicted" and not self.predicts:
            raise SettingsError(
                f"gradient_source = {self.gradient_source!r} needs a variant with GP batches: {', '.join(VARIANTS[1:])}"
            )
        if self.predictions == STREAM and self.variant != "max":
            raise SettingsError(f"predictions = {STREAM!r} needs variant max, whose predictor has an array of its own")
        least = int(self.predicts)  # only backpropagation calibrates all exponents, or trains a predictor
        if not least <= self.warmup_epochs < 1 << 16:
            raise SettingsError(
                f"warmup_epochs = {self.warmup_epochs} must satisfy {least} <= warmup_epochs <= 65535"
                + " where there are GP batches" * least
            )
        if not (self.gate == 0 or 1e-4 <= self.gate <= 1):
            raise SettingsError(f"gate = {self.gate} must be 0, or satisfy 1e-4 <= gate <= 1")
        if not 1e-9 <= self.predictor_rate <= 1:
            raise SettingsError(f"predictor_rate = {self.predictor_rate} must satisfy 1e-9 <= predictor_rate <= 1")
        parse_phases(self.phases)
        parse_switches(self.switches)
        parse_milestones(self.predictor_milestones)
        for name in ("predictor_gamma", "plateau_factor", "validation_fraction"):
            if not 0 < getattr(self, name) < 1:
                raise SettingsError(f"{name} = {getattr(self, name)} must satisfy 0 < {name} < 1")
        last = self.predictor_rate_at(self.epochs)
        if last < 1e-9:
            raise SettingsError(f"predictor_gamma = {self.predictor_gamma}: the rate must not fall to {last:g} < 1e-9")
        if self.plateau_patience < 0:
            raise SettingsError(f"plateau_patience = {self.plateau_patience} must not be negative")
        if not 0 <= self.seed < 1 << 63:
            raise SettingsError(f"seed = {self.seed} must satisfy 0 <= seed < 2^63")

    def learning_rate_at(self, step: int, total: int) -> float:
        """Learning rate of optimiser step ``step`` of ``total``.

        It is constant, half a cosine, or divided by ten after half and three quarters of the run. The schedule
        ``plateau`` only begins here; the trainer lowers its rate.
        """
        if self.schedule == "cosine":
            return self.learning_rate * 0.5 * (1 + math.cos(math.pi * step / total))
        if self.schedule == "step":
            return self.learning_rate * 0.1 ** ((2 * step >= total) + (4 * step >= 3 * total))
        return self.learning_rate

    def predictor_rate_at(self, epoch: int) -> float:
        """The predictor's learning rate in an epoch, counted from 0; each milestone multiplies it by the gamma."""
        passed = sum(milestone <= epoch for milestone in parse_milestones(self.predictor_milestones))
        rate = self.predictor_rate
        for _ in range(passed):
            rate *= self.predictor_gamma
        return rate

    @property
    def unused(self) -> dict[str, list[str]]:
        """Settings that differ from their defaults but have no effect, by the setting that leaves them without one."""
        idle: dict[str, list[str]] = {"variant": [], "gradient_source": [], "schedule": []}
        of_predictor = ["predictor_rate", "predictor_milestones", "predictor_gamma", "gate"]
        of_predictor += ["predictor_every", "gp_momentum"]
        if not self.predicts:
            idle["variant"] = ["warmup_epochs", "phases", *of_predictor]
        elif self.gradient_source not in PREDICTING:
            idle["gradient_source"] = of_predictor
        if self.gradient_source != "predicted":
            idle["gradient_source"] = [*idle["gradient_source"], "predictions"]
        if self.schedule != "plateau":
            idle["schedule"] = ["plateau_factor", "plateau_patience", "validation_fraction"]
        defaults = {each.name: each.default for each in fields(self)}
        found = {why: [name for name in idle[why] if getattr(self, name) != defaults[name]] for why in idle}
        return {why: names for why, names in found.items() if names}

    def learns(self, true_batches: int) -> bool:
        """True if the predictor learns from the next batch with true gradients, after so many."""
        return true_batches % self.predictor_every == 0

    @property
    def predicts(self) -> bool:
        """True if some batches do without backpropagation."""
        return self.variant != "baseline"

    @property
    def config(self) -> Config:
        """The accelerator's configuration; raises ConfigError."""
        signs = self.predicts and self.gradient_source == "random"
        more: dict[str, Any] = {"variant": self.variant, "random_signs": signs, **parse_switches(self.switches)}
        more["output_stationary"] = self.dataflow == OUTPUT_STATIONARY
        more["streamed_predictions"] = self.predictions == STREAM
        return replace(preset(self.preset), **more)

    def to_dict(self) -> dict:
        """The settings as plain data, for run folders and checkpoints."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict) -> "TrainSettings":
        """Inverse of :meth:`to_dict`; raises SettingsError for other fields, or values of other types."""
        types: dict[str, Any] = {each.name: each.type for each in fields(cls)}
        for name, value in data.items():
            if name not in types:
                raise SettingsError(f"not the settings of a run: there is no {name!r}")
            wanted = float | int if types[name] is float else types[name]
            if isinstance(value, bool) or not isinstance(value, wanted):
                kind = getattr(types[name], "__name__", types[name])
                raise SettingsError(f"not the settings of a run: {name} = {value!r} must be of type {kind}")
        return cls(**data)

    def differing(self, data: dict) -> str:
        """The settings of which ``data`` has other values, with both; empty if there are none."""
        ours = vars(self)
        theirs = {name: value for name, value in vars(self.from_dict(data)).items() if value != ours[name]}
        return ", ".join(f"{name} = {value!r}, not {ours[name]!r}" for name, value in theirs.items())

    @property
    def data_path(self) -> Path | None:
        """The folder of the data set's files, if one was given."""
        return Path(self.data_dir) if self.data_dir else None
