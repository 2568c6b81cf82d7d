"""What can be wrong with a board's build."""

__all__ = ["BoardError", "ToolError"]


class BoardError(ValueError):
    """A board, configuration or option that can't be built; the message says which and why."""


class ToolError(RuntimeError):
    """A tool is missing or failed; the message says which, and what it said."""
