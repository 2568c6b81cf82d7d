"""Operand fetch: walks a tile in a scratchpad and streams vectors of reduction elements."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.delay import delayed
from ..lib.interfaces import OperandVector, PadRead, Token
from ..lib.odometer import COUNT_BITS, Odometer
from ..lib.register_slice import RegisterSlice
from ..lib.room_queue import RoomQueue
from ..memory.scratchpad import Scratchpad
from .lane_offsets import N_OUTER, N_REDUCTION, LaneOffsets, WalkLayout, innermost, most_bits

__all__ = ["Im2col"]

ROOM = 16
"""Vectors between an outer position and the consumer: enough for one a cycle, see :class:`.lib.room_queue.RoomQueue`.
"""


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
    pad : Out(PadRead(config, 2 * depth, zeros=True))
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
    A vector a cycle, if a group has more than ``rows`` of them; a cycle is missing between two walks. From an outer
    position to its vector it takes ``latency`` cycles, and one through the queue.
    """

    latency = 2 + Scratchpad.READ_LATENCY
    """Cycles from an outer position to its vector, which then passes through a :class:`.lib.room_queue.RoomQueue`."""
    walk_layout = WalkLayout

    def __init__(self, config: Config, depth: int, levels: tuple[int, int] = (N_OUTER, N_REDUCTION)):
        super().__init__({
            "walk": In(stream.Signature(self.walk_layout)), "pad": Out(PadRead(config, 2 * depth, True)),
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
        outer, offsets, walking = self._walk(m, position, queue.room)
        in_flight = self._fetch(m, queue, position, outer, offsets)
        m.d.comb += self.busy.eq(walking | in_flight | (self.o.valid & self.o.ready))
        return m

    def _walk(self, m, position, room):
        """Walk outer positions, group by group.

        Returns the address of the position, and what :meth:`_take` returns of its group.
        """
        config, walk = self.config, self.walk.payload
        address_bits = (self.depth * config.banks - 1).bit_length()
        levels, reduction = self.levels
        m.submodules.odometer = odometer = Odometer(levels, address_bits, most_bits=most_bits(config, address_bits))
        m.submodules.offsets = offsets = LaneOffsets(config, address_bits, reduction)
        ones, extra = Signal(name="ones"), Signal(name="extra")
        repeat, left = Signal(COUNT_BITS), Signal(COUNT_BITS)
        final, single = Signal(), Signal()  # the group's last repetition, its only one
        start, group, group_offsets, walking = self._take(m, position, room, odometer, offsets, position.end_sweep)
        taken = position.valid
        last_extra = self._count_ones(m, walk, start, taken, extra)
        m.d.comb += [
            position.ones.eq(extra), odometer.step.eq(taken & ~extra),
            position.end_pass.eq((extra & last_extra) | (odometer.last & ~ones & ~extra)),
            position.end_sweep.eq(position.end_pass & final), position.end_walk.eq(position.end_sweep & group.last),
        ]  # fmt: skip
        with m.If(start):
            m.d.sync += [
                ones.eq(walk.ones), repeat.eq(walk.repeat), left.eq(walk.repeat),
                single.eq(walk.repeat <= config.cols), final.eq(walk.repeat <= config.cols),
            ]  # fmt: skip
        with m.If(taken):
            m.d.sync += extra.eq(Mux(extra, ~last_extra, ones & odometer.last))
            with m.If(position.end_pass):
                m.d.sync += [left.eq(left - config.cols), final.eq(left <= 2 * config.cols)]
            with m.If(position.end_sweep):
                m.d.sync += [left.eq(repeat), final.eq(single)]
        return odometer.address, group_offsets, walking

    def _take(self, m, position, room, odometer, offsets, ends):
        """Start walks, and take positions of a walk and a group if there is ``room`` for their vectors.

        Both are decided a cycle ahead, as hundreds of registers wait for them. ``ends``: the position is its group's
        last. Returns the start, the position's group, offsets of the group a cycle later, and whether anything goes on.
        """
        walk = self.walk.payload
        start, taken, busy, prepared, held, first, will_start, will_work, will_take = (
            Signal(name=name) for name in (
                "start", "taken", "busy", "prepared", "held", "first", "will_start", "will_work", "will_take",
            )
        )  # fmt: skip
        half = Signal(init=1)  # the first ``new`` makes it 0
        group, will_have, group_offsets, loads = self._load(m, offsets, taken & ends)
        about_to_offer, offered = self._prepare(m, offsets, start, prepared)
        m.d.comb += [
            will_work.eq(start | (busy & ~(taken & position.end_walk))), will_take.eq(will_work & will_have & room),
            will_start.eq(self.walk.valid & prepared & (~walk.new | self.full.avail) & ~will_work),
            self.waiting.eq(self.walk.valid & walk.new & ~self.full.avail),
            self.walk.ready.eq(start), self.full.take.eq(start & walk.new), odometer.start.eq(start),
            odometer.n.eq(innermost(walk.n, self.levels[0])), odometer.jump.eq(innermost(walk.jump, self.levels[0])),
            position.valid.eq(taken), position.half.eq(half), position.free.eq(first), position.lanes.eq(group.lanes),
        ]  # fmt: skip
        m.d.sync += [start.eq(will_start), busy.eq(will_work), taken.eq(will_take)]
        with m.If(taken):
            m.d.sync += first.eq(0)
        with m.If(start):
            m.d.sync += first.eq(walk.new & held)
            with m.If(walk.new):
                m.d.sync += [half.eq(~half), held.eq(1)]
        walking = Cat(will_start, start, will_take, taken, offsets.busy, loads, about_to_offer, offered).any()
        return start, group, group_offsets, walking

    def _load(self, m, offsets, ends):
        """Load a group when there is none or the present one ``ends``.

        Returns the group, whether there is one in the next cycle, its offsets a cycle later, and whether one is loaded.
        """
        m.submodules.following = following = RegisterSlice(offsets.o.payload.shape())
        wiring.connect(m, offsets.o, following.i)
        given = following.o.payload
        flags = [name for name in given.shape().members if name != "offset"]
        group = Signal(data.StructLayout({name: given.shape().members[name] for name in flags}), reset_less=True)
        group_valid, will_have = Signal(name="group_valid"), Signal(name="will_have")
        m.d.comb += [
            following.o.ready.eq(~group_valid | ends),
            will_have.eq(Mux(following.o.ready, following.o.valid, group_valid)),
        ]
        m.d.sync += group_valid.eq(will_have)
        with m.If(following.o.ready):
            m.d.sync += [group[name].eq(given[name]) for name in flags]
        # Offsets of all lanes wait for a register. ``following``, which gives a group every two cycles, has them still.
        group_offsets = Signal.like(given.offset, reset_less=True)
        loads = following.o.valid & following.o.ready
        with m.If(delayed(m, loads, 1)):
            m.d.sync += group_offsets.eq(given.offset)
        return group, will_have, group_offsets, loads

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

    def _prepare(self, m, offsets, start, prepared):
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
        with m.If(start):
            m.d.sync += prepared.eq(0)
        return offering & ~offered, takes

    def _fetch(self, m, queue, position, outer, offsets):
        """Lead addresses through the scratchpad, and put zeros and ones into their lanes.

        ``offsets`` come a cycle after ``position`` and ``outer``. Nothing waits, as ``queue`` has room for all vectors.
        Returns whether a vector is under way.
        """
        config = self.config
        bank_bits = (config.banks - 1).bit_length()
        stages = [position]
        for stage in range(self.latency):
            stages.append(Signal.like(position, name=f"stage{stage}"))
            m.d.sync += stages[-1].eq(stages[-2])
        before, last, vector = *stages[-2:], queue.payload
        s1_outer = delayed(m, outer, 1, reset=False)
        for lane in range(config.vector_lanes):
            address = Signal(outer.shape(), name=f"address{lane}", reset_less=True)
            m.d.sync += address.eq(s1_outer + offsets[lane])
            m.d.comb += self.pad.addr[lane].eq(Cat(address[bank_bits:], stages[2].half))
            if lane == 0:
                m.d.comb += self.pad.rot.eq(address[:bank_bits])
            there = lane < before.lanes
            one = delayed(m, there & before.ones, 1, reset=False)
            m.d.comb += [
                self.pad.zeros[lane].eq(~there | before.ones), vector.data[lane].eq(self.pad.data[lane] | one),
            ]  # fmt: skip
        m.d.comb += [
            self.pad.en.eq(1), queue.begins.eq(position.valid), queue.valid.eq(last.valid),
            vector.lanes.eq(last.lanes), vector.end_pass.eq(last.end_pass), vector.end_sweep.eq(last.end_sweep),
            vector.end_walk.eq(last.end_walk),
        ]  # fmt: skip
        m.d.sync += self.free.eq(stages[-2].valid & stages[-2].free)
        return Cat(stage.valid for stage in stages).any()
