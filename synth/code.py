"""The sources of this package that decide about figures, by which results of another flow are told."""

import ast
from pathlib import Path

__all__ = ["CELLS", "CODE", "SOURCES", "code"]

SOURCES = ("breakdown", "design", "flow", "floorplan", "harness", "netlist", "nextpnr", "target", "yosys")
"""Modules that decide about every target's figures, besides the one that is called as the target."""

CELLS = ("asic", "breakdown", "design", "liberty", "logic", "memories", "netlist", "power", "sta", "target", "yosys")
"""Those that decide about figures of standard cells."""


class _Bare(ast.NodeTransformer):
    """Leaves docstrings out; a tree has no comments anyway."""

    def visit_Expr(self, node):
        return None if isinstance(node.value, ast.Constant) else node


def code(file: Path) -> str:
    """What a source file does: comments and docstrings don't count."""
    return ast.dump(_Bare().visit(ast.parse(file.read_text())))


CODE = {name: code(Path(__file__).with_name(f"{name}.py")) for name in {*SOURCES, *CELLS, "ecp5", "ice40", "xilinx"}}
"""By module, as the process began: files may change while it runs, but what it has imported doesn't."""
