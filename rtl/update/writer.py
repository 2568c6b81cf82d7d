"""Update writer: turns new weights and moments into beats and bursts."""

from amaranth import Array, Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ...spec.config import Config
from ..dma.bursts import Bursts
from ..lib.block_queue import BlockQueue
from ..lib.delay import delayed, registered
from ..lib.gearbox import Pack
from ..lib.interfaces import WriteClient
from ..lib.register_slice import RegisterSlice
from ..lib.skid import Skid
from .arrays import MOMENT_BYTES, SLOTS, GroupLayout, array_bytes
from .chunks import Chunks, chunk_segment, chunk_weights, operands_less_one

__all__ = ["UpdateWriter", "written_arrays"]


def written_arrays(config: Config) -> dict[str, int]:
    """Bytes per element of the arrays that an update writes; only ADAM writes second moments."""
    written = {name: size for name, size in array_bytes(config).items() if name != "g"}
    return {**written, "d": MOMENT_BYTES} if config.predicts else written


class UpdateWriter(wiring.Component):
    """Writes ``count`` elements of each array, chunk by chunk; it has room for ``SLOTS`` chunks.

    Members
    -------
    start : In(1)
        begin
    count, addr : In
        number of elements, and address of each array (hi, lo, v; multiples of the beat)
    valid, i : In
        a group, taken at once
    freed : Out(1)
        a chunk's room is given back
    hold : In(1)
        begin no other chunk's bursts
    write : Out(WriteClient(config))
        way to memory
    idle : Out(1)
        all is written and answered; a cycle late
    fault : Out(1)
        an answer of this cycle was an error
    with_d, without_v : In(1)
        write second moments too; don't write v; these and the rest only where gradients are predicted
    d_valid, d, d_last : In
        a second moment; a chunk's last comes with the chunk's last group or before
    """

    def __init__(self, config: Config):
        self._config = config
        moments = {}
        if config.predicts:
            moments = dict.fromkeys(("with_d", "without_v", "d_valid", "d_last"), In(1))
            moments["d"] = In(8 * MOMENT_BYTES)
        super().__init__({
            "start": In(1), "count": In(32), "addr": In(data.ArrayLayout(32, len(written_arrays(config)))),
            "valid": In(1), "i": In(GroupLayout(config)), "freed": Out(1), "hold": In(1),
            "write": Out(WriteClient(config)), "idle": Out(1), "fault": Out(1),
            **moments,
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.chunks = chunks = Chunks(config)
        # Groups come from one end of the update unit, and go to memory blocks.
        valid, group = delayed(m, self.valid, 1), Signal(GroupLayout(config))
        registered(m, group, self.i)
        ready = Signal(range(SLOTS + 1))  # chunks waiting to be written
        outstanding = Signal(16)  # bursts waiting for their answer
        requested = Signal()  # a burst is on its way to the port
        m.d.sync += [
            ready.eq(ready + (valid & group.last) - chunks.step),
            self.freed.eq(chunks.step),
            outstanding.eq(outstanding + requested - self.write.answer.valid),
            self.idle.eq(~chunks.valid & (outstanding == 0)),
        ]
        m.d.comb += [
            chunks.load.eq(self.start),
            chunks.count.eq(self.count),
            self.fault.eq(self.write.answer.valid & self.write.answer.p.fault),
        ]
        m.d.comb += requested.eq(self._bursts(m, chunks, ready, self._beats(m, valid, group)))
        return m

    def _beats(self, m, valid, group):
        """A FIFO of beats for each array; returns them."""
        config = self._config
        fifos = []
        for name, size in written_arrays(config).items():
            depth = SLOTS * size * chunk_weights(config) // config.beat_bytes
            if name == "d":
                width, source = 8 * size, (self.d_valid, self.d, self.d_last)
            else:
                width, source = 8 * size * config.update_lanes, (valid, group[name], group.last)
                if name == "v" and config.predicts:
                    source = (valid & ~self.without_v, *source[1:])
            m.submodules[f"pack_{name}"] = pack = Pack(config.port_width, width)
            m.submodules[f"beats_{name}"] = fifo = BlockQueue(config.port_width, depth)
            fifos.append(fifo)
            m.d.comb += [
                *(port.eq(value) for port, value in zip((pack.valid, pack.i, pack.last), source, strict=True)),
                fifo.w_en.eq(pack.o_valid), fifo.w_data.eq(pack.o),
            ]  # fmt: skip
        return fifos

    def _bursts(self, m, chunks, ready, fifos):
        """Ask for the bursts of each complete chunk, array after array. Returns a bit: one is asked for."""
        config = self._config
        sizes = list(written_arrays(config).values())
        m.submodules.walk = walk = Bursts(config, chunk_segment(config))
        m.submodules.request = request = RegisterSlice(self.write.request.payload.shape())
        connect(m, request.o, flipped(self.write.request))
        array = Signal(range(len(sizes)))
        last = Mux(self.with_d, 3, Mux(self.without_v, 1, 2)) if config.predicts else 2
        addr = Signal.like(self.addr, reset_less=True)
        # The walk is idle whenever it is given a segment, which then has to be there for one cycle only.
        segment = Signal.like(walk.i.payload, reset_less=True)
        begins, following = Signal(), Signal(32)
        m.d.sync += [
            walk.i.valid.eq(begins),
            segment.place.dram.eq(Array(addr[k] for k in range(len(sizes)))[array]),
            segment.last.eq(Array(operands_less_one(config, chunks.end, size) for size in sizes)[array]),
        ]
        m.d.comb += [
            walk.i.payload.eq(segment),
            following.eq(segment.place.dram + Array(chunk_weights(config) * size for size in sizes)[array]),
            request.i.p.addr.eq(walk.o.p.addr),
            request.i.p.length.eq(walk.o.p.length),
        ]
        requested, given = Signal(), Signal()
        with m.If(self.start):
            m.d.sync += addr.eq(self.addr)
        with m.FSM():
            with m.State("CHUNK"):
                m.d.comb += begins.eq((array != 0) | ((ready != 0) & ~self.hold))
                with m.If(begins):
                    m.next = "REQUEST"
            with m.State("REQUEST"):
                m.d.comb += [request.i.valid.eq(walk.o.valid), walk.o.ready.eq(request.i.ready)]
                m.d.comb += requested.eq(walk.o.valid & request.i.ready)
                with m.If(requested):
                    m.next = "BEATS"
            with m.State("BEATS"), m.If(given):
                m.next = "REQUEST"
                with m.If(walk.idle):  # that was the array's last burst
                    m.next = "ARRAY"
            with m.State("ARRAY"):
                m.next = "CHUNK"
                m.d.sync += array.eq(array + 1)
                for k in range(len(sizes)):
                    with m.If(array == k):
                        m.d.sync += addr[k].eq(following)
                with m.If(array == last):
                    m.d.sync += array.eq(0)
                    m.d.comb += chunks.step.eq(1)
        m.d.comb += given.eq(self._give(m, requested, walk.o.p, array, fifos))
        return requested

    def _give(self, m, requested, burst, array, fifos):
        """Give the ``burst`` that is ``requested`` its beats, from the ``array``'s FIFO. Returns a bit: all are given.

        All beats of a requested burst are in the FIFO. Memory blocks take most of a cycle and are far from the port:
        each has a register after it, and the skid comes after the choice among these.
        """
        beat_bytes = self._config.beat_bytes
        m.submodules.skid = skid = Skid(self.write.beats.payload.shape())
        connect(m, skid.o, flipped(self.write.beats))
        left = Signal.like(burst.length)  # beats after the present one
        final = Signal()  # the present one is the last
        full = Signal(beat_bytes, reset_less=True)  # strobes of the burst's last beat
        end = burst.last[: (beat_bytes - 1).bit_length()]
        chosen = Signal(len(fifos))  # the FIFO whose beats are being given
        there, moves = Signal(), Signal()
        m.d.comb += [
            moves.eq(~skid.i.valid | skid.i.ready), there.eq(chosen.any()),
            *(fifo.r_en.eq(mine & moves) for fifo, mine in zip(fifos, chosen, strict=True)),
        ]  # fmt: skip
        words = Array(delayed(m, fifo.r_data, 1, moves, reset=False) for fifo in fifos)
        chooses = Signal.like(array)  # stands since before the burst
        m.d.sync += chooses.eq(array)
        m.d.comb += [
            skid.i.p.data.eq(words[delayed(m, chooses, 1, moves)]),
            skid.i.p.strobe.eq(delayed(m, (~final).replicate(beat_bytes) | full, 1, moves, reset=False)),
        ]
        with m.If(moves):
            m.d.sync += skid.i.valid.eq(there)
        with m.If(there & moves):
            given = (chosen & Cat(fifo.r_rdy for fifo in fifos)).any()
            m.d.sync += Assert(given, "a beat is given that isn't there")
        with m.If(requested):
            m.d.sync += [
                left.eq(burst.length), final.eq(burst.length == 0), chosen.eq(1 << array),
                full.eq(Cat(1, *(byte <= end for byte in range(1, beat_bytes)))),
            ]  # fmt: skip
        with m.Elif(there & moves):
            m.d.sync += [left.eq(left - 1), final.eq(left == 1)]
            with m.If(final):
                m.d.sync += chosen.eq(0)
        return there & moves & final
