"""What can be wrong with a board's build."""

__all__ = ["BoardError"]


class BoardError(ValueError):
    """A board, configuration or option that can't be built; the message says which and why."""
