"""All campaigns by name."""

from .campaign import Kind
from .faults import FAULTS, PREDICTED_FAULTS
from .malformed import MALFORMED, PREDICTING
from .networks import NETWORKS
from .predicting import PREDICTING_NETWORKS
from .resets import PREDICTED_RESETS, RESETS

__all__ = ["KINDS"]

_TRUE = FAULTS, RESETS, MALFORMED, NETWORKS
_PREDICTED = PREDICTED_FAULTS, PREDICTED_RESETS, PREDICTING, PREDICTING_NETWORKS

KINDS: dict[str, Kind] = {kind.name: kind for kind in (*_TRUE, *_PREDICTED)}
