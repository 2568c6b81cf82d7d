"""Docstrings of the hardware: every port of a component is listed under Members, by its name and direction."""

import ast
import re
from pathlib import Path

import pytest

RTL = Path(__file__).parents[2] / "rtl"
SECTIONS = ("Parameters", "Members", "Attributes", "Raises", "Timing", "Notes")
"""In this order."""
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
    """Directions of the ports that the class names, "" where it gives a signature; and a bit: it makes names of others.

    Ports are annotated, or members of dictionaries in the constructor: those that it hands on, and others of ports.
    """
    named = {node.target.id: _direction(node.annotation) for node in component.body if isinstance(node, ast.AnnAssign)}
    made = False
    for function in component.body:
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            handed_on = {id(each) for each in _handed_on(function)}
            for members in (node for node in ast.walk(function) if isinstance(node, ast.Dict)):
                made |= None in members.keys
                for key, value in zip(members.keys, members.values, strict=True):
                    if isinstance(key, ast.Constant) and (id(members) in handed_on or _direction(value)):
                        named[key.value] = _direction(value)
    return named, made


def _handed_on(constructor: ast.FunctionDef) -> list[ast.Dict]:
    """Dictionaries of the signature, and those in what is unpacked into them."""
    calls = [node for node in ast.walk(constructor) if isinstance(node, ast.Call)]
    found = [each for call in calls if ast.unparse(call.func) == "super().__init__" for each in call.args]
    found = [each for each in found if isinstance(each, ast.Dict)]
    unpacked = [v for each in found for k, v in zip(each.keys, each.values, strict=True) if k is None]
    return found + [inner for value in unpacked for inner in ast.walk(value) if isinstance(inner, ast.Dict)]


def _direction(node: ast.expr) -> str:
    """``In`` or ``Out``, if the expression is a port or an array of ports."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "array":
        node = node.func.value
    port = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("In", "Out")
    return node.func.id if port else ""


def files() -> list[Path]:
    return sorted(RTL.rglob("*.py"))


def components(text: str) -> list[ast.ClassDef]:
    """Classes of a file that derive from wiring.Component."""
    classes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef))
    return [each for each in classes if "wiring.Component" in map(ast.unparse, each.bases)]


def faults(component: ast.ClassDef) -> list[str]:
    """Differences of the docstring's Members from the ports, and sections that are unknown or out of order."""
    named, made = ports(component)
    described = sections(ast.get_docstring(component) or "")
    listed = items(described.get("Members", []))
    own = [name for name, _ in listed if not name[:2].isupper()]  # SOURCE_result stands for a name of each source
    found = [] if list(described) == [each for each in SECTIONS if each in described] else [f"sections {[*described]}"]
    found += ["no ports"] * (not named and not made)
    found += [f"{name} is missing" for name in named if name not in own]
    found += [f"{name} is listed twice" for name in sorted(set(own)) if own.count(name) > 1]
    found += [f"{name} is no port" for name in own if name not in named and not made]
    return found + [
        f"{name} isn't {direction}" for name, direction in listed if direction not in ("", named.get(name) or direction)
    ]  # fmt: skip


COMPONENTS = [(path, component) for path in files() for component in components(path.read_text())]


@pytest.mark.parametrize(
    "component", [pytest.param(one, id=f"{path.relative_to(RTL)}:{one.name}") for path, one in COMPONENTS]
)
def test_members_are_the_ports(component):
    assert faults(component) == []


def test_there_are_components():
    assert len(COMPONENTS) > 80 and sum(len(ports(component)[0]) for _, component in COMPONENTS) > 700


FAULTY = '''
class A(wiring.Component):
    """A box.

    Timing
    ------
    None.

    Members
    -------
    i, j : In(1)
        inputs
    j : In(1)
        again
    """

    def __init__(self):
        more = {"extra": In(1)}
        super().__init__({"i": Out(1), "j": In(1), "o": Out(1), **({"e": Stream} if True else {}), f"{self}_x": In(1)})


class B(wiring.Component):
    """Another one.

    Members
    -------
    ready : In(1)
        no port
    """

    valid: Out(1)


class C(wiring.Component):
    """Without a port, and with a section of its own.

    Remarks
    -------
    none
    """
'''


def test_what_is_wrong_is_found():
    assert [faults(each) for each in components(FAULTY)] == [
        ["sections ['Timing', 'Members']", "extra is missing", "o is missing", "e is missing", "j is listed twice",
         "i isn't In"],
        ["valid is missing", "ready is no port"],
        ["sections ['Remarks']", "no ports"],
    ]  # fmt: skip


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
    assert len(folders) == 11
    for folder in folders:
        text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
        listed = {
            name for part in re.findall(r"[-;] ([\w, ]+):", " ".join(text.split())) for name in part.split(", ")
        }  # fmt: skip
        assert listed == {path.stem for path in folder.glob("*.py")} - {"__init__"}, folder.name
