"""Three parts of a data set: one to train with, one to choose settings by, one to report."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...host.training.data import DataError

__all__ = ["VALIDATION", "Splits", "needed_folder", "split"]

VALIDATION = 0.1
"""Share of the training examples that becomes the validation part."""


@dataclass(frozen=True)
class Splits:
    """Parts are examples, see :class:`.batches.Examples`; ``test`` is for the end: nothing is chosen by it.

    ``n_classes``: of images, of objects in them, or words of the target language.
    """

    name: str
    train: Any
    validation: Any
    test: Any
    n_classes: int


def split(n_examples: int, validation: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indexes of examples to train with and of those to validate with, each ascending; the same for the same seed.

    Raises DataError unless both parts get some.
    """
    count = round(n_examples * validation) if 0 < validation < 1 else 0
    if not 0 < count < n_examples:
        raise DataError(f"validation is {validation}, and must leave some of {n_examples} examples in both parts")
    order = np.random.default_rng(seed).permutation(n_examples)
    return np.sort(order[count:]), np.sort(order[:count])


def needed_folder(name: str, folder: Path | None, files: str, url: str) -> Path:
    """``folder``, if it is there; DataError says which files of ``name`` it must have, and where they are from."""
    if folder is None or not Path(folder).exists():
        where = "no folder is given" if folder is None else f"{folder} isn't there"
        raise DataError(f"{name}: {where}; it must hold {files}, from {url}")
    return Path(folder)
