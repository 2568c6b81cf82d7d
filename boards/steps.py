"""Steps of a build in a folder: each is done once for what it is made from, so that a build can go on where it was."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..host.cli_options import screen
from .errors import ToolError

__all__ = ["Steps", "call", "find_tool"]

RECORD = "steps.json"
LINES = 15
"""Of a failing tool's log, in the message."""


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
        digest = hashlib.sha256()
        for part in about:
            data = part.read_bytes() if isinstance(part, Path) else repr(part).encode()
            digest.update(len(data).to_bytes(8, "little") + data)
        if self._done.get(name) == digest.hexdigest() and all((self.folder / file).exists() for file in results):
            screen.print(f"{name}: done before")
            return False
        self._done.pop(name, None)
        start = time.monotonic()
        with screen.status(f"{name} (the log is in {self.folder})"):
            work()
        screen.print(f"{name}: {time.monotonic() - start:.0f} s")
        self._done[name] = digest.hexdigest()
        (self.folder / RECORD).write_text(json.dumps(self._done, indent=1) + "\n")
        return True


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


def call(command: Sequence[str], folder: Path, log: str) -> None:
    """Run a tool in ``folder`` with its output in the file ``log``; raises ToolError with the end of it if it fails."""
    path = folder / log
    with path.open("wb") as file:
        code = subprocess.run(command, cwd=folder, stdout=file, stderr=subprocess.STDOUT).returncode
    if code:
        text = path.read_text(errors="replace").splitlines()
        errors = [line for line in text if "ERROR" in line]
        raise ToolError(f"{Path(command[0]).name} failed ({path}): {'; '.join(errors[:2] or text[-LINES:])}")
