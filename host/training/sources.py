"""Digests of the sources that decide a training run's result; they tell records kept by other versions."""

from pathlib import Path

from ...gen.cache import code, digest

__all__ = ["model_sources", "training_sources"]

FOLDERS = ("golden", "spec", "host/compiler", "host/islands")
"""Folders all of whose files decide the result."""
MODELS = (
    "host/training/cifar_batches.py", "host/training/data.py", "host/training/dataset.py", "host/training/models.py",
    "host/training/siblings.py",
)  # fmt: skip
"""Files that decide data and networks, whoever trains them."""
FILES = (
    *MODELS, "host/program.py", "host/training/exchange.py", "host/training/gradient_state.py",
    "host/training/inference.py", "host/training/layer_weights.py", "host/training/loss.py",
    "host/training/network.py", "host/training/plateau.py", "host/training/progress.py", "host/training/settings.py",
    "host/training/trainer.py",
)  # fmt: skip
"""Further files that decide it."""
ROOT = Path(__file__).parents[2]


def model_sources() -> str:
    """The digest of data and networks alone, for runs by PyTorch; comments and docstrings don't count."""
    return digest(*(code(ROOT / name) for name in MODELS))[:16]


def training_sources() -> str:
    """The digest; comments and docstrings don't count."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return digest(*(code(path) for path in [*paths, *(ROOT / name for name in FILES)]))[:16]
