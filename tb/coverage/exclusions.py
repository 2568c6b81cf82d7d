"""Holes that no test can fill, and why."""

from .figures import Exclusion

__all__ = ["EXCLUSIONS"]

EXCLUSIONS: list[Exclusion] = []
