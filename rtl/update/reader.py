"""Update reader: turns arrays in DRAM into groups of weights with their gradients and moments."""

from amaranth import Array, Assert, Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ...spec.config import Config
from ..dma.bursts import Bursts
from ..lib.block_queue import BlockQueue
from ..lib.delay import delayed, registered
from ..lib.gearbox import Unpack
from ..lib.interfaces import ReadClient
from ..lib.register_slice import RegisterSlice
from ..lib.skid import Skid
from .arrays import MOMENT_BYTES, SLOTS, GroupLayout, array_bytes
from .chunks import Chunks, beats_less_one, chunk_segment, chunk_weights, operands_less_one

__all__ = ["UpdateReader"]


class UpdateReader(wiring.Component):
    """Reads ``count`` elements of each array, chunk by chunk.

    It reads at most ``SLOTS`` chunks ahead, so beats can always be taken. A chunk's payloads of ``d`` must all have
    been taken when the chunk's last group is.

    Members
    -------
    start : In(1)
        begin
    count, addr : In
        number of elements, and address of each array (g, hi, lo, v; multiples of the beat)
    read : Out(ReadClient(config))
        way to memory
    o : Out(stream.Signature(GroupLayout(config)))
        the groups
    fault : Out(1)
        a beat of the cycle before had a fault
    without_g, without_v : In(1)
        g isn't read; v isn't read, and undefined; these and the rest only where gradients are predicted
    with_d : In(1)
        there is a fifth array, of operands; not ``without_v``
    wide : In(1)
        it is of second moments
    d : Out(stream.Signature(max(8 * MOMENT_BYTES, errors)))
        payloads of the fifth array: a group of operands, or one second moment
    """

    def __init__(self, config: Config):
        self._config = config
        self._bytes = array_bytes(config)
        predicted = {}
        if config.predicts:
            self._bytes["d"] = MOMENT_BYTES
            errors = 8 * config.operand_bytes * config.update_lanes
            predicted = {
                "without_g": In(1), "without_v": In(1), "with_d": In(1), "wide": In(1),
                "d": Out(stream.Signature(max(8 * MOMENT_BYTES, errors))),
            }  # fmt: skip
        super().__init__({
            "start": In(1), "count": In(32), "addr": In(data.ArrayLayout(32, len(self._bytes))),
            "read": Out(ReadClient(config)), "o": Out(stream.Signature(GroupLayout(config))), "fault": Out(1),
            **predicted,
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        given, freed = Signal(), Signal()  # a group, a chunk: after the skid, as for the fifth array
        self._request(m, freed)
        beats = self._route(m)
        m.submodules.emitted = emitted = self._chunks(m)
        m.submodules.skid = skid = Skid(self.o.payload.shape())
        connect(m, skid.o, flipped(self.o))
        payload = skid.i.p
        lanes = self._config.update_lanes
        left = Signal.like(emitted.size)  # weights left in the chunk
        begun = Signal()  # ``left`` is valid
        taken = skid.i.valid & skid.i.ready
        m.d.comb += [
            payload.mask.eq(Cat(left > lane for lane in range(lanes))),
            payload.last.eq(left <= lanes),
            payload.final.eq(payload.last & emitted.last),
            emitted.step.eq(taken & payload.last),
            given.eq(self.o.valid & self.o.ready),
            freed.eq(given & self.o.p.last),
        ]
        with m.If(~begun):
            m.d.sync += [left.eq(emitted.size), begun.eq(emitted.valid)]
        with m.Elif(taken):
            m.d.sync += [left.eq(left - lanes), begun.eq(~payload.last)]

        groups = self._groups(m, beats, taken & payload.final)
        m.d.comb += [
            *(payload[name].eq(groups.payload[name]) for name in groups.payload.shape().members),
            skid.i.valid.eq(groups.valid & begun), groups.ready.eq(taken),
        ]  # fmt: skip
        if self._config.predicts:
            self._fifth(m, beats["d"], given & self.o.p.final)
        return m

    def _groups(self, m, beats, flush):
        """Join the groups of the four arrays. ``flush``, a cycle later, drops the rest of the last beats.

        No group is given meanwhile, and none of another command has come.
        """
        config = self._config
        layout = {name: GroupLayout(config)[name].shape for name in array_bytes(config)}
        groups = Skid(data.StructLayout(layout))
        flush = delayed(m, flush, 1)
        m.submodules.groups = ResetInserter(flush)(groups)
        valid = []
        for name, size in array_bytes(config).items():
            unpack = Unpack(config.port_width, 8 * size * config.update_lanes)
            self._unpacked(m, name, beats[name], unpack, flush)
            valid.append(unpack.o.valid)
            m.d.comb += [
                groups.i.p[name].eq(unpack.o.payload), unpack.o.ready.eq(groups.i.valid & groups.i.ready),
            ]  # fmt: skip
        if config.predicts:
            valid[0] |= self.without_g
            valid[-1] |= self.without_v
        m.d.comb += groups.i.valid.eq(Cat(valid).all())
        return groups.o

    def _fifth(self, m, fifo, flush):
        """Give the fifth array's payloads."""
        config = self._config
        errors = 8 * config.operand_bytes * config.update_lanes
        unpack = Unpack(config.port_width, errors, 8 * MOMENT_BYTES)
        flush = delayed(m, flush, 1)
        skid = Skid(unpack.o.payload.shape())
        m.submodules.groups_d = ResetInserter(flush)(skid)
        self._unpacked(m, "d", fifo, unpack, flush)
        connect(m, unpack.o, skid.i)
        connect(m, skid.o, flipped(self.d))
        m.d.comb += unpack.choose.eq(self.wide)

    def _unpacked(self, m, name, fifo, unpack, flush):
        """Connect ``unpack`` to the FIFO's beats; ``flush`` drops the rest of a beat.

        The FIFO drops each beat in the cycle after it has been taken: one every two cycles, which is enough where a
        beat has two groups or more.
        """
        m.submodules[f"unpack_{name}"] = unpack
        with m.If(flush):
            m.d.sync += Assert(~(unpack.i.valid & unpack.i.ready), "a beat comes as others are dropped")
        gone, beat = Signal(name=f"gone_{name}"), unpack.i
        m.d.sync += gone.eq(beat.valid & beat.ready)
        m.d.comb += [
            beat.valid.eq(fifo.r_rdy & ~gone), beat.payload.eq(fifo.r_data), fifo.r_en.eq(gone), unpack.flush.eq(flush),
        ]  # fmt: skip

    def _sized(self, name, of_size):
        """``of_size`` for the array's element size in bytes."""
        if name == "d":
            return Mux(self.wide, of_size(MOMENT_BYTES), of_size(self._config.operand_bytes))
        return of_size(self._bytes[name])

    def _last(self, array):
        """1 if this is a chunk's last array."""
        return array == (Mux(self.with_d, 4, Mux(self.without_v, 2, 3)) if self._config.predicts else 3)

    def _after(self, array):
        """The array after this one, in its chunk or the next."""
        return Mux(self._last(array), self.without_g, array + 1) if self._config.predicts else array + 1

    def _chunks(self, m):
        chunks = Chunks(self._config)
        m.d.comb += [chunks.load.eq(self.start), chunks.count.eq(self.count)]
        return chunks

    def _request(self, m, freed):
        """Ask for the arrays' shares of each chunk in turn, while there is room for the chunk."""
        config = self._config
        m.submodules.requested = chunks = self._chunks(m)
        m.submodules.bursts = bursts = Bursts(config, chunk_segment(config))
        m.submodules.segment = ahead = RegisterSlice(bursts.i.payload.shape())
        connect(m, ahead.o, bursts.i)
        slots = Signal(range(SLOTS + 1), init=SLOTS)
        m.d.sync += slots.eq(slots - chunks.step + freed)

        array = Signal(range(len(self._bytes)))
        addr = Signal.like(self.addr, reset_less=True)
        segment, step, following = ahead.i.p, Signal(32), Signal(32)
        m.d.comb += [ahead.i.valid.eq(chunks.valid & (slots != 0)), following.eq(segment.place.dram + step)]
        with m.If(self.start):
            m.d.sync += addr.eq(self.addr)
        with m.Switch(array):
            for k, name in enumerate(self._bytes):
                with m.Case(k):
                    m.d.comb += [
                        segment.place.dram.eq(addr[k]),
                        segment.last.eq(self._sized(name, lambda size: operands_less_one(config, chunks.end, size))),
                        step.eq(self._sized(name, lambda size: chunk_weights(config) * size)),
                    ]
                    with m.If(ahead.i.valid & ahead.i.ready):
                        m.d.sync += [addr[k].eq(following), array.eq(self._after(array))]
                        m.d.comb += chunks.step.eq(self._last(k))
        self._begin(m, array)
        m.d.comb += [
            self.read.request.valid.eq(bursts.o.valid),
            self.read.request.p.addr.eq(bursts.o.p.addr),
            self.read.request.p.length.eq(bursts.o.p.length),
            bursts.o.ready.eq(self.read.request.ready),
        ]

    def _route(self, m):
        """Lead beats, which come in the order of the requests, to a FIFO for each array. Returns the FIFOs."""
        config = self._config
        m.submodules.received = chunks = self._chunks(m)
        sizes = self._bytes
        array = Signal(range(len(sizes)))
        m.d.comb += self.read.beats.ready.eq(1)
        valid, beat = delayed(m, self.read.beats.valid, 1), Signal.like(self.read.beats.payload)
        registered(m, beat, self.read.beats.payload)  # the port is far away
        m.d.comb += self.fault.eq(valid & beat.fault)
        fifos = {}
        for k, (name, size) in enumerate(sizes.items()):
            depth = SLOTS * size * chunk_weights(config) // config.beat_bytes
            m.submodules[f"beats_{name}"] = fifo = BlockQueue(config.port_width, depth)
            fifos[name] = fifo
            m.d.comb += [fifo.w_data.eq(beat.data), fifo.w_en.eq(valid & (array == k))]

        def less_one(end):
            return [self._sized(name, lambda size: beats_less_one(config, end, size)) for name in sizes]

        # Number of the next beat in its array. A beat must be known as the last when it comes. An array's first beat
        # is the last if it is the only one, possibly in a command's last chunk; for others the beat before tells.
        number = Signal(range(1, max(sizes.values()) * chunk_weights(config) // config.beat_bytes + 1), init=1)
        first = Signal(init=1)
        final = Signal()
        single = delayed(m, Cat(beats == 0 for beats in less_one(chunks.rest_end)), 1)
        last = Mux(first, chunks.last & single.bit_select(array, 1), final)
        with m.If(valid):
            m.d.sync += [number.eq(number + 1), first.eq(0), final.eq(number == Array(less_one(chunks.end))[array])]
            with m.If(last):
                m.d.sync += [number.eq(1), first.eq(1), array.eq(self._after(array))]
                m.d.comb += chunks.step.eq(self._last(array))
        self._begin(m, array)
        return fifos

    def _begin(self, m, array):
        """Go to a command's first array."""
        if self._config.predicts:
            with m.If(self.start):
                m.d.sync += array.eq(self.without_g)
