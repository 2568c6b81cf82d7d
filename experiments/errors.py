"""Errors of experiments."""

__all__ = ["ExperimentError", "NetworkError"]


class NetworkError(ValueError):
    """A network that can't be built; the message names the field, or the package that is missing."""


class ExperimentError(RuntimeError):
    """An experiment that could not be finished; the message says why."""
