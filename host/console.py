"""The console of commands and benches: the screen, seeds, checks of files to be written."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import typer
from rich.console import Console

from .training.settings import SettingsError

__all__ = [
    "LARGEST_SEED", "MOST_SEEDS", "at_least_one", "numbers", "resumable", "screen", "writable", "writable_folder",
]  # fmt: skip

screen = Console(stderr=True, highlight=False)
"""Progress and remarks; results go to standard output."""


LARGEST_SEED = 2**31 - 1
"""Largest seed that placers take."""


@contextmanager
def resumable() -> Iterator[None]:
    """Within it Ctrl-C ends the command with 130, after a line that says how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        screen.print("interrupted; the same command goes on")
        raise typer.Exit(130) from None


def at_least_one(text: str) -> int:
    """A number of jobs and the like, for ``type`` of argparse, which says what is wrong."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of 1 or more, not {text!r}")
    return int(text)


def writable(text: str) -> Path:
    """A file to be written, for ``type`` of argparse: what can't be is said before the work, not after it."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{path} is a folder, not a file")
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(path if path.exists() else above, os.W_OK):
        raise argparse.ArgumentTypeError(f"{path} can't be written")
    return path


def writable_folder(name: str, path: Path) -> None:
    """Raises SettingsError if files can't be put there, naming the option."""
    there = next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise SettingsError(f"--{name} = {path} can't be a folder to write to: {there} is none")


MOST_SEEDS = 1000
"""In one command; each takes minutes."""


def numbers(text: str) -> list[int]:
    """The numbers of ``1,2,5`` or ``1-8``; raises SettingsError."""
    try:
        parts = [part.partition("-") for part in text.split(",")]
        ranges = [range(int(first), int(last if dash else first) + 1) for first, dash, last in parts]
    except ValueError:
        ranges = [range(0)]
    if not all(ranges):
        raise SettingsError(f"seeds = {text!r} must be like 1,2,5 or 1-8")
    if any(some[0] < 1 or some[-1] > LARGEST_SEED for some in ranges):
        raise SettingsError(f"seeds = {text!r} must be from 1 to {LARGEST_SEED}")
    if sum(map(len, ranges)) > MOST_SEEDS:
        raise SettingsError(f"seeds = {text!r} must be {MOST_SEEDS} seeds at most")
    return list(dict.fromkeys(chain(*ranges)))
