"""Fixtures of the library's tests."""

from threads import one_thread

__all__ = ["one_thread"]
