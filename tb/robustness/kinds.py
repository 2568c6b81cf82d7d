"""All campaigns by name."""

from .campaign import Kind
from .faults import FAULTS
from .malformed import MALFORMED, PREDICTING
from .networks import NETWORKS
from .predicting import PREDICTING_NETWORKS
from .resets import RESETS

__all__ = ["KINDS"]

KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (FAULTS, RESETS, MALFORMED, PREDICTING, NETWORKS, PREDICTING_NETWORKS)
}
