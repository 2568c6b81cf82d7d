"""What can be wrong with an experiment's settings."""

__all__ = ["ModelError"]


class ModelError(ValueError):
    """A network that can't be built; the message names the field, or the package that is missing."""
