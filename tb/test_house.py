"""House rules that no linter knows: the order of imports, no circles, golden twins, sizes of files, packages."""

import ast
import tomllib
from pathlib import Path

import pytest
from adagp.evaluation.instruments.house import (
    GUESSED,
    PARTS,
    Source,
    circles,
    import_graph,
    imports,
    sources,
    spread,
)

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
        "random_signs", "channel_constants", "hash", "dropout", "depthwise",
    )
} | {"adam": "adam_lane", "bfloat16": "pe"}  # fmt: skip
"""Datapath blocks: golden/KEY.py computes the same as the hardware of VALUE.py somewhere in rtl/."""
WHOLES = {
    "__init__",
    "batch_norm",
    "channel_tables",
    "norm_commands",
    "channel_constants",
    "footprint",
    "judge",
    "layer",
    "occupancy",
    "operands",
    "program",
    "state",
    "validate",
    "work",
}
"""Files of golden/ that put blocks together."""
BOXES = ("lib", "norm", "memory", "dma", "compute", "drain", "sequencer", "update", "control", "link", "bfloat16")
"""Folders of rtl/; each may import those before it, and none imports the files that put them together."""
MOST_LINES = 300


def files(part: str) -> list[Path]:
    return sorted((ROOT / part).rglob("*.py"))


def breaks(name: str, part: str) -> bool:
    """True if a file of ``part`` may not import ``name``."""
    top, _, rest = name.partition(".")
    if top == "adagp":
        other = rest.partition(".")[0]
        if other in PARTS and other not in MAY_IMPORT[part]:
            return True
    return top in PARTS or any(name == banned or name.startswith(f"{banned}.") for banned in BANNED[part])


@pytest.mark.parametrize("part", PARTS)
def test_imports_run_one_way(part):
    found = sources(part)
    assert found and part in MAY_IMPORT
    assert not [f"{file.path}: {name}" for file in found for name in imports(file) if breaks(name, part)]


def broken(folder: str, text: str) -> set[str]:
    """The imports of a file in ``folder`` that its part may not have."""
    found = imports(Source(Path(folder, "x.py"), text))
    return {name for name in found if breaks(name, Path(folder).parts[0])}


def test_the_import_rule_sees_what_it_should():
    text = "from ..rtl import pe\nfrom ..spec.microcode.isa import X\nfrom . import layer\nimport golden.x\n"
    assert broken("golden", text) == {
        "adagp.rtl", "adagp.rtl.pe", "adagp.spec.microcode.isa", "adagp.spec.microcode.isa.X", "golden.x",
    }  # fmt: skip
    text = "from adagp.golden import pool\nimport torch.nn\nfrom ...spec.config import Config\n"
    assert broken("sim/deep", text) == {"adagp.golden", "adagp.golden.pool", "torch.nn"}


def test_imports_of_a_package_are_of_its_files():
    """A module of a package is an edge; the package itself only where a name is taken from its __init__."""
    texts = {
        "spec/a/__init__.py": "from .b import X", "spec/a/b.py": "", "spec/c.py": "from .a import b",
        "spec/d.py": "from .a import X",
    }  # fmt: skip
    edges = import_graph([Source(Path(path), text) for path, text in texts.items()])
    assert edges == {
        "adagp.spec.a": {"adagp.spec.a.b"}, "adagp.spec.a.b": set(), "adagp.spec.c": {"adagp.spec.a.b"},
        "adagp.spec.d": {"adagp.spec.a"},
    }  # fmt: skip


def test_no_files_import_each_other_in_a_circle():
    edges = import_graph(sources())
    assert len(edges) > 300 and sum(map(len, edges.values())) > 1000
    assert circles(edges) == []


def test_boxes_of_the_hardware_import_one_way():
    looked, wrong = 0, []
    for file in sources("rtl"):
        box = file.path.parent.name
        if box in BOXES:
            allowed = tuple(f"adagp.rtl.{other}." for other in BOXES[: BOXES.index(box) + 1])
            names = {name for name in imports(file) if name.startswith("adagp.rtl.")}
            looked += len(names)
            wrong += [f"{file.path}: {name}" for name in names if not f"{name}.".startswith(allowed)]
    assert {path.parent.name for path in files("rtl")} == {*BOXES, "rtl"}
    assert looked > 300 and not wrong


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d"}}) == [["b", "c"], ["d"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_measures_of_a_file():
    text = '"""What it is."""\nX = 1\n"""Of x."""\n'
    text += 'class A:\n    def elaborate(self):\n        """It does."""\n        pass\n'
    source = Source(Path("rtl/a.py"), text)
    assert (source.n_lines, source.module, source.elaborate_lines) == (7, "adagp.rtl.a", [3])
    assert sorted(source.docstrings) == ["It does.", "Of x.", "What it is."]
    assert [bool(GUESSED.match(text)) for text in ("Of x", "Often", "Whether so", "It is what")] == [1, 0, 1, 0]
    assert spread([1, 2, 3, 4, 11]) == {"median": 3, "p90": 8.2, "max": 11}


def test_docstrings_begin_with_their_subject():
    texts = [text for file in (*sources(), *sources("tb")) for text in file.docstrings]
    guessed = [text.splitlines()[0] for text in texts if GUESSED.match(text)]
    assert len(texts) > 4000 and len(guessed) <= 0.03 * len(texts), guessed


def test_elaborate_is_short():
    """A component whose elaborate grows lacks a block with a name."""
    lines = spread([lines for file in sources("rtl") for lines in file.elaborate_lines])
    assert lines["p90"] <= 46 and lines["max"] <= 60, lines


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
