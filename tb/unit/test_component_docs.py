"""Docstrings of the hardware's components: each port can be looked up in them."""

import ast
import re
from pathlib import Path

RTL = Path(__file__).parents[2] / "rtl"
SECTIONS = ("Parameters", "Members", "Attributes", "Raises", "Timing")
"""In this order."""


def components(text: str) -> list[ast.ClassDef]:
    """Classes of a file that derive from wiring.Component."""
    classes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef))
    return [each for each in classes if "wiring.Component" in map(ast.unparse, each.bases)]


def ports(component: ast.ClassDef) -> list[str]:
    """Ports that the class names: annotated ones, and those of the signature that its constructor hands on."""
    names = [node.target.id for node in component.body if isinstance(node, ast.AnnAssign)]
    for call in ast.walk(component):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "super().__init__":
            for members in (each for each in call.args if isinstance(each, ast.Dict)):
                unpacked = [v for k, v in zip(members.keys, members.values, strict=True) if k is None]
                inner = [d for value in unpacked for d in ast.walk(value) if isinstance(d, ast.Dict)]
                keys = [key for each in (members, *inner) for key in each.keys]
                names += [key.value for key in keys if isinstance(key, ast.Constant)]
    return names


def faults(component: ast.ClassDef) -> list[str]:
    """Ports that the docstring doesn't name, and sections that are missing or out of order."""
    doc = ast.get_docstring(component) or ""
    found = re.findall(r"^(\w+)\n-+$", doc, re.M)
    wrong = [] if found == [each for each in SECTIONS if each in found] else [f"sections {found}"]
    described = doc.partition("Members\n")[2]
    return wrong + [name for name in ports(component) if not re.search(rf"\b{name}\b", described)]


def test_every_port_is_described():
    named, missing = 0, []
    for path in sorted(RTL.rglob("*.py")):
        for component in components(path.read_text()):
            named += len(ports(component))
            missing += [f"{path.relative_to(RTL)}: {component.name}: {fault}" for fault in faults(component)]
    assert named > 700 and not missing


def test_what_is_missing_is_found():
    text = '''
class A(wiring.Component):
    """A box.

    Timing
    ------
    None.

    Members
    -------
    i : In(1)
        input
    """

    def __init__(self):
        super().__init__({"i": In(1), "o": Out(1), **({"extra": In(1)} if True else {}), f"{self}_x": In(1)})


class B(wiring.Component):
    """Another one."""

    valid: Out(1)
'''
    assert [faults(each) for each in components(text)] == [["sections ['Timing', 'Members']", "o", "extra"], ["valid"]]
