"""Cutting a layer's filters for GP, so that the first ones are updated while the others are computed."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ...spec.config import Config
from ...spec.numerics import HIDDEN
from .lowering import Layer

__all__ = ["PARTS", "Part", "cut"]

PARTS = 5
"""Into which a layer's filters are cut at most, if they are."""
PARTS_BESIDE = 8
"""The same where the predictor has an array of its own: what it does for each part costs the main one nothing."""
LEAST_CUT = 1 << 16
"""Weights of a layer that is worth it."""


class Part(NamedTuple):
    """So many of a layer's ``filters`` from the ``first`` on."""

    first: int
    filters: int


def cut(layer: Layer, behind: list[Layer], batch: int, config: Config) -> list[Part]:
    """The layer's filters in parts, or in one; ``behind``: later layers with weights.

    If its update and those of all layers behind take longer than the forward passes of those, for they would have
    nothing left to hide behind; the first parts are updated while the others are computed. Each is as much smaller
    than the one before as an update is faster than a forward pass, but no larger: so it is over when the next one's
    may begin, and the last one's, which nothing hides, is short. A predictor with an array of its own works before the
    update as that does beside it, so the slower of both counts.
    """
    most, pace = PARTS, float(config.update_lanes)
    if config.n_cores > 1:
        most, pace = PARTS_BESIDE, min(pace, config.predictor_core.n_pes / HIDDEN)
    macs = batch * sum(each.q * each.oh * each.ow * (each.filter_elements - 1) for each in behind)
    weights = sum(each.q * each.filter_elements for each in (layer, *behind))
    small = layer.q * layer.filter_elements < LEAST_CUT
    if small or weights / pace <= macs / config.n_pes:
        return [Part(0, layer.q)]
    forward = batch * layer.oh * layer.ow * (layer.filter_elements - 1) / config.n_pes
    ratio = min(1, layer.filter_elements / pace / forward)
    ends = np.cumsum(ratio ** np.arange(most))
    unit = config.beat_elements  # an UPDATE begins with a whole beat
    edges = {0, layer.q, *(int(unit * np.ceil(layer.q * end / ends[-1] / unit)) for end in ends[:-1])}
    bounds = sorted(edge for edge in edges if edge <= layer.q)
    return [Part(first, end - first) for first, end in pairwise(bounds)]
