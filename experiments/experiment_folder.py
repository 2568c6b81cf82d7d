"""The folder of an experiment: settings, states of runs under way, outcomes of runs that have ended."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from ..gen.files import write_atomically
from ..host.training.owned_folder import OwnedFolder, RunError
from .runs import Outcome, Run

__all__ = ["ExperimentFolder", "without_nan"]


def without_nan(value: Any) -> Any:
    """The same value with None in place of NaN and infinities, which JSON hasn't."""
    if isinstance(value, dict):
        return {key: without_nan(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _json(value: Any) -> bytes:
    return (json.dumps(without_nan(value), indent=1, allow_nan=False) + "\n").encode()


class Settings(Protocol):
    """Settings of the runs in a folder."""

    def deciding(self) -> dict[str, Any]:
        """The settings that can't change while the folder grows."""


class ExperimentFolder(OwnedFolder):
    """``settings.json``; ``states/RUN.pt`` of runs under way; ``outcomes/RUN.json`` of those that have ended."""

    KIND, OPTION = "experiment", "--run"

    def __init__(self, path: Path):
        super().__init__(path)
        self.states = path / "states"

    @contextmanager
    def in_use(self, settings: Settings) -> Iterator[None]:
        """Keep the folder for this process and these settings.

        Raises RunError for a folder of something else, for one that another command is at work in, and for one of
        other settings, whose field it names.
        """
        mine = settings.deciding()
        with self.held(mine):
            if not (self.path / "settings.json").exists():
                self.write_json("settings.json", mine)
            there = self.settings
            for name in {**mine, **there}:
                if there.get(name) != mine.get(name):
                    raise RunError(
                        f"run: {self.path} holds an experiment with {name} = {there.get(name)!r},"
                        f" not {mine.get(name)!r}: give another --run"
                    )
            yield

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that all outcomes have in common."""
        found: dict[str, Any] = self.read_json("settings.json", dict)
        return found

    def _outcome(self, run: Run) -> Path:
        return self.path / "outcomes" / f"{run.identity}.json"

    def has(self, run: Run) -> bool:
        """True if the run has ended."""
        return self._outcome(run).exists()

    def read(self, run: Run) -> dict:
        """The outcome of a run that has ended, with None in place of NaN and infinities; raises RunError."""
        found: dict = self.read_json(str(self._outcome(run).relative_to(self.path)), dict)
        return found

    def write(self, run: Run, outcome: Outcome) -> None:
        """Keep the outcome of a run, and remove its state."""
        write_atomically(self._outcome(run), _json(asdict(outcome)))
        (self.states / f"{run.identity}.pt").unlink(missing_ok=True)

    def write_json(self, name: str, value: Any) -> None:
        """Write one of the folder's files of results."""
        write_atomically(self.path / name, _json(value))
