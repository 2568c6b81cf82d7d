"""Steps of a build in a folder: each is done once for what it is made from, so that a build can go on where it was."""

import fcntl
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..gen.cache import digest
from ..gen.files import write_atomically
from ..host.console import screen
from ..synth import process
from .errors import BoardError

__all__ = ["Steps", "alone"]

RECORD, LOCK = "steps.json", "steps.lock"
_NOTHING = re.compile(r"(?!)")
"""Reports on a tool while it runs; its log can be read meanwhile."""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """No other process is in this block with this folder; raises BoardError where one is."""
    with (folder / LOCK).open("w") as lock:  # the system opens it again, however a process ends
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BoardError(f"{folder}: another build is at work there; wait for it, or give another folder") from None
        yield


class Steps:
    """The steps of a build in ``folder``, by name; what they are made from is kept beside their results."""

    def __init__(self, folder: Path):
        self.folder = folder
        path = folder / RECORD
        self._done = json.loads(path.read_text()) if path.exists() else {}

    def run(self, name: str, about: Sequence[object], results: Sequence[str], work: Callable[[], None]) -> bool:
        """Do ``work``, which makes the files ``results``, unless they are there already from the same.

        ``about``: all that they depend on; a Path stands for the file's contents. Returns whether anything was done.
        """
        made_from = digest(*(part.read_bytes() if isinstance(part, Path) else repr(part) for part in about))
        if self._done.get(name) == made_from and all((self.folder / file).exists() for file in results):
            screen.print(f"{name}: done before")
            return False
        self._done.pop(name, None)
        self._save()  # whatever stops the work, what it leaves behind isn't taken for done
        start = time.monotonic()
        with screen.status(f"{name} (the log is in {self.folder})"):
            work()
        screen.print(f"{name}: {time.monotonic() - start:.0f} s")
        self._done[name] = made_from
        self._save()
        return True

    def _save(self) -> None:
        write_atomically(self.folder / RECORD, (json.dumps(self._done, indent=1) + "\n").encode())

    def tool(
        self, name: str, about: Sequence[object], results: Sequence[str], command: Sequence[str | Path], log: str,
        what: str, phase: re.Pattern[str] = _NOTHING, say: process.Say = print,
    ) -> None:  # fmt: skip
        """A step that is a tool's work, its output in the file ``log``; ``say`` is told what ``phase`` finds there.

        Raises ToolError if it fails, which begins with ``what`` and tells of a copy of the log that the next try leaves
        as it is; and what ``say`` raises.
        """
        keep = (self.folder / log).with_suffix(".failed.log")

        def work():
            process.run(command, self.folder, self.folder / log, phase, say, what=f"{what},", keep=keep)

        self.run(name, about, results, work)
