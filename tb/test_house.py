"""House rules that no linter knows: the order of imports, no circles, golden twins, sizes of files, packages."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {
    "spec": {"spec"},
    "rtl": {"spec", "rtl"},
    "golden": {"spec", "golden"},
    "algorithm": {"spec", "algorithm"},
    "gen": {"spec", "rtl", "gen"},
    "sim": {"spec", "rtl", "gen", "sim"},
    "synth": {"spec", "rtl", "gen", "synth"},
    "host": {"spec", "rtl", "gen", "sim", "golden", "host"},
    "boards": {"spec", "rtl", "gen", "sim", "synth", "host", "boards"},
    "experiments": {"spec", "algorithm", "gen", "host", "experiments"},
    "evaluation": {
        "spec", "rtl", "golden", "algorithm", "gen", "sim", "synth", "host", "boards", "experiments", "evaluation",
    },
    "cli": {
        "spec", "rtl", "golden", "algorithm", "gen", "sim", "synth", "host", "boards", "experiments", "evaluation",
        "cli",
    },
}  # fmt: skip
"""The parts, each with those that it may import."""
PARTS = tuple(MAY_IMPORT)
BANNED = {
    "spec": {"amaranth", "torch", "numpy"},
    "rtl": {"torch"},
    "golden": {"amaranth", "adagp.spec.microcode"},
    "algorithm": {"amaranth"},
    "gen": {"torch"},
    "sim": {"torch"},
    "synth": {"torch"},
    "host": {"amaranth"},
    "boards": set(),
    "experiments": {"amaranth"},
    "evaluation": {"amaranth"},
    "cli": {"amaranth"},
}
TWINS = {
    name: name for name in (
        "requantise", "array", "epilogue", "pool", "update", "exponents", "im2col", "reorganise", "quality",
        "random_signs",
    )
} | {"adam": "adam_lane", "bfloat16": "pe"}  # fmt: skip
"""Datapath blocks: golden/KEY.py computes the same as the hardware of VALUE.py somewhere in rtl/."""
WHOLES = {"__init__", "footprint", "judge", "layer", "occupancy", "operands", "program", "state", "validate", "work"}
"""Files of golden/ that put blocks together."""
MOST_LINES = 300


def package_of(path: Path, root: Path = ROOT) -> list[str]:
    """The package that a file's relative imports start from."""
    return ["adagp", *path.relative_to(root).parent.parts] if path.is_relative_to(root) else ["adagp"]


def imports(path: Path, package: list[str]) -> set[str]:
    """Full names of the modules (and of the names taken from them) that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return found


def files(part: str) -> list[Path]:
    return sorted((ROOT / part).rglob("*.py"))


def breaks(name: str, part: str) -> bool:
    """Whether a file of ``part`` may not import ``name``."""
    top, _, rest = name.partition(".")
    if top == "adagp":
        other = rest.partition(".")[0]
        if other in PARTS and other not in MAY_IMPORT[part]:
            return True
    return top in PARTS or any(name == banned or name.startswith(f"{banned}.") for banned in BANNED[part])


@pytest.mark.parametrize("part", PARTS)
def test_imports_run_one_way(part):
    paths = files(part)
    assert paths
    broken = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in paths for name in imports(path, package_of(path)) if breaks(name, part)
    ]  # fmt: skip
    assert not broken


def test_the_import_rule_sees_what_it_should(tmp_path):
    path = tmp_path / "x.py"
    path.write_text("from ..rtl import pe\nfrom ..spec.microcode.isa import X\nfrom . import layer\nimport golden.x\n")
    assert {name for name in imports(path, ["adagp", "golden"]) if breaks(name, "golden")} == {
        "adagp.rtl", "adagp.rtl.pe", "adagp.spec.microcode.isa", "adagp.spec.microcode.isa.X", "golden.x",
    }  # fmt: skip
    path.write_text("from adagp.golden import pool\nimport torch.nn\nfrom ...spec.config import Config\n")
    assert {name for name in imports(path, ["adagp", "sim", "deep"]) if breaks(name, "sim")} == {
        "adagp.golden", "adagp.golden.pool", "torch.nn",
    }  # fmt: skip


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(["adagp", *(parts[:-1] if parts[-1] == "__init__" else parts)])


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The circles of a graph: its strongly connected components of more than one node, or with an edge to itself."""
    order, low, stack, found = {}, {}, [], []

    def visit(node):
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


def test_no_files_import_each_other_in_a_circle():
    modules = {module_of(path): path for part in PARTS for path in files(part)}
    edges = {}
    for module, path in modules.items():
        names = imports(path, package_of(path))
        # A package's own module is imported wherever one of its modules is; only names taken from it count.
        taken = {name for name in names if name in modules}
        edges[module] = {
            name for name in taken
            if modules[name].name != "__init__.py" or any(
                other.startswith(f"{name}.") and other not in modules for other in names
            )
        } - {module}  # fmt: skip
    assert len(edges) > 300 and sum(map(len, edges.values())) > 1000
    assert circles(edges) == []


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d"}}) == [["b", "c"], ["d"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_every_datapath_block_has_its_golden_twin():
    golden = {path.stem for path in files("golden")}
    assert {path.stem for path in files("rtl")} >= set(TWINS.values())
    assert golden == set(TWINS) | WHOLES


def test_no_file_is_long():
    paths = [path for part in (*PARTS, "tb") for path in files(part)]
    long = {str(path.relative_to(ROOT)): n for path in paths if (n := len(path.read_text().splitlines())) > MOST_LINES}
    assert len(paths) > 600 and not long


def test_every_folder_of_sources_is_a_package_of_the_wheel():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {str(path.parent.relative_to(ROOT)) for part in PARTS for path in files(part)}
    packages = {f"adagp.{folder.replace('/', '.')}": folder for folder in folders} | {"adagp": "package"}
    assert listed["package-dir"] == packages and sorted(listed["packages"]) == sorted(packages)


def test_every_folder_says_what_it_is_for():
    folders = {path.parent for part in PARTS for path in files(part)}
    silent = [str(folder.relative_to(ROOT)) for folder in folders if not _says(folder / "__init__.py")]
    assert folders and not silent


def _says(path: Path) -> bool:
    return path.exists() and bool(ast.get_docstring(ast.parse(path.read_text())))
