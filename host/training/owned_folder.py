"""A folder that belongs to one kind of work: a marker says which, and a lock keeps a second process out."""

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from ...gen.files import write_atomically

__all__ = ["MARKER", "VERSION", "OwnedFolder", "RunError"]

MARKER = "adagp.json"
"""The file that marks a folder as ours."""
VERSION = 1
"""Version of the folders' format."""
LOCK = "lock"
"""The file that is locked while a process works in the folder; it holds the process's number."""


class RunError(ValueError):
    """A folder or a file of a run that can't be used; the message says which and why."""


def _locked(path: Path) -> TextIO:
    """The file, locked for as long as it is open and this process lives; raises RunError if another holds it."""
    while True:
        file = path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with file:
                file.seek(0)
                holder = file.read().strip() or "unknown"
            raise RunError(f"another command is at work in {path.parent}: process {holder}") from None
        if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            return file
        file.close()  # its last holder has removed it


class OwnedFolder:
    """A folder that one kind of work writes to.

    Its marker, ``adagp.json``, names the kind and the version of the format. A folder that has files but no marker
    belongs to somebody else and is never written to. Folders of earlier versions have no marker: they are known by
    a ``settings.json`` that has all the fields of ours, and get the marker when they are next written to.
    """

    KIND: str
    """Kind of work, as the marker and messages name it."""
    OPTION: str
    """Option of the command line that names the folder."""

    def __init__(self, path: Path):
        self.path = path

    def read_json(self, name: str, shape: type) -> Any:
        """Content of a JSON file, which must be a ``shape`` (dict or list); raises RunError."""
        path = self.path / name
        try:
            found = json.loads(path.read_text())
        except FileNotFoundError:
            raise RunError(f"{self.path} isn't the folder of a {self.KIND}: it has no {name}") from None
        except (OSError, ValueError, RecursionError) as error:  # ValueError: neither UTF-8 nor JSON
            raise RunError(f"can't read {path}: {error}") from None
        if not isinstance(found, shape):
            raise RunError(f"can't read {path}: it holds a {type(found).__name__}; a {shape.__name__} is expected")
        return found

    def check_is_ours(self, fields: Iterable[str]) -> None:
        """Refuse a folder that isn't empty and isn't ours; nothing is touched.

        ``fields``: names that the ``settings.json`` of an earlier version has. Raises RunError.
        """
        if (self.path / MARKER).exists():
            marker = self.read_json(MARKER, dict)
            kind, version = marker.get("kind"), marker.get("version")
            if kind != self.KIND:
                raise RunError(
                    f"{self.path / MARKER} is of kind {kind!r}, not {self.KIND!r}: give another {self.OPTION}"
                )
            if not (isinstance(version, int) and version <= VERSION):
                raise RunError(f"{self.path / MARKER} has version {version!r}; this adagp knows {VERSION} at most")
            return
        names = sorted(each.name for each in self.path.iterdir()) if self.path.exists() else []
        strangers = [name for name in names if name != f"{MARKER}.partial"]
        if strangers and not self._is_of_earlier_version(fields):
            raise RunError(
                f"{self.path} holds {strangers[0]} but no {self.KIND} (no {MARKER}): give another {self.OPTION}"
            )

    def _is_of_earlier_version(self, fields: Iterable[str]) -> bool:
        if not (self.path / "settings.json").exists():
            return False
        try:
            return set(fields) <= set(self.read_json("settings.json", dict))
        except RunError:
            return False

    def mark(self, fields: Iterable[str]) -> None:
        """Make the folder ours, if it is empty, missing or already ours; raises RunError otherwise."""
        self.check_is_ours(fields)
        if not (self.path / MARKER).exists():
            marker = {"kind": self.KIND, "version": VERSION}
            write_atomically(self.path / MARKER, (json.dumps(marker) + "\n").encode())

    @contextmanager
    def held(self, fields: Iterable[str]) -> Iterator[None]:
        """Make the folder ours and keep other processes out; a folder in which nothing was begun goes again.

        Raises RunError for a folder of others, and for one that another process holds.
        """
        made = not self.path.exists()
        self.mark(fields)
        with _locked(self.path / LOCK):
            try:
                yield
            finally:
                if {each.name for each in self.path.iterdir()} <= {MARKER, LOCK}:
                    for name in (MARKER, LOCK):
                        (self.path / name).unlink(missing_ok=True)
                    if made:
                        self.path.rmdir()
