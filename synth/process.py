"""Run tools as child processes, with a log, reports of progress, and errors that name the reason."""

import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .errors import ToolError

__all__ = ["Say", "resume", "run", "stop"]

Say = Callable[[str], None]
"""Function that is told a tool's current step."""

INTERVAL = 0.25
"""Seconds between two looks at a log."""

_ERROR = re.compile(r"^error:.*$", re.MULTILINE | re.IGNORECASE)
"""Line in which a tool reports an error; elsewhere the word may be part of a signal's name."""

_running: set[subprocess.Popen] = set()
_stopping = threading.Event()
_starting = threading.Lock()
"""Held while a tool starts, so that it either is seen by :func:`stop` or sees that it must not."""


def _found(log, pattern, start):
    """Matches of ``pattern`` in ``log`` from place ``start`` on, and the place up to which it was read."""
    with log.open("rb") as file:
        file.seek(start)
        text = file.read().decode(errors="replace")
    end = text.rfind("\n") + 1
    return pattern.findall(text[:end]), start + len(text[:end].encode())


def _kill(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)  # the tool's own children, as Yosys' ABC, with it


def stop() -> None:
    """End all tools that run, and start no others until :func:`resume`; calls of :func:`run` raise ToolError."""
    with _starting:
        _stopping.set()
        for process in list(_running):
            _kill(process)


def resume() -> None:
    """Tools may start again."""
    _stopping.clear()


def _reason(code, log):
    """Why a tool has failed, after its name."""
    text = log.read_text(errors="replace")
    last = ([line.strip() for line in text.splitlines() if line.strip()] or ["nothing"])[-1]
    if code < 0:
        memory = ": out of memory?" if -code == signal.SIGKILL else ""
        return f"was killed (signal {-code}{memory}) and said at last: {last}"
    error = _ERROR.search(text)
    return f"ended with code {code} and said: {error[0] if error else last}"


def run(
    command: Sequence[str | Path],
    folder: Path,
    log: Path,
    phase: re.Pattern[str],
    say: Say,
    environment: Mapping[str, str] | None = None,
    what: str = "",
    keep: Path | None = None,
) -> None:
    """Run ``command`` in ``folder`` with its output in ``log``; ``say`` is told each match of ``phase`` there.

    Raises ToolError if the tool fails. The message begins with ``what``, or with the tool's name. It quotes the log's
    first line that begins with ERROR, or else its last, as for a tool that was killed. ``keep``: copy a failed tool's
    log there, and say so. The process never outlives the call.
    """
    what = what or Path(command[0]).name
    with _starting, log.open("wb") as output:
        if _stopping.is_set():
            raise ToolError(f"{what} was stopped")
        try:
            process = subprocess.Popen(
                [str(part) for part in command], cwd=folder, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}, start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise ToolError(f"{command[0]} was not found") from error
        _running.add(process)
    place = 0
    try:
        while process.poll() is None:
            time.sleep(INTERVAL)
            phases, place = _found(log, phase, place)
            for found in phases:
                say(found)
    finally:
        _kill(process)
        process.wait()
        _running.discard(process)
    if process.returncode:
        if _stopping.is_set():
            raise ToolError(f"{what} was stopped")
        told = ""
        if keep is not None:
            shutil.copy(log, keep)
            told = f"; its log is {keep}"
        raise ToolError(f"{what} {_reason(process.returncode, log)}{told}")
