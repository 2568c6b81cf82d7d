"""Measures of the source tree: files by folder, lengths, circles of imports, openings of docstrings."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles

__all__ = ["PARTS", "ROOT", "Source", "circles", "import_graph", "imports", "sources", "spread"]

ROOT = Path(__file__).parents[2]
PARTS = (
    "spec", "rtl", "golden", "algorithm", "gen", "sim", "synth", "host", "boards", "experiments", "evaluation", "cli",
)  # fmt: skip
"""Folders of the package, in the order in which they may import each other."""
GUESSED = re.compile(r"(Of|What|Whether|Where|How)\b")
"""Openings of docstrings that don't begin with their subject."""


@dataclass(frozen=True)
class Source:
    """A Python file of the project."""

    path: Path
    """Relative to the root."""
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def n_lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def module(self) -> str:
        parts = self.path.with_suffix("").parts
        return ".".join(["adagp", *(parts[:-1] if parts[-1] == "__init__" else parts)])

    @property
    def docstrings(self) -> list[str]:
        """Docstrings of module, classes and functions, and of constants and attributes."""
        found: list[object] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found.append(ast.get_docstring(node))
            body = getattr(node, "body", None)
            for before, after in pairwise(body) if isinstance(body, list) else ():
                if isinstance(before, ast.Assign | ast.AnnAssign) and isinstance(after, ast.Expr):
                    value = after.value
                    found.append(value.value if isinstance(value, ast.Constant) else None)
        return [text for text in found if isinstance(text, str)]

    @property
    def elaborate_lines(self) -> list[int]:
        """Lengths of the methods that describe hardware."""
        functions = (node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef))
        return [node.end_lineno - node.lineno + 1 for node in functions if node.name == "elaborate" and node.end_lineno]


def sources(*folders: str, root: Path = ROOT) -> list[Source]:
    """Python files in folders, the package's unless others are given."""
    paths = [path for folder in folders or PARTS for path in sorted((root / folder).rglob("*.py"))]
    return [Source(path.relative_to(root), path.read_text()) for path in paths]


def imports(source: Source) -> set[str]:
    """Full names of the modules that a file imports, and of the names that it takes from them."""
    found = set()
    package = ["adagp", *source.path.parent.parts]
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return found


def import_graph(files: list[Source]) -> dict[str, set[str]]:
    """The modules that each module imports. A package counts only if a name is taken from its own ``__init__``."""
    modules = {file.module: file for file in files}

    def edges(file: Source) -> Iterator[str]:
        names = imports(file)
        for name in names & modules.keys() - {file.module}:
            taken = any(other.startswith(f"{name}.") and other not in modules for other in names)
            if taken or modules[name].path.name != "__init__.py":
                yield name

    return {module: set(edges(file)) for module, file in modules.items()}


def circles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """The circles of a graph: its strongly connected components of more than one node, or with an edge to itself."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in order:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == order[node]:
            circle = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(circle) > 1 or node in edges.get(node, ()):
                found.append(sorted(circle))

    for node in sorted(edges):
        if node not in order:
            visit(node)
    return found


def spread(numbers: list[int]) -> dict[str, float]:
    """Median, 90th percentile and largest of at least two numbers."""
    return {"median": median(numbers), "p90": quantiles(numbers, n=10, method="inclusive")[-1], "max": max(numbers)}
