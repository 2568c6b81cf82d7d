"""An experiment's folder: settings, the state of runs under way, outcomes of those that have ended."""

import fcntl
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from ..gen.files import write_atomically
from ..host.training.run_folder import RunError
from .runs import Outcome, Run

__all__ = ["ExperimentFolder", "without_nan"]


def without_nan(value: Any) -> Any:
    """The same with None for numbers that JSON hasn't."""
    if isinstance(value, dict):
        return {key: without_nan(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _json(value: Any) -> bytes:
    return (json.dumps(without_nan(value), indent=1, allow_nan=False) + "\n").encode()


class Settings(Protocol):
    """Of what is in a folder."""

    def deciding(self) -> dict[str, Any]:
        """Those that can't change while it grows."""


class ExperimentFolder:
    """``settings.json``; ``states/RUN.pt`` of runs under way; ``outcomes/RUN.json`` of those that have ended."""

    def __init__(self, path: Path):
        self.path, self.states = path, path / "states"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Raises RunError if another command is at work in it."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunError(f"run: another command is at work in {self.path}") from None
            yield

    def begin(self, settings: Settings) -> None:
        """Raises RunError for a folder of something else, or of other settings, naming the field."""
        path = self.path / "settings.json"
        mine = settings.deciding()
        if not path.exists():
            if strangers := sorted(entry.name for entry in self.path.iterdir() if entry.name != "lock"):
                raise RunError(f"run: {self.path} holds {strangers[0]} but no experiment (no settings.json)")
            write_atomically(path, _json(mine))
            return
        there = self._read(path)
        for name in {**mine, **there}:
            if there.get(name) != mine.get(name):
                raise RunError(
                    f"run: {self.path} holds an experiment with {name} = {there.get(name)!r}, not {mine.get(name)!r}:"
                    " give another --run"
                )

    @property
    def settings(self) -> dict[str, Any]:
        """Those that its outcomes have in common."""
        return self._read(self.path / "settings.json")

    def _read(self, path: Path) -> dict:
        try:
            found: dict = json.loads(path.read_text())
            return found
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise RunError(f"can't read {path}: {error}") from None

    def _outcome(self, run: Run) -> Path:
        return self.path / "outcomes" / f"{run.identity}.json"

    def has(self, run: Run) -> bool:
        """Whether it has ended."""
        return self._outcome(run).exists()

    def read(self, run: Run) -> dict:
        """The outcome of a run that has ended, None for what isn't a number."""
        return self._read(self._outcome(run))

    def write(self, run: Run, outcome: Outcome) -> None:
        """Keep the outcome, and the state no longer."""
        write_atomically(self._outcome(run), _json(asdict(outcome)))
        (self.states / f"{run.identity}.pt").unlink(missing_ok=True)

    def write_json(self, name: str, value: Any) -> None:
        """One of its files of results."""
        write_atomically(self.path / name, _json(value))
