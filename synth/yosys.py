"""Yosys, as a library from PyPI, in a process of its own; netlists are kept in the cache."""

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..gen.cache import digest, entry
from . import process
from .errors import ToolError

__all__ = ["MARK", "TOP", "Step", "synthesise", "yosys_command", "yosys_version"]

TOP = "adagp"
"""The top module of every netlist."""

_MAIN = "import sys; from pyosys import libyosys as ys; ys.run_pass(f'script {sys.argv[1]}', ys.Design())"
_WRITE = """
tee -q -o scopes.txt select -list t:$scopeinfo
delete t:$scopeinfo
write_json netlist.json
"""
"""Cells that stand for the blocks of a flattened design are nothing that place and route knows."""
MARK = "block:"
"""Beginning of a cell's source that is the module it was written in."""
_MODULE = re.compile(r"^module \\(\S+)$", re.MULTILINE)
_PASS = re.compile(r"^[\d.]+ Executing (.+?)(?: pass| \(|\.)", re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """A change of a netlist after Yosys has made it.

    ``change`` gets the content of ``netlist.json`` and returns the content that replaces it; ``identity`` tells the
    step from others.
    """

    change: Callable[[dict], dict]
    identity: str

    def apply(self, file: Path) -> None:
        """Change a netlist's file."""
        file.write_text(json.dumps(self.change(json.loads(file.read_text()))))


def _marks(text):
    """Commands that note for each cell which module it was written in.

    As its source, which mapping keeps, but for logic: a register that drives ports may otherwise bear the name of any.
    """
    return "\n".join(f'setattr -set src "{MARK}{module}" {module}/t:*' for module in _MODULE.findall(text))


def yosys_version() -> str:
    """Version of the installed Yosys; raises ToolError if there is none."""
    try:
        return version("pyosys")
    except PackageNotFoundError:
        raise ToolError("synthesis needs Yosys: pip install pyosys (or the extra adagp[synth])") from None


def yosys_command(script: str) -> tuple[str, ...]:
    """Command that runs a Yosys script in the current folder."""
    return (sys.executable, "-u", "-c", _MAIN, script)  # unbuffered: an error ends the process at once


def synthesise(
    name: str, rtlil: Path, passes: str, say: process.Say = lambda _: None, files: Mapping[str, bytes] | None = None,
    after: Step | None = None,
) -> Path:  # fmt: skip
    """Folder with ``netlist.json``, ``scopes.txt`` (paths of blocks) and ``log.txt`` of a design, cached or new.

    ``passes``: lines of a Yosys script between reading and writing, which leave one top module ``adagp``; ``files`` are
    others that they read; ``after`` is done to ``netlist.json``. Raises ToolError.
    """
    script = f"read_rtlil input.il\nchformal -remove\nproc\n{_marks(rtlil.read_text())}\n{passes}\n{_WRITE}"
    others = {"script.ys": script.encode(), **(files or {})}
    contents = (others[file] for file in sorted(others))
    step = [after.identity] if after else []
    key = digest(rtlil.read_bytes(), yosys_version(), *sorted(others), *contents, *step)
    with entry(f"netlist-{name}-{key}") as (path, scratch):
        if scratch:
            folder = scratch / "out"
            folder.mkdir()
            for file, content in others.items():
                (folder / file).write_bytes(content)
            (folder / "input.il").symlink_to(rtlil.resolve())
            process.run(
                yosys_command("script.ys"), folder, folder / "log.txt", _PASS, say,
                what=f"Yosys, synthesising {name},", keep=path.with_name(f"{path.name}.log"),
            )  # fmt: skip
            (folder / "input.il").unlink()
            if after:
                after.apply(folder / "netlist.json")
            folder.rename(path)
    return path
