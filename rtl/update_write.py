"""Update writer: new weights and momenta become beats and bursts."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out, connect, flipped

from ..spec.config import Config
from ..spec.descriptors import STORE
from .bursts import BurstWalk
from .chunks import Chunks, chunk_weights
from .delay import delayed, registered
from .gearbox import Pack
from .interfaces import WriteClient
from .skid import Skid
from .update_read import MOMENT_BYTES, SLOTS, GroupLayout, array_bytes

__all__ = ["UpdateWriter", "written_arrays"]


def written_arrays(config: Config) -> dict[str, int]:
    """Bytes per element of the arrays that an update writes; the second moments only if it is ADAM."""
    written = {name: size for name, size in array_bytes(config).items() if name != "g"}
    return {**written, "d": MOMENT_BYTES} if config.predicts else written


class UpdateWriter(wiring.Component):
    """Writes ``count`` elements each of the arrays at ``addr`` (hi, lo, v; multiples of the beat) after ``start``.

    ``i`` is taken whenever ``valid``; there is room for ``SLOTS`` chunks, given back by ``freed``. ``hold``: begin
    no other chunk's bursts. ``idle``: all is written and answered; ``fault``: an answer of this cycle was an error.

    Where gradients are predicted, a command ``with_d`` writes second moments too, one for each ``d_valid``; a chunk's
    last, with ``d_last``, comes with its last group or before.
    """

    def __init__(self, config: Config):
        self._config = config
        moments = {}
        if config.predicts:
            moments = {"with_d": In(1), "d_valid": In(1), "d": In(8 * MOMENT_BYTES), "d_last": In(1)}
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
        requested = self.write.request.valid & self.write.request.ready
        m.d.sync += [
            ready.eq(ready + (valid & group.last) - chunks.step),
            self.freed.eq(chunks.step),
            outstanding.eq(outstanding + requested - self.write.answer.valid),
        ]
        m.d.comb += [
            chunks.load.eq(self.start),
            chunks.count.eq(self.count),
            self.fault.eq(self.write.answer.valid & self.write.answer.p.fault),
            self.idle.eq(~chunks.valid & (outstanding == 0)),
        ]
        self._bursts(m, chunks, ready, self._beats(m, valid, group))
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
            m.submodules[f"pack_{name}"] = pack = Pack(config.port_width, width)
            m.submodules[f"beats_{name}"] = fifo = SyncFIFOBuffered(width=config.port_width, depth=depth)
            fifos.append(fifo)
            m.d.comb += [
                *(port.eq(value) for port, value in zip((pack.valid, pack.i, pack.last), source, strict=True)),
                fifo.w_en.eq(pack.o_valid), fifo.w_data.eq(pack.o),
            ]  # fmt: skip
        return fifos

    def _bursts(self, m, chunks, ready, fifos):
        """For each chunk that is complete, the bursts of array after array."""
        config = self._config
        sizes = list(written_arrays(config).values())
        m.submodules.walk = walk = BurstWalk(config, STORE)
        m.submodules.skid = skid = Skid(self.write.beats.payload.shape())  # memory blocks and the port are far apart
        connect(m, skid.o, flipped(self.write.beats))
        request, beats = self.write.request, skid.i
        array = Signal(range(len(sizes)))
        last = Mux(self.with_d, 3, 2) if config.predicts else 2
        addr = Signal.like(self.addr)
        left = Signal.like(request.p.length)
        full = Signal(config.beat_bytes)  # strobes of the burst's last beat
        end = walk.o.p.last[: (config.beat_bytes - 1).bit_length()]
        m.d.comb += [
            *(count.eq(1) for count in (walk.i.p.n0, walk.i.p.n1)),
            walk.i.p.dram.eq(Array(addr[k] for k in range(len(sizes)))[array]),
            walk.i.p.length.eq(Array(chunks.size * (size // config.operand_bytes) for size in sizes)[array]),
            request.p.addr.eq(walk.o.p.addr),
            request.p.length.eq(walk.o.p.length),
            beats.p.data.eq(Array(fifo.r_data for fifo in fifos)[array]),
            beats.p.strobe.eq((left != 0).replicate(config.beat_bytes) | full),
        ]
        chosen = Signal(len(sizes))  # whose beats are being given
        m.d.comb += [
            beats.valid.eq((chosen & Cat(fifo.r_rdy for fifo in fifos)).any()),
            *(fifo.r_en.eq(mine & beats.ready) for fifo, mine in zip(fifos, chosen, strict=True)),
        ]  # fmt: skip
        with m.If(self.start):
            m.d.sync += addr.eq(self.addr)
        with m.FSM():
            with m.State("CHUNK"):
                m.d.comb += walk.i.valid.eq((array != 0) | ((ready != 0) & ~self.hold))
                with m.If(walk.i.valid & walk.i.ready):
                    m.next = "REQUEST"
            with m.State("REQUEST"):
                m.d.comb += [request.valid.eq(walk.o.valid), walk.o.ready.eq(request.ready)]
                m.d.sync += [
                    left.eq(walk.o.p.length),
                    full.eq(Cat(1, *(byte <= end for byte in range(1, config.beat_bytes)))),
                ]
                with m.If(request.valid & request.ready):
                    m.d.sync += chosen.eq(1 << array)
                    m.next = "BEATS"
                with m.Elif(walk.idle):
                    m.next = "CHUNK"
                    m.d.sync += array.eq(array + 1)
                    for k, size in enumerate(sizes):
                        with m.If(array == k):
                            m.d.sync += addr[k].eq(addr[k] + chunk_weights(config) * size)
                    with m.If(array == last):
                        m.d.sync += array.eq(0)
                        m.d.comb += chunks.step.eq(1)
            with m.State("BEATS"), m.If(beats.valid & beats.ready):
                m.d.sync += left.eq(left - 1)
                with m.If(left == 0):
                    m.d.sync += chosen.eq(0)
                    m.next = "REQUEST"
