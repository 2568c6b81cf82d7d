"""What can go wrong between a configuration and its figures."""

__all__ = ["FitError", "RouteError", "TargetError", "ToolError"]


class TargetError(ValueError):
    """What was asked for doesn't exist: a part, a block, a usable Liberty file; the message says what does."""


class FitError(TargetError):
    """A design needs more than the part has; the message says of what, how much, and how much there is."""


class ToolError(RuntimeError):
    """A tool is missing or has failed; the message says how to install it, or what it said."""


class RouteError(ToolError):
    """A placed design's nets have found no wires of their own; the message says how far it got."""
