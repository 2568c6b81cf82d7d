"""The tools and packages that a board's build runs, and their versions, by which it is told what to do again."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from ..synth.errors import ToolError

__all__ = ["Tool", "find_tool", "packages"]

PACKAGES = ("litedram", "litex", "migen", "amaranth", "amaranth-boards")
"""That make the sources beside the accelerator's."""


@dataclass(frozen=True)
class Tool:
    """A tool that is there, by the command that runs it, and what it calls itself."""

    command: str
    version: str


def find_tool(name: str, package: str) -> Tool:
    """A native tool, or its WebAssembly build from PyPI; raises ToolError if there is neither.

    The environment variable named after the tool (NEXTPNR_ECP5, ECPPACK) goes before both.
    """
    chosen = os.environ.get(name.upper().replace("-", "_"))
    beside = str(Path(sys.executable).parent)
    for candidate in [chosen] if chosen else [name, f"yowasp-{name}"]:
        path = shutil.which(candidate) or shutil.which(candidate, path=beside)
        if path is not None:
            return Tool(path, _version(path, package))
    raise ToolError(f"{chosen or name} was not found: install it, or pip install {package}")


def _version(path, package):
    if Path(path).name.startswith("yowasp-"):
        return f"{package} {version(package)}"  # several packages are of one version of the tool
    said = subprocess.run([path, "--version"], capture_output=True, text=True)
    lines = (said.stdout + said.stderr).split("\n")
    if said.returncode or not lines[0]:
        raise ToolError(f"{path} --version ended with code {said.returncode} and said: {lines[0] or 'nothing'}")
    return lines[0].strip()


def packages() -> dict[str, str]:
    """Versions of the packages that make a design's sources; they are installed."""
    return {name: version(name) for name in PACKAGES}
