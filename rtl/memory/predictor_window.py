"""The predictor memory's two sides: block RAM for bursts in its window, the memory port for others."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...spec.config import Config
from ..lib.skid import Skid
from .axi import OUTSTANDING, AxiRead, AxiWrite
from .banked_memory import BankedMemory

__all__ = ["PAGE", "PredictorWindow", "passing_ports"]

_IDS = 4
PAGE = 4096
"""Bytes of a page, which no burst leaves."""


class _Sides(wiring.Component):
    """Keeps the order of each id: a burst waits while bursts of its id at the other side are unanswered.

    Members
    -------
    id, inside : In
        a burst's id, and its side: the window or the port
    go : Out(1)
        this burst may go to its side; stays high until it does
    take : In(1)
        it goes; at most OUTSTANDING bursts may be unanswered
    end, end_id : In
        the last answer to a burst of ``end_id``
    """

    def __init__(self):
        super().__init__({
            "id": In(range(_IDS)), "inside": In(1), "go": Out(1), "take": In(1),
            "end": In(1), "end_id": In(range(_IDS)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        fits = []
        for number in range(_IDS):
            count = Signal(range(OUTSTANDING + 1), name=f"count{number}")
            none, side = Signal(init=1, name=f"none{number}"), Signal(name=f"side{number}")
            take, end = self.take & (self.id == number), self.end & (self.end_id == number)
            m.d.sync += count.eq(count + take - end)
            with m.If(take):
                m.d.sync += side.eq(self.inside)
            with m.If(take != end):
                m.d.sync += none.eq(end & (count == 1))
            fits.append(none | (side == self.inside))
        m.d.comb += self.go.eq(Cat(fits).bit_select(self.id, 1))
        return m


class _Words(wiring.Component):
    """Addresses of the words of bursts.

    Members
    -------
    start : In(width)
        first word of the burst
    step, last : In(1)
        go on to the next word in the page; it was the burst's last
    word : Out(width)
        the present word
    """

    def __init__(self, config: Config, width: int):
        self._config = config
        super().__init__({"start": In(width), "step": In(1), "last": In(1), "word": Out(width)})

    def elaborate(self, platform):
        m = Module()
        in_page = exact_log2(PAGE // self._config.beat_bytes)
        within, following = Signal(), Signal(in_page)
        m.d.comb += self.word.eq(Cat(Mux(within, following, self.start[:in_page]), self.start[in_page:]))
        with m.If(self.step):
            m.d.sync += [within.eq(~self.last), following.eq(self.word[:in_page] + 1)]
        return m


def passing_ports(config: Config) -> dict:
    """Members of a signature: the memory port on both sides of the block, and the counts."""
    return {
        "i_read": In(AxiRead(config)), "o_read": Out(AxiRead(config)),
        "i_write": In(AxiWrite(config)), "o_write": Out(AxiWrite(config)),
        "read_beats": Out(1), "write_bytes": Out(range(config.beat_bytes + 1)),
        "moved": Out(range(2 * config.beat_bytes + 1)),
    }  # fmt: skip


class PredictorWindow(wiring.Component):
    """Serves bursts in the window from block RAM; passes others from ``i`` to ``o``.

    Answers to bursts of one id keep their order. Beats of both sides may interleave, but the port's don't interrupt a
    burst of the window.

    Parameters
    ----------
    config : Config
        ``predictor_bytes`` is the size of the window

    Members
    -------
    i_read, i_write : In(AxiRead(config)), In(AxiWrite(config))
        the arbiters' side: bursts stay in a page, and at most OUTSTANDING are under way in a direction
    read_inside, write_inside : In(1)
        the address offered is in the window
    o_read, o_write : Out(AxiRead(config)), Out(AxiWrite(config))
        the memory port's side
    read_beats : Out(1)
        a beat moves from the port in this cycle
    write_bytes : Out(range(beat_bytes + 1))
        bytes written to the port by the beat that moved in the cycle before
    moved : Out(range(2 * beat_bytes + 1))
        bytes that the cycle before read from the window and wrote to it

    Timing
    ------
    Reads of the port pass without a register. A write's address is passed on a cycle after it is offered, one every two
    cycles; its beats begin a cycle later than without this block, if none are under way. Beats from the window begin at
    least 4 cycles after their address, one per cycle. A read whose address comes after a write's answer sees the write;
    one under way together with a write of the same bytes gives undefined values.
    """

    def __init__(self, config: Config):
        self._config = config
        self._depth = config.predictor_bytes // config.beat_bytes
        super().__init__({"read_inside": In(1), "write_inside": In(1), **passing_ports(config)})

    def elaborate(self, platform):
        m = Module()
        # What a read gives while the same word is written needn't be defined.
        m.submodules.memory = memory = BankedMemory(self._config.port_width, self._depth)
        taken = Signal()  # a beat of the window
        self._read(m, memory, self.read_inside, taken)
        self._write(m, memory, self.write_inside)
        was_read, was_written, n_bytes = Signal(), Signal(), Signal.like(self.write_bytes)
        port, strobes = self.o_write, self.i_write.wstrb
        m.d.sync += [
            was_read.eq(taken),
            was_written.eq(port.wvalid & port.wready),
            n_bytes.eq(Mux(self.i_write.wvalid & self.i_write.wready, sum(strobes[i] for i in range(len(strobes))), 0)),
        ]
        m.d.comb += [
            self.read_beats.eq(self.o_read.rvalid & self.o_read.rready),
            self.write_bytes.eq(Mux(was_written, n_bytes, 0)),
            self.moved.eq(Mux(was_written, 0, n_bytes) + Mux(was_read, self._config.beat_bytes, 0)),
        ]
        return m

    def _word(self, address):
        """Word of the window at an address."""
        return address[exact_log2(self._config.beat_bytes) :][: (self._depth - 1).bit_length()]

    def _address(self, m, prefix, axi, port, inside):
        """Pass the payload of an address channel on; the component that keeps its order."""
        sides = _Sides()
        m.submodules[f"{prefix}_sides"] = sides
        for name in ("id", "addr", "len", "size", "burst", "cache", "prot"):
            m.d.comb += getattr(port, prefix + name).eq(getattr(axi, prefix + name))
        valid, ready = getattr(axi, prefix + "valid"), getattr(axi, prefix + "ready")
        m.d.comb += [
            sides.id.eq(getattr(axi, prefix + "id")), sides.inside.eq(inside), sides.take.eq(valid & ready),
        ]  # fmt: skip
        return sides

    def _read(self, m, memory, inside, taken):
        """Read side: a queue of bursts, a memory of two stages, a skid for its words, the choice of a side."""
        axi, port = self.i_read, self.o_read
        sides = self._address(m, "ar", axi, port, inside)
        bursts = data.StructLayout({"word": len(memory.r_addr), "length": len(axi.arlen), "id": len(axi.arid)})
        m.submodules.bursts = queue = SyncFIFO(width=bursts.size, depth=OUTSTANDING)
        m.submodules.read_words = words = _Words(self._config, len(memory.r_addr))
        burst, count = bursts(queue.r_data), Signal.like(axi.arlen)
        beat = data.StructLayout({"id": len(axi.rid), "last": 1})
        m.submodules.beats = beats = Skid(data.StructLayout({"beat": beat, "data": len(axi.rdata)}))
        s1_valid, s2_valid, s1, s2 = Signal(), Signal(), Signal(beat), Signal(beat)
        move1, move2, step, shown, coming = Signal(), Signal(), Signal(), Signal(), Signal()
        out = beats.o.p

        m.d.comb += [
            port.arvalid.eq(axi.arvalid & sides.go & ~inside),
            axi.arready.eq(sides.go & Mux(inside, queue.w_rdy, port.arready)),
            queue.w_en.eq(axi.arvalid & sides.go & inside),
            queue.w_data.eq(Cat(self._word(axi.araddr), axi.arlen, axi.arid)),
            sides.end.eq(axi.rvalid & axi.rready & axi.rlast), sides.end_id.eq(axi.rid),
            beats.i.valid.eq(s2_valid), beats.i.p.beat.eq(s2), beats.i.p.data.eq(memory.r_data),
            beats.o.ready.eq(taken), move2.eq(~s2_valid | beats.i.ready), move1.eq(~s1_valid | move2),
            step.eq(queue.r_rdy & move1),
            words.start.eq(burst.word), words.step.eq(step), words.last.eq(count == burst.length),
            memory.r_en.eq(step), memory.r_addr.eq(words.word), memory.move.eq(move2),
            queue.r_en.eq(step & words.last),
        ]  # fmt: skip
        with m.If(step):
            m.d.sync += [count.eq(Mux(words.last, 0, count + 1)), s1.id.eq(burst.id), s1.last.eq(words.last)]
        with m.If(move1):
            m.d.sync += s1_valid.eq(queue.r_rdy)
        with m.If(move2):
            m.d.sync += [s2_valid.eq(s1_valid), s2.eq(s1)]

        # Which side is shown is a register, so that no path leads from the port to the window's pipeline and back.
        m.d.comb += coming.eq((beats.o.valid & ~taken) | s2_valid | ~beats.i.ready)
        with m.If(Mux(shown, taken & out.beat.last, ~port.rvalid | (axi.rready & port.rlast))):
            m.d.sync += shown.eq(coming & ~(shown & port.rvalid))
        m.d.comb += [
            taken.eq(shown & axi.rready),
            axi.rvalid.eq(shown | port.rvalid),
            port.rready.eq(axi.rready & ~shown),
            axi.rdata.eq(Mux(shown, out.data, port.rdata)),
            axi.rid.eq(Mux(shown, out.beat.id, port.rid)),
            axi.rlast.eq(Mux(shown, out.beat.last, port.rlast)),
            axi.rresp.eq(Mux(shown, 0, port.rresp)),
        ]

    def _write(self, m, memory, inside):
        """Write side: beats follow the order of their addresses; the window answers while the port does not."""
        axi, port = self.i_write, self.o_write
        sides = self._address(m, "aw", axi, port, inside)
        bursts = data.StructLayout({"word": len(memory.w_addr), "inside": 1, "id": len(axi.awid)})
        m.submodules.order = order = SyncFIFO(width=bursts.size, depth=OUTSTANDING)
        m.submodules.write_words = words = _Words(self._config, len(memory.w_addr))
        burst = bursts(order.r_data)
        announced, here, moved, answer_valid = Signal(), Signal(), Signal(), Signal()
        answer_id, held, answered, answers = Signal.like(axi.bid), Signal(), Signal(), Signal()

        # Beats may go before the port takes their address: it may wait for them.
        m.d.comb += [
            port.awvalid.eq(axi.awvalid & announced & ~inside),
            axi.awready.eq(announced & (inside | port.awready)),
            order.w_en.eq(axi.awvalid & sides.go & ~announced),
            order.w_data.eq(Cat(self._word(axi.awaddr), inside, axi.awid)),
        ]
        with m.If(axi.awvalid):
            m.d.sync += announced.eq(Mux(announced, ~axi.awready, sides.go & order.w_rdy))
        m.d.comb += [
            here.eq(order.r_rdy & burst.inside),
            port.wvalid.eq(axi.wvalid & order.r_rdy & ~burst.inside),
            *(getattr(port, name).eq(getattr(axi, name)) for name in ("wdata", "wstrb", "wlast")),
            axi.wready.eq(Mux(here, ~answer_valid | answered, order.r_rdy & port.wready)),
            moved.eq(axi.wvalid & axi.wready),
            order.r_en.eq(moved & axi.wlast),
            words.start.eq(burst.word), words.step.eq(moved), words.last.eq(axi.wlast),
            memory.w_addr.eq(words.word), memory.w_data.eq(axi.wdata), memory.w_en.eq(Mux(here & moved, axi.wstrb, 0)),
        ]  # fmt: skip
        with m.If(answered):
            m.d.sync += answer_valid.eq(0)
        with m.If(here & moved & axi.wlast):
            m.d.sync += [answer_valid.eq(1), answer_id.eq(burst.id)]
        m.d.sync += held.eq(answers & ~axi.bready)
        m.d.comb += [
            answers.eq(answer_valid & (held | ~port.bvalid)),
            answered.eq(answers & axi.bready),
            axi.bvalid.eq(answer_valid | port.bvalid),
            port.bready.eq(axi.bready & ~held),
            axi.bid.eq(Mux(answers, answer_id, port.bid)),
            axi.bresp.eq(Mux(answers, 0, port.bresp)),
            sides.end.eq(axi.bvalid & axi.bready), sides.end_id.eq(axi.bid),
        ]  # fmt: skip
