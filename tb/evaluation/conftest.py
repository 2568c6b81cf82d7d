"""Fixtures of the evaluation's tests."""

from threads import one_thread

__all__ = ["one_thread"]
