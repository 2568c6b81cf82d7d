"""Walks through a tile, and addresses of a vector's lanes in them, relative to an outer position."""

from amaranth import Cat, Module, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.odometer import COUNT_BITS, JUMP_BITS, MOST_BITS, Odometer

__all__ = ["N_OUTER", "N_REDUCTION", "LaneOffsets", "WalkLayout", "innermost", "most_bits"]

N_OUTER = 6
N_REDUCTION = 3

WalkLayout = data.StructLayout({
    "new": 1,
    "n": data.ArrayLayout(COUNT_BITS, N_OUTER), "jump": data.ArrayLayout(signed(JUMP_BITS), N_OUTER),
    "k": data.ArrayLayout(COUNT_BITS, N_REDUCTION), "kjump": data.ArrayLayout(signed(JUMP_BITS), N_REDUCTION),
    "n_k": COUNT_BITS, "ones": 1, "n_ones": COUNT_BITS, "repeat": COUNT_BITS,
})  # fmt: skip
"""A walk through one tile. ``new`` changes to the other half first. ``n``, ``jump`` (outer positions) and ``k``,
``kjump`` (reduction) are odometers over operands, ``n_k`` is the reduction's length. ``ones`` adds an outer position
that reads as ones, with ``Config.adds_products`` ``n_ones`` of them. For each group of ``rows`` reduction elements the
outer positions are walked ceil(repeat / cols) times.
"""


def most_bits(config: Config, address_bits: int) -> int:
    """Bits of the greatest count of a walk, less one: at most the operands of a half.

    Products of vectors also walk the same operands again and again.
    """
    return MOST_BITS if config.adds_products else address_bits


def innermost(values, levels: int):
    """The last ``levels`` of an array of ``values``, one after the other."""
    return Cat(list(values)[-levels:])


class LaneOffsets(wiring.Component):
    """Makes addresses of each group of ``rows`` reduction elements, relative to an outer position.

    A group is made while the one before is in use. The next walk is taken as soon as all groups of the present one are
    made.

    Parameters
    ----------
    address_bits
        width of an address
    levels
        levels of the reduction, the innermost ones

    Members
    -------
    walk : In(stream.Signature(WalkLayout))
        the walks; each has stood for a cycle before it is offered
    busy : Out(1)
        low only while the block waits for another block
    o : Out
        the groups

    Timing
    ------
    A lane a cycle; a group every ``rows`` + 1 cycles, if it is taken at once.
    """

    def __init__(self, config: Config, address_bits: int, levels: int = N_REDUCTION):
        super().__init__({
            "walk": In(stream.Signature(WalkLayout)), "busy": Out(1),
            "o": Out(stream.Signature(data.StructLayout({
                "offset": data.ArrayLayout(address_bits, config.rows), "lanes": range(config.rows + 1), "last": 1,
            }))),
        })  # fmt: skip
        self.config, self.address_bits, self.levels = config, address_bits, levels

    def elaborate(self, platform):
        m = Module()
        rows = self.config.rows
        walk = self.walk.payload
        bits = self.address_bits
        m.submodules.odometer = odometer = Odometer(self.levels, bits, most_bits=most_bits(self.config, bits))
        busy = Signal()  # a walk has groups left
        making = Signal()  # a lane is made, for which many registers wait
        left = Signal(COUNT_BITS)
        lane = Signal(range(rows))
        gives = self.o.valid & self.o.ready

        m.d.comb += [
            odometer.n.eq(innermost(walk.k, self.levels)), odometer.jump.eq(innermost(walk.kjump, self.levels)),
            odometer.start.eq(self.walk.valid & self.walk.ready), odometer.step.eq(making),
            self.walk.ready.eq(~busy), self.o.valid.eq(busy & ~making), self.o.payload.last.eq(left <= rows),
            self.o.payload.lanes.eq(rows), self.busy.eq(making | gives),
        ]  # fmt: skip
        with m.If(self.o.payload.last):
            m.d.comb += self.o.payload.lanes.eq(left)
        with m.If(making):
            # Shifted in from the top, so that no lane needs to be addressed.
            offsets = self.o.payload.offset.as_value()
            m.d.sync += [lane.eq(lane + 1), offsets.eq(Cat(offsets[self.address_bits :], odometer.address))]
            with m.If(lane == rows - 1):
                m.d.sync += [lane.eq(0), making.eq(0)]
        with m.If(gives):
            m.d.sync += [left.eq(left - rows), busy.eq(~self.o.payload.last), making.eq(~self.o.payload.last)]
        with m.If(odometer.start):
            m.d.sync += [busy.eq(1), making.eq(1), left.eq(walk.n_k)]
        return m
