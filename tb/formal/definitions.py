"""A digest of the definitions that a name leads to, through all files of the project that they are in.

Whole files would be too much: a rule that takes one number from ``rtl/core.py`` doesn't depend on the accelerator. Only
code counts; comments, docstrings and layout don't.
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["Definitions"]

PROJECT = "adagp"
"""The package whose folders lie in the tree's root."""

Place = tuple[Path, str | None]
"""A name in a file, or all of them (None)."""


def _code(node) -> object:
    """A tree without docstrings and without fields that are empty, which differ from Python to Python."""
    if isinstance(node, list):
        return [_code(one) for one in node if not _is_text(one)]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = [(name, value) for name, value in ast.iter_fields(node) if value is not None and value != []]
    return type(node).__name__, [(name, _code(value)) for name, value in fields if name != "ctx"]


def _is_text(node) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _outer(node: ast.AST) -> Iterator[ast.AST]:
    """A statement and what is inside it, but nothing inside a function or a class."""
    yield node
    if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _outer(child)


def _names(statement: ast.stmt) -> set[str]:
    """Names that a statement defines; a loop or a call may change anything that it names."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    nodes = list(_outer(statement))
    plain = isinstance(statement, ast.Assign | ast.AnnAssign)
    inner = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return inner | {
        node.id for node in nodes if isinstance(node, ast.Name) and not (plain and isinstance(node.ctx, ast.Load))
    }


class _File:
    """A file's statements by the names that they define, and the places that its imports name."""

    def __init__(self, path: Path, root: Path):
        self.path, self.root = path, root
        tree = ast.parse(path.read_bytes())
        self.statements = [
            statement for statement in tree.body
            if not _is_text(statement) and not isinstance(statement, ast.Import | ast.ImportFrom)
        ]  # fmt: skip
        self._codes: dict[int, str] = {}
        self.uses = [
            {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)} for statement in self.statements
        ]
        self.defines: dict[str, list[int]] = {}
        for number, statement in enumerate(self.statements):
            for name in _names(statement):
                self.defines.setdefault(name, []).append(number)
        self.imports: dict[str, set[Place | str]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    self.imports.setdefault(name, set()).add(self._module(alias.name, 0) or alias.name)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    found = self._imported(node.module or "", node.level, alias.name)
                    self.imports.setdefault(alias.asname or alias.name, set()).add(found)

    def code(self, number: int) -> str:
        """A statement's code as text."""
        if number not in self._codes:
            self._codes[number] = repr(_code(self.statements[number]))
        return self._codes[number]

    def _folder(self, module: str, level: int) -> Path | None:
        """The place of a module in the tree, without its suffix; None for those of others."""
        first, *rest = module.split(".")
        if level:
            return self.path.parents[level - 1].joinpath(*filter(None, [first, *rest]))
        return self.root.joinpath(*rest) if first == PROJECT else None

    def _module(self, module: str, level: int) -> Place | None:
        folder = self._folder(module, level)
        paths = [] if folder is None else [folder.with_name(f"{folder.name}.py"), folder / "__init__.py"]
        return next(((path, None) for path in paths if path.exists()), None)

    def _imported(self, module: str, level: int, name: str) -> Place | str:
        """The place of ``name``, itself a module or in one; or the text of an import from elsewhere."""
        if inner := self._module(f"{module}.{name}" if module else name, level):
            return inner
        outer = self._module(module, level)
        return (outer[0], name) if outer else f"{module}.{name}"


class Definitions:
    """Definitions in the tree ``root``; a file is read once."""

    def __init__(self, root: Path):
        self.root = root
        self._files: dict[Path, _File] = {}

    def _file(self, path: Path) -> _File:
        if path not in self._files:
            self._files[path] = _File(path, self.root)
        return self._files[path]

    def reach(self, places: Iterable[Place]) -> tuple[set[tuple[Path, int]], set[str]]:
        """Statements, as file and number, that ``places`` lead to, and the imports from elsewhere on the way."""
        left, seen, found, others = list(places), set(), set(), set()
        while left:
            place = left.pop()
            if place in seen:
                continue
            seen.add(place)
            path, name = place
            file = self._file(path)
            for imported in file.imports.get(name, ()):
                if isinstance(imported, str):
                    others.add(imported)
                else:
                    left.append(imported)
            numbers = range(len(file.statements)) if name is None else file.defines.get(name, ())
            for number in numbers:
                if (path, number) not in found:
                    found.add((path, number))
                    left += [(path, used) for used in file.uses[number]]
        return found, others

    def digest(self, places: Iterable[Place], *more: object) -> str:
        """Digest of the code that ``places`` lead to, and of ``more``."""
        found, others = self.reach(places)
        code = [(str(path.relative_to(self.root)), self._file(path).code(number)) for path, number in sorted(found)]
        return hashlib.sha256(repr((more, sorted(others), code)).encode()).hexdigest()[:24]
