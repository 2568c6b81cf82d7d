"""Jobs of the pool unit, as COMPUTE descriptors say them."""

from amaranth.lib import data

from ...spec.config import Config
from ...spec.microcode.descriptors import VectorMode
from ..lib.odometer import COUNT_BITS

__all__ = ["PoolLayout", "described", "products"]

PoolLayout = data.StructLayout({"mode": 3, "n_taps": COUNT_BITS, "mantissa": 16, "adds": 1, "keeps": 1})
"""A job of the pool unit; MAX and SELECT expect mantissa 1.

DOT and DIGITS with ``keeps`` keep their results, up to ``kept_words``; with ``adds`` they add to those kept by the job
before.
"""


def products(config: Config) -> list[VectorMode]:
    """Modes that add up products."""
    return [VectorMode.DOT] * config.adds_products + [VectorMode.DIGITS] * config.normalises


def described(pool, job) -> list:
    """Statements that give ``pool`` its part of COMPUTE descriptor ``job``."""
    to, config = pool.job.payload, pool.config
    found = [
        to.mode.eq(job.mode), to.n_taps.eq(job.n_a), to.mantissa.eq(job.mantissa), to.adds.eq(~job.first),
        to.keeps.eq(~job.last),
    ]  # fmt: skip
    if config.convolves_channels:
        windows = pool.windows
        found += [
            windows.columns.eq(job.n4), windows.rows.eq(job.n5), windows.width.eq(job.task),
            windows.skips.eq(job.mantissa == 2), windows.vectors.eq(job.n_values), windows.ones.eq(job.ones),
            windows.adds.eq(~job.first), windows.keeps.eq(~job.last),
        ]  # fmt: skip
    if config.drops:  # of SUM; the pool unit's other jobs have no probability
        drop = pool.drop
        found += [
            drop.probability.eq(job.momentum), drop.layer.eq(job.unbiased), drop.pixel.eq(job.n_values),
            drop.first.eq(job.b_stride), drop.channels.eq(job.n_b),
        ]  # fmt: skip
    return found
