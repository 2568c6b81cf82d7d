"""All campaigns by name."""

from .campaign import Kind

__all__ = ["KINDS"]

KINDS: dict[str, Kind] = {kind.name: kind for kind in ()}
