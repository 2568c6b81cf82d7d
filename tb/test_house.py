"""House rules that no linter knows: which part may import which, and golden twins of the datapath."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("spec", "rtl", "golden", "gen", "sim", "synth", "host", "boards", "experiments")
MAY_IMPORT = {
    "spec": {"spec"},
    "rtl": {"spec", "rtl"},
    "golden": {"spec", "golden"},
    "gen": {"spec", "rtl", "gen"},
    "sim": {"spec", "rtl", "gen", "sim"},
    "synth": {"spec", "rtl", "gen", "synth"},
    "host": {"spec", "rtl", "gen", "sim", "synth", "golden", "host"},
    "boards": set(PARTS),
    "experiments": {"spec", "golden", "gen", "host", "boards", "experiments"},
}
BANNED = {
    "spec": {"amaranth", "torch", "numpy"},
    "rtl": {"torch"},
    "golden": {
        "amaranth",
        "adagp.spec.microcode.program",
        "adagp.spec.microcode.setup",
        "adagp.spec.microcode.shape",
        "adagp.spec.microcode.issue",
        "adagp.spec.microcode.machine",
        "adagp.spec.microcode.descriptors",
    },
    "gen": {"torch"},
    "sim": {"torch"},
    "synth": {"torch"},
    "host": {"amaranth"},
    "boards": set(),
    "experiments": {"amaranth"},
}
TWINS = {
    name: name for name in (
        "requantise", "array", "epilogue", "pool", "update", "exponents", "im2col", "reorganise", "quality", "signs",
    )
} | {"adam": "adam_lane", "bfloat16": "pe_bfloat16"}  # fmt: skip
"""Datapath blocks: golden/KEY.py says what the hardware of rtl/VALUE.py computes."""
WHOLES = {"__init__", "footprint", "judge", "layer", "occupancy", "operands", "paper", "program", "validate"}
"""Files of golden/ that put blocks together."""


def imports(path: Path, part: str) -> set[str]:
    """Full names of the modules (and of the names taken from them) that a file imports."""
    found = set()
    folder = path.parent.relative_to(ROOT / part).parts if path.is_relative_to(ROOT / part) else ()
    package = ["adagp", part, *folder]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return found


def files(part: str) -> list[Path]:
    return sorted((ROOT / part).glob("**/*.py"))


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
        f"{path.relative_to(ROOT)}: {name}" for path in paths for name in imports(path, part) if breaks(name, part)
    ]
    assert not broken


def test_the_import_rule_sees_what_it_should(tmp_path):
    path = tmp_path / "x.py"
    path.write_text(
        "from ..rtl import pe\nfrom ..spec.tiles import tile_program\nfrom . import layer\nimport golden.x\n"
    )
    assert {name for name in imports(path, "golden") if breaks(name, "golden")} == {
        "adagp.rtl", "adagp.rtl.compute.pe", "adagp.spec.microcode.program", "adagp.spec.microcode.program.tile_program",
        "golden.x",
    }  # fmt: skip
    path.write_text("from adagp.golden import pool\nimport torch.nn\nfrom ..spec.tiles import tile_program\n")
    assert {name for name in imports(path, "sim") if breaks(name, "sim")} == {
        "adagp.golden", "adagp.golden.pool", "torch.nn",
    }  # fmt: skip


def test_every_datapath_block_has_its_golden_twin():
    # Not of those in golden's folders: the algorithm, in floats.
    golden, rtl = ({path.stem for path in (ROOT / part).glob("*.py")} for part in ("golden", "rtl"))
    assert rtl >= set(TWINS.values())
    assert golden == set(TWINS) | WHOLES
