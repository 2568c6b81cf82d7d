"""Errors between a configuration and its figures."""

__all__ = ["FitError", "RouteError", "TargetError", "ToolError"]


class TargetError(ValueError):
    """A part, a block or a usable Liberty file doesn't exist; the message lists those that do."""


class FitError(TargetError):
    """A design needs more than the part has; the message names the resource, the need and the supply."""


class ToolError(RuntimeError):
    """A tool is missing or has failed; the message says how to install it, or has the tool's own."""


class RouteError(ToolError):
    """The router found no wires of their own for all nets; the message says how far it came."""
