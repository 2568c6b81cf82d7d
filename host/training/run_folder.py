"""The folder of a training run: settings, log, checkpoint and summary, written so that a kill loses nothing."""

import csv
import hashlib
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import numpy as np

from ...gen.files import write_atomically
from .owned_folder import OwnedFolder, RunError
from .settings import TrainSettings

__all__ = ["RunError", "RunFolder"]

RESULTS = (
    "log.json", "log.csv", "summary.json", "weights.pt", "report.png", "timeline.json", "timeline.png", "devices.json",
)  # fmt: skip
SETTINGS = tuple(each.name for each in fields(TrainSettings))
NUMBERS = (
    "epoch", "train_loss", "train_accuracy", "test_loss", "test_accuracy",
    "cycles", "macs", "read_bytes", "write_bytes", "saturations",
)  # fmt: skip
"""Columns that every row of a log has; the training part's may be None, as GP batches have no loss."""
CHECKSUM = b"adagp sha256 "
"""Stands before the checksum that ends a checkpoint."""
ZIP_END = b"PK\x05\x06"
"""Begins the last 22 bytes of an archive without a checksum, as earlier versions wrote it."""


def _sealed(content: bytes) -> bytes:
    """The content and its checksum; zip files may have more bytes after their end."""
    return content + CHECKSUM + hashlib.sha256(content).hexdigest().encode()


def _unsealed(raw: bytes) -> bytes:
    """The content that was sealed; raises ValueError if a bit of it is another."""
    if raw[-22:-18] == ZIP_END:
        return raw
    size = len(raw) - len(_sealed(b""))
    if size < 0 or _sealed(raw[:size]) != raw:
        raise ValueError("its checksum doesn't fit: the file is damaged")
    return raw[:size]


def _is_number(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class RunFolder(OwnedFolder):
    """``settings.json``, ``log.csv`` and ``log.json`` (a row an epoch), ``checkpoint.npz``, ``summary.json``."""

    KIND, OPTION = "run", "--output"

    def _write_json(self, name: str, data) -> None:
        write_atomically(self.path / name, (json.dumps(data, indent=1) + "\n").encode())

    @property
    def settings(self) -> dict:
        """The run's settings as plain data."""
        found: dict = self.read_json("settings.json", dict)
        return found

    @property
    def log(self) -> list[dict]:
        """A row of numbers for each epoch."""
        if self.has_checkpoint() and not (self.path / "log.json").exists():
            raise RunError(f"the run in {self.path} has not finished an epoch yet")
        rows: list[dict] = self.read_json("log.json", list)
        for row in rows:
            for name in NUMBERS:
                value = row.get(name, "missing") if isinstance(row, dict) else "missing"
                if not (_is_number(value) or (value is None and name.startswith("train_"))):
                    raise RunError(f"{self.path / 'log.json'} isn't a run's log: {name} = {value!r} must be a number")
        return rows

    @property
    def summary(self) -> dict:
        """Results of a finished run."""
        found: dict = self.read_json("summary.json", dict)
        return found

    def has_checkpoint(self) -> bool:
        """True once the run can go on from a checkpoint."""
        return (self.path / "checkpoint.npz").exists()

    @property
    def finished(self) -> bool:
        """True once the run has come to its end."""
        return (self.path / "summary.json").exists()

    @property
    def trained_on(self) -> str | None:
        """The device of a finished run; raises RunError for a summary without one."""
        if not self.finished:
            return None
        device = self.summary.get("device")
        if not isinstance(device, str):
            raise RunError(f"{self.path / 'summary.json'} isn't a run's summary: device = {device!r} must be a name")
        return device

    @property
    def timeline(self) -> Path:
        """The trace of the units' work, if one was recorded."""
        return self.path / "timeline.json"

    @property
    def devices_timeline(self) -> Path:
        """The trace of the steps of a pipeline's devices, if one was recorded."""
        return self.path / "devices.json"

    @property
    def events(self) -> Path:
        """The folder of TensorBoard's events."""
        return self.path / "tensorboard"

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the folder for this process; raises RunError if it is somebody else's or another process holds it."""
        with self.held(SETTINGS):
            yield

    def begin(self, settings: dict) -> None:
        """Begin a run: an earlier one's files go, its checkpoint first and its settings last."""
        self.mark(SETTINGS)
        for name in ("checkpoint.npz", *RESULTS):
            (self.path / name).unlink(missing_ok=True)
        for path in self.events.glob("events.out.tfevents.*"):
            path.unlink()
        self._write_json("settings.json", settings)

    def write_summary(self, summary: dict) -> None:
        """Write the results, which makes the run finished."""
        self._write_json("summary.json", summary)

    def write_log(self, rows: list[dict]) -> None:
        """Write the whole log; rows may have different keys."""
        self._write_json("log.json", rows)
        names = list(dict.fromkeys(name for row in rows for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(self.path / "log.csv", text.getvalue().encode())

    def write_checkpoint(self, progress: dict, arrays: dict[str, np.ndarray]) -> None:
        """Write plain data and arrays together to one file with a checksum, replaced atomically."""
        buffer = io.BytesIO()
        np.savez(buffer, progress=np.array(json.dumps(progress)), **arrays)  # type: ignore[arg-type]  # arrays by name
        write_atomically(self.path / "checkpoint.npz", _sealed(buffer.getvalue()))

    def read_checkpoint(self) -> tuple[dict, dict[str, np.ndarray]]:
        """Plain data and arrays as :meth:`write_checkpoint` got them; raises RunError."""
        path = self.path / "checkpoint.npz"
        try:
            with np.load(io.BytesIO(_unsealed(path.read_bytes())), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            progress = json.loads(str(arrays.pop("progress")))
            if not isinstance(progress, dict):
                raise ValueError(f"its progress is a {type(progress).__name__}, not a dict")
            return progress, arrays
        except Exception as error:  # a damaged archive without a checksum can make numpy raise anything
            raise RunError(f"can't resume from {path}: {error}; --fresh starts over") from None
