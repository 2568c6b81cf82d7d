"""Docstrings of the hardware: every port of a component is listed under Members, by its name and direction."""

import ast
import re
from pathlib import Path

import pytest

RTL = Path(__file__).parents[2] / "rtl"
SECTIONS = {"Parameters", "Members", "Attributes", "Raises", "Timing", "Notes"}
ITEM = re.compile(r"^(?P<names>\w+(?:, \w+)*)(?: : (?P<type>\S.*))?$")


def sections(docstring: str) -> dict[str, list[str]]:
    """The lines of each section, by its title."""
    lines, found, title = docstring.splitlines(), {}, ""
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line and set(following) == {"-"} and len(following) == len(line):
            title = line
            found[title] = []
        elif title and line and set(line) != {"-"}:
            found[title].append(line)
    return found


def items(lines: list[str]) -> list[tuple[str, str]]:
    """Names of a section's items, each with the direction it is given, if any; all other lines are indented."""
    found = []
    for line in lines:
        match = ITEM.match(line)
        assert match or line.startswith("    "), line
        if match:
            names, directions = match["names"].split(", "), re.findall(r"(?:^|, )(In|Out)\b", match["type"] or "")
            directions = directions * len(names) if len(directions) == 1 else directions or [""] * len(names)
            found += zip(names, directions, strict=True)
    return found


def ports(component: ast.ClassDef) -> tuple[dict[str, str], bool]:
    """Directions of the ports that the class names, and a bit: it makes names of others."""
    named, made = {}, False
    for node in component.body:
        if isinstance(node, ast.AnnAssign) and _direction(node.annotation):
            named[node.target.id] = _direction(node.annotation)
        elif isinstance(node, ast.FunctionDef) and node.name == "__init__":
            for inner in ast.walk(node):
                if isinstance(inner, ast.Dict):
                    for key, value in zip(inner.keys, inner.values, strict=True):
                        if isinstance(key, ast.Constant) and _direction(value):
                            named[key.value] = _direction(value)
                        made |= key is None
    return named, made


def _direction(node: ast.expr) -> str:
    """``In`` or ``Out``, if the expression is a port or an array of ports."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "array":
        node = node.func.value
    port = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("In", "Out")
    return node.func.id if port else ""


def files() -> list[Path]:
    return sorted(RTL.rglob("*.py"))


def components() -> list:
    """Components of rtl/, as test cases."""
    return [
        pytest.param(node, id=f"{path.relative_to(RTL)}:{node.name}")
        for path in files() for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and "wiring.Component" in {ast.unparse(base) for base in node.bases}
    ]  # fmt: skip


COMPONENTS = components()


@pytest.mark.parametrize("component", COMPONENTS)
def test_members_are_the_ports(component):
    named, made = ports(component)
    described = sections(ast.get_docstring(component))
    listed = items(described.get("Members", []))
    own = [name for name, _ in listed if not name[:2].isupper()]  # SOURCE_result stands for a name of each source
    assert named or made
    assert len(own) == len(set(own)) and set(own) >= set(named)
    assert made or set(own) == set(named)
    assert set(described) <= SECTIONS
    assert all(direction in ("", named.get(name, direction)) for name, direction in listed)


def test_there_are_components():
    assert len(COMPONENTS) > 80


def test_a_wrong_list_is_found():
    text = 'class A:\n    def __init__(self):\n        super().__init__({"a": In(1), "b": Out(1), **c})\n'
    assert ports(ast.parse(text).body[0]) == ({"a": "In", "b": "Out"}, True)
    assert sections("A.\n\nMembers\n-------\na, b : In(1)\n    text\nc\n    text") == {
        "Members": ["a, b : In(1)", "    text", "c", "    text"],
    }  # fmt: skip
    assert items(["a, b : In(1)", "    text", "c"]) == [("a", "In"), ("b", "In"), ("c", "")]
    assert items(["a, b : In(1), Out(2)"]) == [("a", "In"), ("b", "Out")]
    with pytest.raises(AssertionError, match="no item"):
        items(["no item"])


def test_no_docstring_begins_with_a_question_word():
    openings, total = [], 0
    for path in files():
        for node in ast.walk(ast.parse(path.read_text())):
            text = node.value.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) else None
            if isinstance(text, str):
                total += 1
                if re.match(r"(Of|What|Whether|Where|How)\b", text):
                    openings.append(f"{path.relative_to(RTL)}:{node.lineno}: {text.splitlines()[0]}")
    assert total > 400 and not openings


def test_every_folder_lists_its_files():
    folders = [path for path in sorted(RTL.iterdir()) if (path / "__init__.py").exists()]
    assert len(folders) == 10
    for folder in folders:
        text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
        listed = {
            name for part in re.findall(r"[-;] ([\w, ]+):", " ".join(text.split())) for name in part.split(", ")
        }  # fmt: skip
        assert listed == {path.stem for path in folder.glob("*.py")} - {"__init__"}, folder.name
