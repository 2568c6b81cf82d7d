"""The sources of this package that decide about figures, by which results of another flow are told."""

import ast
from pathlib import Path

__all__ = ["CODE", "SOURCES"]

SOURCES = ("breakdown", "design", "flow", "floorplan", "harness", "netlist", "nextpnr", "target", "yosys")
"""Modules that decide about every target's figures, besides the one that is called as the target."""


class _Bare(ast.NodeTransformer):
    """Leaves docstrings out; a tree has no comments anyway."""

    def visit_Expr(self, node):
        return None if isinstance(node.value, ast.Constant) else node


def _code(file):
    return ast.dump(_Bare().visit(ast.parse(file.read_text())))


CODE = {name: _code(Path(__file__).with_name(f"{name}.py")) for name in (*SOURCES, "ecp5", "ice40", "xilinx")}
"""By module, as the process began: files may change while it runs, but what it has imported doesn't."""
