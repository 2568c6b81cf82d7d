"""Digest of the sources that decide a training run's result; it tells records kept by other versions."""

from pathlib import Path

from ...gen.cache import code, digest

__all__ = ["training_sources"]

FOLDERS = ("golden", "spec", "host/compiler")
"""Folders all of whose files decide the result."""
FILES = (
    "host/program.py", "host/training/gradient_state.py", "host/training/inference.py", "host/training/loss.py",
    "host/training/models.py", "host/training/network.py", "host/training/plateau.py", "host/training/progress.py",
    "host/training/settings.py", "host/training/tensor_access.py", "host/training/trainer.py",
)  # fmt: skip
"""Further files that decide it."""


def training_sources() -> str:
    """The digest; comments and docstrings don't count."""
    root = Path(__file__).parents[2]
    paths = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*.py"))]
    return digest(*(code(path) for path in [*paths, *(root / name for name in FILES)]))[:16]
