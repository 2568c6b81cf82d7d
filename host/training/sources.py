"""Which sources decide how a training run ends, so that a kept record of others isn't taken for one of these."""

from pathlib import Path

from ...gen.cache import code, digest

__all__ = ["training_sources"]

FOLDERS = ("golden", "spec", "host/compiler")
"""Folders whose every file decides."""
FILES = (
    "host/program.py", "host/training/gradient_state.py", "host/training/loss.py", "host/training/models.py",
    "host/training/network.py", "host/training/plateau.py", "host/training/settings.py", "host/training/trainer.py",
)  # fmt: skip
"""Files beside these folders that decide too."""


def training_sources() -> str:
    """Digest of these sources; comments and docstrings don't count."""
    root = Path(__file__).parents[2]
    paths = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*.py"))]
    return digest(*(code(path) for path in [*paths, *(root / name for name in FILES)]))[:16]
