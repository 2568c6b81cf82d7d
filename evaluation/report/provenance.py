"""Lines on where a figure comes from: the nox session that measures it, and a fold with the details of the run."""

from collections.abc import Mapping
from html import escape

__all__ = ["details", "fold", "session"]

SESSIONS = {
    "tb.boards": "bench_boards", "tb.robustness": "bench_robustness", "tb.mutation": "mutate",
    "tb.coverage": "coverage", "tb.formal": "formal", "tb.formal.sby": "formal_sby",
    "adagp.boards.bench_build": "bench_board_build",
}  # fmt: skip
"""Sessions whose names don't follow from their module's."""


def session(command: str) -> str:
    """The command that measures again what ``command`` has measured.

    A result keeps the command of its day, ``python -m MODULE OPTIONS``; modules move, sessions keep their names.
    """
    if not command.startswith("python -m "):
        return command
    module, *options = command.removeprefix("python -m ").split()
    name = SESSIONS.get(module) or f"bench_{module.rpartition('.')[2].removeprefix('bench_')}"
    return " ".join((f"nox -s {name}", *(["--", *options] if options else [])))


def details(origin: Mapping) -> str:
    """Commit, seeds and versions of tools of a run, in HTML."""
    tools = ", ".join(f"{name} {version}" for name, version in origin["tools"].items())
    return f"Commit <code>{origin['commit'][:12]}</code>; seed {origin['seed']}; {escape(tools, quote=False)}."


def fold(summary: str, text: str) -> str:
    """A line of HTML that shows ``summary`` and opens to ``text``."""
    return f"<details><summary>{summary}</summary>{text}</details>"
