"""Errors of a board's build."""

from ..synth.errors import TargetError

__all__ = ["BoardError"]


class BoardError(TargetError):
    """A board, configuration or option that can't be built; the message says which and why."""
