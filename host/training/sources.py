"""Which sources decide how a training run ends, so that a kept record of others isn't taken for one of these."""

import hashlib
from pathlib import Path

__all__ = ["training_sources"]

FOLDERS = ("golden", "spec")
FILES = (
    "assembler", "compiler", "controls", "dependencies", "loss", "lowering", "mapping", "memory_plan", "models",
    "network", "parts", "phases", "plateau", "predictor", "predictor_state", "quantise", "settings", "steps", "tensors",
    "tiling", "trainer",
)  # fmt: skip
"""Of the host."""


def training_sources() -> str:
    """Their digest."""
    root, checksum = Path(__file__).parents[1], hashlib.sha256()
    paths = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*.py"))]
    for path in [*paths, *(root / "host" / f"{name}.py" for name in FILES)]:
        checksum.update(path.read_bytes())
    return checksum.hexdigest()[:16]
