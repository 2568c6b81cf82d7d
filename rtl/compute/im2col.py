"""Operand fetch: walks a tile in a scratchpad and streams vectors of reduction elements."""

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.interfaces import OperandVector, PadRead, Token
from ..lib.odometer import COUNT_BITS, JUMP_BITS, MOST_BITS, Odometer
from ..lib.register_slice import RegisterSlice
from ..lib.delay import delayed
from ..lib.room_queue import RoomQueue
from ..memory.scratchpad import Scratchpad

__all__ = ["Im2col", "WalkLayout", "most_bits"]

ROOM = 16

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
        making = Signal()  # a lane is made; the enable of many registers

        m.d.comb += [
            odometer.n.eq(innermost(walk.k, self.levels)), odometer.jump.eq(innermost(walk.kjump, self.levels)),
            odometer.start.eq(self.walk.valid & self.walk.ready),
            self.walk.ready.eq(~busy), self.o.valid.eq(busy & ~making), self.o.payload.last.eq(left <= rows),
            self.o.payload.lanes.eq(rows), self.busy.eq(making | (busy & self.o.ready)),
        ]  # fmt: skip
        with m.If(self.o.payload.last):
            m.d.comb += self.o.payload.lanes.eq(left)
        with m.If(making):
            with m.If(lane == rows - 1):
                m.d.sync += making.eq(0)
            # Shifted in from the top, so that no lane needs to be addressed.
            m.d.comb += odometer.step.eq(1)
            offsets = self.o.payload.offset.as_value()
            m.d.sync += [lane.eq(lane + 1), offsets.eq(Cat(offsets[self.address_bits :], odometer.address))]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [
                lane.eq(0), left.eq(left - rows), busy.eq(~self.o.payload.last), making.eq(~self.o.payload.last),
            ]  # fmt: skip
        with m.If(odometer.start):
            m.d.sync += [busy.eq(1), making.eq(1), lane.eq(0), left.eq(walk.n_k)]
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

    latency = 2 + Scratchpad.FAR_LATENCY
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
        position = Signal(data.StructLayout({
            "valid": 1, "half": 1, "free": 1, "ones": 1,
            "lanes": range(self.config.vector_lanes + 1), "end_pass": 1, "end_sweep": 1, "end_walk": 1,
        }))  # fmt: skip
        m.submodules.queue = queue = RoomQueue(self.o.payload.shape(), ROOM)
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        outer, offsets, walking = self._walk(m, position, queue)
        m.d.comb += queue.begins.eq(position.valid)
        in_flight = self._fetch(m, queue, position, outer, offsets)
        m.d.comb += self.busy.eq(
            walking | queue.begins | in_flight | (self.o.valid & self.o.ready) | queue.settling
        )
        return m

    def _walk(self, m, position, queue):
        """Walk outer positions, group by group; ``position`` is valid while ``queue`` has room."""
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
        m.d.sync += [armed.eq(arming & ~start), start.eq(armed & ~busy & ~start)]  # hundreds wait for ``start``
        offers, takes = self._prepare(m, offsets, prepared)
        m.d.comb += [
            self.waiting.eq(self.walk.valid & walk.new & ~self.full.avail),
            self.walk.ready.eq(start),
            self.full.take.eq(start & walk.new),
            odometer.n.eq(innermost(walk.n, levels)), odometer.jump.eq(innermost(walk.jump, levels)),
            odometer.start.eq(start),
        ]  # fmt: skip
        with m.If(start):
            m.d.sync += [
                prepared.eq(0), ones.eq(walk.ones), repeat.eq(walk.repeat), left.eq(walk.repeat),
                single.eq(walk.repeat <= config.cols), final.eq(walk.repeat <= config.cols), first.eq(walk.new & held),
            ]  # fmt: skip
            with m.If(walk.new):
                m.d.sync += [half.eq(~half), held.eq(1)]

        m.d.comb += [
            position.valid.eq(taken), position.half.eq(half), position.free.eq(first),
            position.ones.eq(extra), position.lanes.eq(group.lanes),
            position.end_pass.eq((extra & last_extra) | (odometer.last & ~ones & ~extra)),
            position.end_sweep.eq(position.end_pass & final),
            position.end_walk.eq(position.end_sweep & group.last),
            odometer.step.eq(taken & ~extra), end_group.eq(taken & position.end_sweep),
            following.o.ready.eq(~group_valid | end_group),
        ]  # fmt: skip
        with m.If(taken):
            m.d.sync += [first.eq(0), extra.eq(Mux(extra, ~last_extra, ones & odometer.last))]
            with m.If(position.end_pass):
                m.d.sync += [left.eq(left - config.cols), final.eq(left <= 2 * config.cols)]
            with m.If(position.end_sweep):
                m.d.sync += [left.eq(repeat), final.eq(single)]
        with m.If(following.o.ready):
            m.d.sync += group.eq(following.o.payload)
        # Whether a position is taken is decided a cycle before, as many registers wait for it.
        will_work, will_have = Signal(), Signal()
        m.d.comb += [
            will_work.eq(start | (busy & ~(taken & position.end_walk))),
            will_have.eq(Mux(following.o.ready, following.o.valid, group_valid)),
        ]
        m.d.sync += [
            busy.eq(will_work), group_valid.eq(will_have), taken.eq(will_work & will_have & queue.soon),
        ]  # fmt: skip
        loading = following.o.valid & following.o.ready
        # A cycle later than the rest of the group, so that a register enables so many; ``following`` still has them.
        late_offsets = Signal.like(group.offset, reset_less=True)
        late = delayed(m, loading, 1)
        with m.If(late):
            m.d.sync += late_offsets.eq(following.o.payload.offset)
        walking = (arming & ~armed) | start | offsets.busy | loading | offers | takes
        return odometer.address, late_offsets, walking | late

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

    def _fetch(self, m, queue, position, outer, offsets):
        """Lead addresses through the scratchpad, and put zeros and ones into their lanes.

        ``offsets`` come a cycle after ``position`` and ``outer``. Nothing waits: the queue has room for what begins.
        """
        config = self.config
        bank_bits = (config.banks - 1).bit_length()
        m.d.comb += self.pad.en.eq(1)
        stages = [position]
        for stage in range(self.latency):
            stages.append(Signal.like(position, name=f"stage{stage}"))
            m.d.sync += stages[-1].eq(stages[-2])
        m.d.sync += stages[1].valid.eq(queue.begins)
        s1_outer = delayed(m, outer, 1, reset=False)
        for lane in range(config.vector_lanes):
            address = Signal(outer.shape(), name=f"address{lane}", reset_less=True)
            m.d.sync += address.eq(s1_outer + offsets[lane])
            m.d.comb += self.pad.addr[lane].eq(Cat(address[bank_bits:], stages[2].half))
            if lane == 0:
                m.d.comb += self.pad.rot.eq(address[:bank_bits])

        here = stages[-1]
        m.d.sync += self.free.eq(stages[-2].valid & stages[-2].free)

        vector = queue.payload
        m.d.comb += [
            queue.valid.eq(here.valid), vector.lanes.eq(here.lanes), vector.end_pass.eq(here.end_pass),
            vector.end_sweep.eq(here.end_sweep), vector.end_walk.eq(here.end_walk),
        ]  # fmt: skip
        for lane in range(config.vector_lanes):
            with m.If(lane < here.lanes):
                m.d.comb += vector.data[lane].eq(self.pad.data[lane])
                with m.If(here.ones):
                    m.d.comb += vector.data[lane].eq(1)
        return Cat(stage.valid for stage in stages[1:]).any()
