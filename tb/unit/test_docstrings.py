"""Docstrings of the hardware: every port of a component is listed under Members, under its own name."""

import ast
import re
from pathlib import Path

import pytest

RTL = Path(__file__).parents[2] / "rtl"
SECTIONS = ["Parameters", "Members", "Attributes", "Raises", "Timing"]
"""In this order."""
LATER = {"dma", "link", "memory"}
"""Folders that this doesn't hold for yet."""
ITEM = re.compile(r"^(\w+(?:, \w+)*) : \S")


def parts(docstring: str) -> dict[str, list[str]]:
    """The lines of each section, by its title."""
    lines, found, title = docstring.splitlines(), {}, ""
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line and set(following) == {"-"} and len(following) == len(line):
            title = line
            found[title] = []
        elif title and line and set(line) != {"-"}:
            found[title].append(line)
    return found


def items(lines: list[str]) -> list[str]:
    """Names of a section's items; a line that is no item continues one and is indented."""
    names = []
    for line in lines:
        match = ITEM.match(line)
        assert match or line.startswith("    "), line
        names += match[1].split(", ") if match else []
    return names


def ports(component: ast.ClassDef) -> tuple[set[str], bool]:
    """Ports that the class names, and whether it makes names of others."""
    named, made = set(), False
    for node in component.body:
        if isinstance(node, ast.AnnAssign) and _is_port(node.annotation):
            named.add(node.target.id)
        elif isinstance(node, ast.FunctionDef) and node.name == "__init__":
            for inner in ast.walk(node):
                if isinstance(inner, ast.Dict):
                    named |= {
                        key.value for key, value in zip(inner.keys, inner.values, strict=True)
                        if isinstance(key, ast.Constant) and _is_port(value)
                    }  # fmt: skip
                made |= isinstance(inner, ast.DictComp) and _is_port(inner.value)
    return named, made


def _is_port(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("In", "Out")


def files() -> list[Path]:
    return [path for path in sorted(RTL.rglob("*.py")) if path.relative_to(RTL).parts[0] not in LATER]


def classes(*bases: str) -> list:
    """Classes of rtl/ with one of the bases, as test cases."""
    found = []
    for path in files():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and {ast.unparse(base) for base in node.bases} & set(bases):
                found.append(pytest.param(node, id=f"{path.relative_to(RTL)}:{node.name}"))
    return found


COMPONENTS = classes("wiring.Component", "wiring.Signature")


@pytest.mark.parametrize("component", COMPONENTS)
def test_members_are_the_ports(component):
    named, made = ports(component)
    sections = parts(ast.get_docstring(component))
    listed = items(sections.get("Members", []))
    assert named or made
    assert len(listed) == len(set(listed)) and set(listed) >= named
    assert made or set(listed) == named
    assert list(sections) == [title for title in SECTIONS if title in sections]


def test_there_are_components():
    assert len(COMPONENTS) > 20


def test_no_docstring_begins_with_a_question_word():
    openings, total = [], 0
    for path in files():
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                total += 1
                if re.match(r"(Of|What|Whether|Where|How)\b", node.value.value):
                    openings.append(f"{path.relative_to(RTL)}:{node.lineno}: {node.value.value.splitlines()[0]}")
    assert total > 50 and not openings
