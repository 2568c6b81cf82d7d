"""Tools in processes of their own: a log as they go, what they do at the moment, and how they ended."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .errors import ToolError

__all__ = ["Say", "run", "stop"]

Say = Callable[[str], None]
"""Told what a tool does at the moment."""

INTERVAL = 0.25
"""Seconds between two looks at a log."""

_running: set[subprocess.Popen] = set()


def _last(log, pattern, start):
    """What ``pattern`` last found in what ``log`` got since ``start``, and how far it was read."""
    with log.open("rb") as file:
        file.seek(start)
        text = file.read().decode(errors="replace")
    end = text.rfind("\n") + 1
    found = pattern.findall(text[:end])
    return (found[-1] if found else None), start + len(text[:end].encode())


def _kill(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)  # the tool's own children, as Yosys' ABC, with it


def stop() -> None:
    """End all tools that run; the calls of :func:`run` that wait for them raise ToolError."""
    for process in list(_running):
        _kill(process)


def run(
    command: Sequence[str | Path],
    folder: Path,
    log: Path,
    phase: re.Pattern[str],
    say: Say,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run ``command`` in ``folder``, all that it prints into ``log``; ``say`` is told what ``phase`` finds there.

    Raises ToolError with the log's first line that has ERROR in it, or else its last. The process ends with this one's
    call, however that ends.
    """
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                [str(part) for part in command], cwd=folder, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}, start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise ToolError(f"{command[0]} was not found") from error
    place = 0
    _running.add(process)
    try:
        while process.poll() is None:
            time.sleep(INTERVAL)
            found, place = _last(log, phase, place)
            if found is not None:
                say(found)
    finally:
        _kill(process)
        process.wait()
        _running.discard(process)
    if process.returncode:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if re.search(r"\berror\b", line, re.IGNORECASE)]
        said = (errors or lines or ["nothing"])[0 if errors else -1]
        raise ToolError(f"{Path(command[0]).name} ended with code {process.returncode} and said: {said}")
