"""Operand fetch: walks a tile in a scratchpad and streams vectors of reduction elements."""

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.interfaces import OperandVector, PadRead, Token
from ..lib.odometer import COUNT_BITS, JUMP_BITS, MOST_BITS, Odometer
from ..lib.register_slice import RegisterSlice
from ..lib.skid import Skid
from ..memory.scratchpad import Scratchpad

__all__ = ["Im2col", "WalkLayout", "most_bits"]

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
    A lane a cycle, so ``rows`` cycles for a group.
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
        busy = Signal()
        left = Signal(COUNT_BITS)
        lane = Signal(range(rows + 1))

        m.d.comb += [
            odometer.n.eq(innermost(walk.k, self.levels)), odometer.jump.eq(innermost(walk.kjump, self.levels)),
            odometer.start.eq(self.walk.valid & self.walk.ready),
            self.walk.ready.eq(~busy), self.o.valid.eq(busy & (lane == rows)), self.o.payload.last.eq(left <= rows),
            self.o.payload.lanes.eq(rows), self.busy.eq(busy & ((lane != rows) | self.o.ready)),
        ]  # fmt: skip
        with m.If(self.o.payload.last):
            m.d.comb += self.o.payload.lanes.eq(left)
        with m.If(busy & (lane != rows)):
            # Shifted in from the top, so that no lane needs to be addressed.
            m.d.comb += odometer.step.eq(1)
            offsets = self.o.payload.offset.as_value()
            m.d.sync += [lane.eq(lane + 1), offsets.eq(Cat(offsets[self.address_bits :], odometer.address))]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [lane.eq(0), left.eq(left - rows), busy.eq(~self.o.payload.last)]
        with m.If(odometer.start):
            m.d.sync += [busy.eq(1), lane.eq(0), left.eq(walk.n_k)]
        return m


class Im2col(wiring.Component):
    """Fetches the vectors of one operand from its scratchpad: im2col without a copy.

    It gives a vector for each group of ``rows`` reduction elements, for each repetition, for each outer position. Lane
    i is at the outer position's address plus the group's offset i, whose bank must be lane 0's bank plus i. Lanes from
    n_k on are 0. The next walk is prepared while one is in progress.

    Parameters
    ----------
    depth
        words of a half of the scratchpad
    levels
        levels of outer positions and of the reduction, the innermost ones; others have one turn in all walks

    Members
    -------
    walk : In(stream.Signature(WalkLayout))
        the walks; one with ``new`` takes a ``full`` token and changes halves
    pad : Out(PadRead(config, 2 * depth))
        read port of the scratchpad
    full : Out(Token())
        token of a full half
    free : Out(1)
        pulses when the half before has been read to its end
    waiting : Out(1)
        there is no ``full`` token for the walk
    busy : Out(1)
        low only while the block waits for another block
    o : Out(stream.Signature(OperandVector(config)))
        the vectors

    Timing
    ------
    A vector a cycle; ``latency`` cycles from an outer position to its vector, and one through a skid buffer.
    """

    latency = 1 + Scratchpad.READ_LATENCY
    """Cycles from an outer position to its vector, which then passes through a :class:`.lib.skid.Skid`."""
    walk_layout = WalkLayout

    def __init__(self, config: Config, depth: int, levels: tuple[int, int] = (N_OUTER, N_REDUCTION)):
        super().__init__({
            "walk": In(stream.Signature(self.walk_layout)), "pad": Out(PadRead(config, 2 * depth)),
            "full": Out(Token()), "free": Out(1), "waiting": Out(1), "busy": Out(1),
            "o": Out(stream.Signature(OperandVector(config))),
        })  # fmt: skip
        self.config, self.depth, self.levels = config, depth, levels

    def elaborate(self, platform):
        m = Module()
        step = Signal()
        position = Signal(data.StructLayout({
            "valid": 1, "half": 1, "free": 1, "ones": 1,
            "lanes": range(self.config.vector_lanes + 1), "end_pass": 1, "end_sweep": 1, "end_walk": 1,
        }))  # fmt: skip
        m.submodules.skid = skid = Skid(self.o.payload.shape())
        wiring.connect(m, skid.o, wiring.flipped(self.o))
        m.d.comb += step.eq(skid.i.ready)
        outer, offsets, walking = self._walk(m, position, step)
        in_flight = self._fetch(m, skid.i, position, step, outer, offsets)
        m.d.comb += self.busy.eq(walking | (in_flight & step) | (self.o.valid & self.o.ready))
        return m

    def _walk(self, m, position, step):
        """Walk outer positions, group by group; ``position`` moves on in cycles with ``step``."""
        config = self.config
        address_bits = (self.depth * config.banks - 1).bit_length()
        walk = self.walk.payload
        levels, reduction = self.levels
        m.submodules.odometer = odometer = Odometer(levels, address_bits, most_bits=most_bits(config, address_bits))
        m.submodules.offsets = offsets = LaneOffsets(config, address_bits, reduction)
        m.submodules.following = following = RegisterSlice(offsets.o.payload.shape())
        wiring.connect(m, offsets.o, following.i)
        group = Signal(offsets.o.payload.shape(), reset_less=True)
        group_valid, busy, ones, extra, held, first = (
            Signal(name=name) for name in ("group_valid", "busy", "ones", "extra", "held", "first")
        )
        half = Signal(init=1)  # the first ``new`` makes it 0
        repeat, left = Signal(COUNT_BITS), Signal(COUNT_BITS)
        prepared = Signal()
        end_group, taken = Signal(), Signal()
        final, single = Signal(), Signal()  # the group's last repetition, its only one
        start = Signal()
        last_extra = self._count_ones(m, walk, start, taken, extra)

        armed = Signal()  # the walk may start when its predecessor has ended
        arming = self.walk.valid & prepared & (~walk.new | self.full.avail)
        m.d.sync += armed.eq(arming & ~start)
        offers, takes = self._prepare(m, offsets, prepared)
        m.d.comb += [
            self.waiting.eq(self.walk.valid & walk.new & ~self.full.avail),
            start.eq(armed & ~busy), self.walk.ready.eq(start),
            self.full.take.eq(start & walk.new),
            odometer.n.eq(innermost(walk.n, levels)), odometer.jump.eq(innermost(walk.jump, levels)),
            odometer.start.eq(start),
        ]  # fmt: skip
        with m.If(start):
            m.d.sync += [
                prepared.eq(0), busy.eq(1), ones.eq(walk.ones), repeat.eq(walk.repeat), left.eq(walk.repeat),
                single.eq(walk.repeat <= config.cols), final.eq(walk.repeat <= config.cols), first.eq(walk.new & held),
            ]  # fmt: skip
            with m.If(walk.new):
                m.d.sync += [half.eq(~half), held.eq(1)]

        m.d.comb += [
            position.valid.eq(busy & group_valid), position.half.eq(half), position.free.eq(first),
            position.ones.eq(extra), position.lanes.eq(group.lanes),
            position.end_pass.eq((extra & last_extra) | (odometer.last & ~ones & ~extra)),
            position.end_sweep.eq(position.end_pass & final),
            position.end_walk.eq(position.end_sweep & group.last),
            taken.eq(position.valid & step), odometer.step.eq(taken & ~extra), end_group.eq(taken & position.end_sweep),
            following.o.ready.eq(~group_valid | end_group),
        ]  # fmt: skip
        with m.If(taken):
            m.d.sync += [first.eq(0), extra.eq(Mux(extra, ~last_extra, ones & odometer.last))]
            with m.If(position.end_pass):
                m.d.sync += [left.eq(left - config.cols), final.eq(left <= 2 * config.cols)]
            with m.If(position.end_sweep):
                m.d.sync += [left.eq(repeat), final.eq(single)]
            with m.If(position.end_walk):
                m.d.sync += busy.eq(0)
        with m.If(following.o.ready):
            m.d.sync += [group.eq(following.o.payload), group_valid.eq(following.o.valid)]
        loading = following.o.valid & following.o.ready
        walking = (arming & ~armed) | start | offsets.busy | loading | offers | takes
        return odometer.address, group.offset, walking

    def _count_ones(self, m, walk, start, taken, extra):
        """Count the added positions of a pass; true at the last of them."""
        if not self.config.adds_products:
            return 1
        n_ones, left = Signal(COUNT_BITS), Signal(COUNT_BITS)
        single, last = Signal(), Signal()
        with m.If(taken & extra):
            m.d.sync += [left.eq(left - 1), last.eq(left == 2)]
        with m.If(taken & ~extra):
            m.d.sync += [left.eq(n_ones), last.eq(single)]
        with m.If(start):
            m.d.sync += [n_ones.eq(walk.n_ones), single.eq(walk.n_ones == 1)]
        return last

    def _prepare(self, m, offsets, prepared):
        """Begin the offsets' walk ahead of the outer one, which waits for its tile and its predecessor.

        Returns whether it is about to be offered, and whether it is taken.
        """
        offered = Signal()  # to the offsets, whose odometer must have seen it for a cycle
        offering = self.walk.valid & ~prepared
        takes = offered & offsets.walk.ready
        m.d.sync += offered.eq(offering & ~takes)
        m.d.comb += [offsets.walk.payload.eq(self.walk.payload), offsets.walk.valid.eq(offered)]
        with m.If(takes):
            m.d.sync += prepared.eq(1)
        return offering & ~offered, takes

    def _fetch(self, m, o, position, step, outer, offsets):
        """Lead addresses through the scratchpad, and put zeros and ones into their lanes."""
        config = self.config
        bank_bits = (config.banks - 1).bit_length()
        m.d.comb += self.pad.en.eq(step)
        half = Signal()
        for lane in range(config.vector_lanes):
            address = Signal(outer.shape(), name=f"address{lane}", reset_less=True)
            with m.If(step):
                m.d.sync += address.eq(outer + offsets[lane])
            m.d.comb += self.pad.addr[lane].eq(Cat(address[bank_bits:], half))
            if lane == 0:
                m.d.comb += self.pad.rot.eq(address[:bank_bits])

        stages = [position]
        with m.If(step):
            for stage in range(self.latency):
                stages.append(Signal.like(position, name=f"stage{stage}"))
                m.d.sync += stages[-1].eq(stages[-2])
            m.d.sync += half.eq(position.half)
        here = stages[-1]
        m.d.sync += self.free.eq(step & stages[-2].valid & stages[-2].free)

        vector = o.payload
        m.d.comb += [
            o.valid.eq(here.valid), vector.lanes.eq(here.lanes), vector.end_pass.eq(here.end_pass),
            vector.end_sweep.eq(here.end_sweep), vector.end_walk.eq(here.end_walk),
        ]  # fmt: skip
        for lane in range(config.vector_lanes):
            with m.If(lane < here.lanes):
                m.d.comb += vector.data[lane].eq(self.pad.data[lane])
                with m.If(here.ones):
                    m.d.comb += vector.data[lane].eq(1)
        return Cat(stage.valid for stage in stages).any()
