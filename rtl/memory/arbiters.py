"""Arbiters that share the AXI4 memory port between the blocks."""

from amaranth import Assert, Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.interfaces import ReadClient, WriteClient
from ..lib.skid import Skid
from .axi import BUFFERABLE_MODIFIABLE, ID_BITS, INCR, OUTSTANDING, AxiRead, AxiWrite

__all__ = ["ReadArbiter", "WriteArbiter"]


class _Grants(wiring.Component):
    """Grants clients' requests in turn, into one registered address channel, and counts bursts.

    Each request waits in a :class:`.skid.Skid` first.

    Parameters
    ----------
    config : Config
        decides the layout of a request
    client_signature
        ReadClient or WriteClient
    n_clients : int
        clients that share the channel

    Members
    -------
    requests : In(array of request streams)
        the clients'
    hold : In(n_clients)
        keep single clients' requests out of their skids
    halt : In(1)
        drop requests that wait or come; a reset of all clients must follow
    accept, client, length : Out(1), Out(range(n_clients)), Out(8)
        in this cycle ``client``'s request is taken, of ``length`` + 1 beats
    finish : In(1)
        a burst has ended
    idle : Out(1)
        no burst is under way
    o_valid, o_ready, o_id, o
        the address channel
    """

    def __init__(self, config: Config, client_signature, n_clients: int):
        request = client_signature(config).members["request"].signature
        self._request = request.members["payload"].shape
        super().__init__({
            "requests": In(request).array(n_clients),
            "hold": In(n_clients), "halt": In(1), "finish": In(1), "idle": Out(1),
            "accept": Out(1), "client": Out(range(max(2, n_clients))), "length": Out(8),
            "o_valid": Out(1), "o_ready": In(1), "o_id": Out(ID_BITS), "o": Out(self._request),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        n = len(self.requests)
        last = Signal.like(self.client)
        outstanding = Signal(range(OUTSTANDING + 1))
        free, full = Signal(), Signal()
        waiting = []
        for number, request in enumerate(self.requests):
            skid = Skid(self._request)
            m.submodules[f"client{number}"] = ResetInserter(self.halt)(skid)
            let = ~self.hold[number]
            m.d.comb += [
                skid.i.valid.eq(request.valid & let), skid.i.payload.eq(request.payload),
                request.ready.eq(skid.i.ready & let),
            ]  # fmt: skip
            waiting.append(skid.o)
        valids = [request.valid for request in waiting]

        with m.Switch(last):
            for before in range(n):
                with m.Case(before):
                    m.d.comb += self.client.eq(before)
                    for client in (*range(before, -1, -1), *range(n - 1, before, -1)):  # the last assignment wins
                        with m.If(valids[client]):
                            m.d.comb += self.client.eq(client)
        chosen = Signal(self._request)
        m.d.comb += [
            free.eq((~self.o_valid | self.o_ready) & ~self.halt & ~full),
            self.accept.eq(free & Cat(*valids).any()),
            self.length.eq(chosen.length),
            self.idle.eq(outstanding == 0),
        ]
        for client, request in enumerate(waiting):
            with m.If(self.client == client):
                m.d.comb += [chosen.eq(request.payload), request.ready.eq(free)]

        m.d.sync += [
            outstanding.eq(outstanding + self.accept - self.finish),
            full.eq(~self.finish & (full | (self.accept & (outstanding == OUTSTANDING - 1)))),
        ]
        with m.If(self.o_ready):
            m.d.sync += self.o_valid.eq(0)
        with m.If(self.accept):
            m.d.sync += [
                self.o_valid.eq(1),
                self.o_id.eq(self.client),
                self.o.eq(chosen),
                last.eq(self.client),
            ]
        return m

    def drive(self, m, config, axi, prefix):
        """Connect the address channel ``prefix`` (ar or aw) of ``axi``."""
        channel = {
            "id": self.o_id, "addr": self.o.addr, "len": self.o.length, "valid": self.o_valid,
            "size": (config.beat_bytes - 1).bit_length(), "burst": INCR, "cache": BUFFERABLE_MODIFIABLE, "prot": 0,
        }  # fmt: skip
        for name, value in channel.items():
            m.d.comb += getattr(axi, prefix + name).eq(value)
        m.d.comb += self.o_ready.eq(getattr(axi, prefix + "ready"))


class ReadArbiter(wiring.Component):
    """Shares the read channels between blocks, a burst at a time, in turn.

    Beats go to the client that their id names, so the memory may interleave the bursts of different clients.

    Parameters
    ----------
    config : Config
        decides the widths
    n_clients : int
        blocks, up to 4

    Members
    -------
    clients : In(array of ReadClient(config))
        the blocks
    axi : Out(AxiRead(config))
        read channels of the memory port
    halt : In(1)
        no new burst may begin, from the next cycle on
    idle : Out(1)
        no burst is under way, to the last beat's arrival at its client; a cycle late
    read_beats : Out(1)
        a beat moves to a client in this cycle

    Timing
    ------
    Beats reach their client a cycle after the port.
    """

    def __init__(self, config: Config, n_clients: int):
        self._config = config
        super().__init__({
            "clients": In(ReadClient(config)).array(n_clients),
            "axi": Out(AxiRead(config)),
            "halt": In(1), "idle": Out(1), "read_beats": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        axi = self.axi
        m.submodules.grants = grants = _Grants(self._config, ReadClient, len(self.clients))
        grants.drive(m, self._config, axi, "ar")
        n = len(self.clients)
        beat = data.StructLayout({"client": n, "data": self._config.port_width, "fault": 1, "last": 1})
        m.submodules.beats = beats = Skid(beat)
        m.d.comb += [
            beats.i.valid.eq(axi.rvalid),
            axi.rready.eq(beats.i.ready),
            beats.i.p.client.eq(Cat(axi.rid == number for number in range(n))),
            beats.i.p.data.eq(axi.rdata),
            beats.i.p.fault.eq(axi.rresp[1]),
            beats.i.p.last.eq(axi.rlast),
            self.idle.eq(grants.idle),
            self.read_beats.eq(beats.o.valid & beats.o.ready),
        ]
        for number, client in enumerate(self.clients):
            wiring.connect(m, wiring.flipped(client.request), grants.requests[number])
            m.d.comb += [
                client.beats.valid.eq(beats.o.valid & beats.o.p.client[number]),
                client.beats.payload.data.eq(beats.o.p.data),
                client.beats.payload.fault.eq(beats.o.p.fault),
            ]
        ready = Cat(client.beats.ready for client in self.clients)
        m.d.comb += beats.o.ready.eq((ready & beats.o.p.client).any())
        m.d.sync += [grants.halt.eq(self.halt), grants.finish.eq(self.read_beats & beats.o.p.last)]
        return m


class WriteArbiter(wiring.Component):
    """Shares the write channels between blocks, a burst at a time, in turn.

    Beats follow in the order of their bursts' addresses. Bursts that have begun are finished.

    Parameters
    ----------
    config : Config
        decides the widths
    n_clients : int
        blocks, up to 4

    Members
    -------
    clients : In(array of WriteClient(config))
        the blocks
    axi : Out(AxiWrite(config))
        write channels of the memory port
    hold : In(n_clients)
        keep single clients' new bursts back
    halt : In(1)
        no new burst may begin, from the next cycle on
    idle : Out(1)
        no burst is unanswered
    write_bytes : Out(range(beat_bytes + 1))
        bytes written by the beat that moved in the cycle before
    """

    def __init__(self, config: Config, n_clients: int):
        self._config = config
        super().__init__({
            "clients": In(WriteClient(config)).array(n_clients),
            "axi": Out(AxiWrite(config)),
            "hold": In(n_clients), "halt": In(1), "idle": Out(1), "write_bytes": Out(range(config.beat_bytes + 1)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        axi = self.axi
        m.submodules.grants = grants = _Grants(self._config, WriteClient, len(self.clients))
        grants.drive(m, self._config, axi, "aw")
        bursts = data.StructLayout({"client": grants.client.shape(), "length": 8})
        m.submodules.order = order = SyncFIFOBuffered(width=bursts.size, depth=OUTSTANDING + 1)
        m.submodules.present = present = Skid(bursts)
        wiring.connect(m, order.r_stream, present.i)
        burst = present.o.p
        count = Signal(8)
        moved = Signal()
        beat = data.StructLayout({"data": self._config.port_width, "strobe": self._config.beat_bytes, "last": 1})
        m.submodules.beats = beats = Skid(beat)
        m.d.comb += [
            axi.wvalid.eq(beats.o.valid),
            axi.wdata.eq(beats.o.p.data),
            axi.wstrb.eq(beats.o.p.strobe),
            axi.wlast.eq(beats.o.p.last),
            beats.o.ready.eq(axi.wready),
            grants.hold.eq(self.hold),
            grants.finish.eq(axi.bvalid),
            self.idle.eq(grants.idle),
            order.w_en.eq(grants.accept),
            bursts(order.w_data).client.eq(grants.client),
            bursts(order.w_data).length.eq(grants.length),
            beats.i.p.last.eq(count == burst.length),
            moved.eq(beats.i.valid & beats.i.ready),
            present.o.ready.eq(moved & beats.i.p.last),
            axi.bready.eq(1),
        ]
        for number, client in enumerate(self.clients):
            wiring.connect(m, wiring.flipped(client.request), grants.requests[number])
            m.d.comb += [
                client.answer.valid.eq(axi.bvalid & (axi.bid == number)),
                client.answer.payload.fault.eq(axi.bresp[1]),
            ]
            with m.If(burst.client == number):
                m.d.comb += [
                    beats.i.valid.eq(client.beats.valid & present.o.valid),
                    beats.i.p.data.eq(client.beats.payload.data),
                    beats.i.p.strobe.eq(client.beats.payload.strobe),
                    client.beats.ready.eq(beats.i.ready & present.o.valid),
                ]
        with m.If(moved):
            m.d.sync += count.eq(Mux(beats.i.p.last, 0, count + 1))
        with m.If(grants.accept):
            # The queue holds one burst more than may be under way: the one at its output.
            m.d.sync += Assert(order.w_rdy, "more bursts are begun than can be")
        strobe = axi.wstrb
        m.d.sync += grants.halt.eq(self.halt)
        m.d.sync += self.write_bytes.eq(Mux(axi.wvalid & axi.wready, sum(strobe[i] for i in range(len(strobe))), 0))
        return m
