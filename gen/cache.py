"""The cache of builds: simulators, netlists, placed and routed designs.

The cache is ``$ADAGP_CACHE`` or ``adagp`` in ``$XDG_CACHE_HOME`` (``~/.cache``); its entries are named after a digest
of everything they are made from, so that none ever has to be cleared.
"""

import ast
import errno
import fcntl
import glob
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["CacheError", "cache_directory", "code", "digest", "entry"]


class CacheError(ValueError):
    """A cache that can't be written to; the message names the variable or folder."""


def cache_directory() -> Path:
    """The folder of the entries, created when missing; raises CacheError if it can't be written to."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    chosen = os.environ.get("ADAGP_CACHE")
    path = Path(chosen or Path(base) / "adagp")
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        name = f"ADAGP_CACHE = {chosen!r}" if chosen else f"the cache {path}"
        raise CacheError(f"{name} can't be a folder to write to: {error.strerror}") from None
    return path


def digest(*parts) -> str:
    """Digest of bytes, and of anything else as text; it names an entry made from them."""
    found = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        found.update(len(data).to_bytes(8, "little") + data)
    return found.hexdigest()[:24]


_NEWER = ", type_params=[]"
"""A field of functions and classes from Python 3.12 on, which these sources leave empty."""


class _Bare(ast.NodeTransformer):
    """Removes docstrings, and imports unless they are wanted; a tree has no comments anyway."""

    def __init__(self, imports: bool):
        self._imports = imports

    def visit_Import(self, node):
        return node if self._imports else None

    visit_ImportFrom = visit_Import

    def visit_Expr(self, node):
        return None if isinstance(node.value, ast.Constant) else node


def code(source: Path | str, imports: bool = True) -> str:
    """The code of a source file, or of its text, without comments, docstrings and, unless wanted, ``imports``.

    Without its imports the code of a file stays the same when other files move. Python 3.11 and 3.12 say the same.
    """
    text = source.read_text() if isinstance(source, Path) else source
    return ast.dump(_Bare(imports).visit(ast.parse(text))).replace(_NEWER, "")


@contextmanager
def entry(name: str) -> Iterator[tuple[Path, Path | None]]:
    """Path of a cache entry, and a scratch directory if it is yet to be made: move the result to the path.

    Another process that wants the same entry waits meanwhile. A build that fails leaves nothing; one that was killed
    leaves its scratch directory, which goes when the entry is next made.
    """
    cache = cache_directory()
    path = cache / name
    if path.exists():
        yield path, None
        return
    with open(cache / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            yield path, None
            return
        for left in cache.glob(f"build-{glob.escape(name)}-*"):
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=f"build-{name}-") as scratch:
            yield path, Path(scratch)
