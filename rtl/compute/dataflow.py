"""The array of a dataflow and its feeder, and their way to the accumulator."""

from amaranth import Signal

from ...spec.config import Config
from ..lib.delay import delayed, registered
from .accumulator import Accumulator, SumLayout
from .array import Array
from .feeder import Feeder
from .sum_array import SumArray
from .sum_feeder import SumFeeder
from .transposer import Transposer

__all__ = ["join", "multiplying"]


def multiplying(config: Config):
    """Array and feeder of a configuration; whether the array is given something, and cycles it works after that."""
    if config.output_stationary:
        sums, rows = SumFeeder(config), SumArray(config)
        return rows, sums, sums.active, Transposer.LATENCY + config.rows + rows.latency
    array = Array(config)
    feeder = Feeder(config, Accumulator.latency)
    return array, feeder, feeder.active | feeder.load.any(), array.latency + 1


def join(m, config: Config, feeder, array, accumulator) -> None:
    """Connect feeder, array and accumulator. The tag travels beside the array."""
    tag = feeder.tag
    for stage in range(array.latency + 1 - accumulator.AHEAD):
        later = Signal(SumLayout, name=f"tag{stage}")
        m.d.sync += later.eq(tag)
        tag = later
    if config.output_stationary:
        m.d.comb += [getattr(array, name).eq(getattr(feeder, name)) for name in ("a", "b", "add", "first", "row")]
    else:  # registers at the array's far ports
        registered(m, array.stationary, feeder.load_data)
        registered(m, array.stream, feeder.stream_data)
        m.d.comb += [array.load.eq(delayed(m, feeder.load, 1)), array.swap.eq(delayed(m, feeder.swap, 1))]
    m.d.comb += [accumulator.tag.eq(tag), accumulator.psum.eq(array.psum)]
