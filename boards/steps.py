"""Steps of a build in a folder: each is done once for what it is made from, so that a build can go on where it was."""

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..gen.cache import digest
from ..host.cli_options import screen
from ..host.run_folder import write_atomically
from ..synth import child
from ..synth.errors import ToolError

__all__ = ["Steps", "find_tool"]

RECORD = "steps.json"
_NOTHING = re.compile(r"(?!)")
"""What is told of a tool while it runs; its log is there to be read."""


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
        phase: re.Pattern[str] = _NOTHING, say: child.Say = print,
    ) -> None:  # fmt: skip
        """A step that is a tool's work, its output in the file ``log``; ``say`` is told what ``phase`` finds there.

        Raises ToolError if it fails, and what ``say`` raises.
        """
        self.run(name, about, results, lambda: child.run(command, self.folder, self.folder / log, phase, say))


def find_tool(name: str, package: str) -> list[str]:
    """The command of a tool: a native one, or its WebAssembly build from PyPI; raises ToolError if there is neither.

    The environment variable named after the tool (NEXTPNR_ECP5, ECPPACK) goes before both.
    """
    chosen = os.environ.get(name.upper().replace("-", "_"))
    beside = str(Path(sys.executable).parent)
    for candidate in [chosen] if chosen else [name, f"yowasp-{name}"]:
        path = shutil.which(candidate) or shutil.which(candidate, path=beside)
        if path is not None:
            return [path]
    raise ToolError(f"{chosen or name} was not found: install it, or pip install {package}")
