"""Filters of a layer cut into parts for GP, so that the first ones are updated while the others are computed."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ...spec.config import Config
from ...spec.numerics import HIDDEN
from .lowering import Layer

__all__ = ["PARTS", "Part", "cut"]

PARTS = 5
"""Most parts of a layer's filters."""
PARTS_BESIDE = 8
"""The same if the predictor has an array of its own: its work for a part then costs the main array nothing."""
LEAST_CUT = 1 << 16
"""Least weights of a layer that is cut."""


class Part(NamedTuple):
    """A run of a layer's ``filters`` from the ``first`` on."""

    first: int
    filters: int


def cut(layer: Layer, later: list[Layer], batch: int, config: Config) -> list[Part]:
    """The layer's filters in parts, or in one part; ``later`` are the layers with weights after it.

    A layer is cut if updates fall behind: if its own and those of the later layers take longer than the forward passes
    of the later layers, with which they overlap. Then the first parts are updated while the others are computed.

    Parts never grow. Each is smaller than the one before by the ratio of an update's time to a forward pass's, if that
    is below 1. An update is then over when the next one may begin, and the last, with which nothing overlaps, is short.

    A predictor with an array of its own works at the same time as the update, so the slower of the two counts.
    """
    most, pace = PARTS, float(config.update_lanes)
    if config.n_cores > 1:
        most, pace = PARTS_BESIDE, min(pace, config.predictor_core.n_pes / HIDDEN)
    macs = batch * sum(each.q * each.oh * each.ow * (each.filter_elements - 1) for each in later)
    weights = sum(each.q * each.filter_elements for each in (layer, *later))
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
