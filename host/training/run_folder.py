"""A run's folder: settings, log, checkpoint and summary, written so that a kill loses nothing."""

import csv
import io
import json
import zipfile
from pathlib import Path

import numpy as np

from ...gen.files import write_atomically

__all__ = [
    "RunError",
    "RunFolder",
]

RESULTS = ("log.json", "log.csv", "summary.json", "weights.pt", "report.png", "timeline.json", "timeline.png")


class RunError(ValueError):
    """A run folder that can't be used; the message says which file and why."""


class RunFolder:
    """``settings.json``, ``log.csv`` and ``log.json`` (a row an epoch), ``checkpoint.npz``, ``summary.json``."""

    def __init__(self, path: Path):
        self.path = path

    def _read_json(self, name: str):
        try:
            return json.loads((self.path / name).read_text())
        except FileNotFoundError:
            raise RunError(f"{self.path} isn't the folder of a run: it has no {name}") from None
        except (OSError, json.JSONDecodeError) as error:
            raise RunError(f"can't read {self.path / name}: {error}") from None

    def _write_json(self, name: str, data) -> None:
        write_atomically(self.path / name, (json.dumps(data, indent=1) + "\n").encode())

    @property
    def settings(self) -> dict:
        return self._read_json("settings.json")

    @property
    def log(self) -> list[dict]:
        if self.has_checkpoint() and not (self.path / "log.json").exists():
            raise RunError(f"the run in {self.path} has not finished an epoch yet")
        return self._read_json("log.json")

    @property
    def summary(self) -> dict:
        return self._read_json("summary.json")

    def has_checkpoint(self) -> bool:
        return (self.path / "checkpoint.npz").exists()

    @property
    def finished(self) -> bool:
        return (self.path / "summary.json").exists()

    @property
    def timeline(self) -> Path:
        """The trace of what the units did, if one was recorded."""
        return self.path / "timeline.json"

    def check_is_ours(self) -> None:
        """Raises RunError if a run's files would overwrite files that no run has written."""
        strangers = [name for name in RESULTS if (self.path / name).exists()]
        if strangers and not (self.path / "settings.json").exists():
            raise RunError(f"{self.path} holds {strangers[0]} but no run (no settings.json): give another --output")

    def begin(self, settings: dict) -> None:
        """Begin a run: an earlier one's files go, its checkpoint first and its settings last."""
        self.check_is_ours()
        for name in ("checkpoint.npz", *RESULTS):
            (self.path / name).unlink(missing_ok=True)
        self._write_json("settings.json", settings)

    def write_summary(self, summary: dict) -> None:
        self._write_json("summary.json", summary)

    def write_log(self, rows: list[dict]) -> None:
        """The whole log; rows may have different keys."""
        self._write_json("log.json", rows)
        names = list(dict.fromkeys(name for row in rows for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(self.path / "log.csv", text.getvalue().encode())

    def write_checkpoint(self, progress: dict, arrays: dict[str, np.ndarray]) -> None:
        """Plain data and arrays together in one file, replaced atomically."""
        buffer = io.BytesIO()
        np.savez(buffer, progress=np.array(json.dumps(progress)), **arrays)  # type: ignore[arg-type]  # arrays by name
        write_atomically(self.path / "checkpoint.npz", buffer.getvalue())

    def read_checkpoint(self) -> tuple[dict, dict[str, np.ndarray]]:
        """What :meth:`write_checkpoint` was given; raises RunError."""
        path = self.path / "checkpoint.npz"
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            return json.loads(str(arrays.pop("progress"))), arrays
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise RunError(f"can't resume from {path}: {error}; --fresh starts over") from None
