"""The checkout that holds ``results/`` and ``docs/``; an installed package has neither."""

import sys
from pathlib import Path

__all__ = ["require_checkout"]

ROOT = Path(__file__).parents[1]
"""Folder of the checkout, or of the installed package."""


def require_checkout() -> None:
    """Exit with one line where there is no checkout, before anything is written beside an installed package."""
    if not (ROOT / "pyproject.toml").exists():
        sys.exit(f"adagp: {ROOT} isn't a checkout: documents are written from its results/ to its docs/ only")
