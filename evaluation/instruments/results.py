"""Measured figures as data: ``results/NAME.json`` with figures, details and provenance."""

import json
import math
from collections.abc import Mapping
from pathlib import Path

from ...gen.files import write_atomically

__all__ = ["FOLDER", "merge_results", "write_results"]

FOLDER = Path("results")
"""Folder of results, in a checkout."""


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
