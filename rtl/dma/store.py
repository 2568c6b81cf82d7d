"""Store: the DMA engine that takes results from the C scratchpad to memory."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.errors import ErrorCode
from ...spec.microcode.descriptors import STORE
from ...spec.registers import N_REGIONS
from ..lib.delay import delayed
from ..lib.interfaces import (  # fmt: skip
    LostLayout,
    PadRead,
    RegionLayout,
    StopLayout,
    Token,
    WriteClient,
    descriptor_layout,
    descriptor_stream,
)
from ..lib.room_queue import RoomQueue
from ..memory.axi import BEGUN
from ..memory.scratchpad import PingPong
from .bursts import BeatLayout, Beats, Bursts, most_bits, pad_element_bits
from .region_gate import RegionGate
from .segments import SegmentLayout, Segments
from .write_stop import WriteStop

__all__ = ["Store"]

_LAYOUT = descriptor_layout(STORE)


class _Answers(wiring.Component):
    """Counts answers to bursts, to know when a command's writes are complete.

    Members
    -------
    begun : In(1)
        a burst begins
    answer : Out(answer stream)
        answers
    mark, marked_command : In
        all bursts of ``marked_command`` have begun; only while not ``busy``
    busy : Out(1)
        answers are missing to bursts begun before the mark
    complete, completed : Out
        pulses once they have come, with the marked command
    fault, command : Out
        a write was refused, of ``command``
    """

    def __init__(self, config: Config):
        command = _LAYOUT["command"].shape
        super().__init__({
            "begun": In(1), "answer": Out(WriteClient(config).members["answer"].signature),
            "mark": In(1), "marked_command": In(command), "busy": Out(1), "complete": Out(1),
            "completed": Out(command), "fault": Out(1), "command": Out(command),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        outstanding = Signal(range(BEGUN + 1))
        before = Signal.like(outstanding)  # bursts among them that began before the mark
        left = Signal.like(outstanding)
        m.d.comb += [
            left.eq(outstanding - self.answer.valid),
            self.complete.eq(self.busy & (before == 0)),
            self.fault.eq(self.answer.valid & self.answer.payload.fault),
            self.command.eq(Mux(before != 0, self.completed, self.marked_command)),
        ]
        m.d.sync += outstanding.eq(left + self.begun)
        with m.If(self.answer.valid & (before != 0)):
            m.d.sync += before.eq(before - 1)
        with m.If(self.complete):
            m.d.sync += self.busy.eq(0)
        with m.If(self.mark):
            m.d.sync += [self.busy.eq(1), before.eq(left), self.completed.eq(self.marked_command)]
        return m


class _Reader(wiring.Component):
    """Reads beats from the C scratchpad, each lane from where the beat wants it, so that nothing is shifted afterwards.

    The scratchpad's pipeline never waits: at most ``ROOM`` beats are in it or wait for ``beats``.

    Members
    -------
    i : In(stream of BeatLayout(config))
        beats
    half : In(1)
        half of the scratchpad
    c : Out(PadRead)
        the scratchpad
    beats : Out(beat stream)
        data and strobes
    idle : Out(1)
        no beat is offered, and none is in the scratchpad's pipeline; a cycle later ``beats.valid`` tells if one waits
    """

    ROOM = 8

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "i": In(stream.Signature(BeatLayout(config))),
            "half": In(1),
            "c": Out(PadRead(config, 2 * config.c_depth)),
            "beats": Out(WriteClient(config).members["beats"].signature),
            "idle": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self._config
        bank_bits = (config.banks - 1).bit_length()
        word_bits = len(self.c.addr[0]) - 1
        m.submodules.queue = queue = RoomQueue(self.beats.payload.shape(), self.ROOM)
        wiring.connect(m, queue.o, wiring.flipped(self.beats))
        stages = [self.i.payload.mask & queue.begins.replicate(config.beat_elements)]
        for _ in range(PingPong.READ_LATENCY):
            stages.append(delayed(m, stages[-1], 1))
        m.d.comb += [
            self.i.ready.eq(queue.may),
            queue.begins.eq(self.i.valid & queue.may),
            self.c.en.eq(1),
            self.c.valid.eq(queue.begins),
            self.c.rot.eq(self.i.payload.addr[0]),
            queue.valid.eq(delayed(m, stages[-2].any(), 1)),
            self.idle.eq(~sum((stage.any() for stage in stages[1:]), start=self.i.valid).any()),
        ]
        for j in range(config.banks):
            m.d.comb += self.c.addr[j][-1].eq(self.half)
        for j in range(config.beat_elements):
            m.d.comb += [
                self.c.addr[j][:word_bits].eq(self.i.payload.addr[j] >> bank_bits),
                queue.payload.data.word_select(j, config.operand_width).eq(self.c.data[j]),
                queue.payload.strobe.word_select(j, config.operand_bytes).eq(
                    stages[-1][j].replicate(config.operand_bytes)
                ),
            ]
        return m


class Store(wiring.Component):
    """DMA write engine: carries out :data:`adagp.spec.microcode.descriptors.STORE` descriptors.

    Parameters
    ----------
    config : Config
        decides widths and depths

    Members
    -------
    i : In(descriptor_stream(STORE))
        descriptors
    c : Out(PadRead(config, 2 * config.c_depth))
        reads the C scratchpad
    client : Out(WriteClient(config))
        writes memory
    drained : Out(Token())
        results in the scratchpad; taken by descriptors with ``begin``
    stop, lost, hold, writing
        orderly stop; see :class:`.write_stop.WriteStop`
    c_free : Out(1)
        pulses when the data of a descriptor with ``close`` has left the scratchpad
    main_done : Out(1)
        pulses when the writes of a descriptor with ``done``, and all before, are answered
    regions : In(array of RegionLayout)
        write regions
    fault, fault_code, fault_command : Out
        high from a burst outside ``regions`` on, which stops the engine, and for a cycle at a refused write; the
        :class:`ErrorCode` and the command
    busy : Out(1)
        a descriptor is being carried out, could begin, or isn't answered

    Timing
    ------
    One beat per cycle while the client accepts them, however short the segments; bursts as fast as
    :class:`.region_gate.RegionGate` lets them pass.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "i": In(descriptor_stream(STORE)),
            "c": Out(PadRead(config, 2 * config.c_depth)),
            "client": Out(WriteClient(config)),
            "drained": Out(Token()),
            "stop": In(StopLayout), "lost": In(LostLayout), "hold": Out(1), "writing": Out(1),
            "c_free": Out(1), "main_done": Out(1),
            "regions": In(data.ArrayLayout(RegionLayout, N_REGIONS)),
            "fault": Out(1), "fault_code": Out(8), "fault_command": Out(_LAYOUT["command"].width), "busy": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self._config
        most = most_bits(config)
        m.submodules.segments = segments = Segments(STORE, 32, pad_element_bits(config), most)
        m.submodules.bursts = bursts = Bursts(config, SegmentLayout(32, 0, most))
        m.submodules.gate = gate = RegionGate(config)
        m.submodules.walk = walk = Beats(config, most)
        m.submodules.reader = reader = _Reader(config)
        m.submodules.answers = answers = _Answers(config)
        m.submodules.write_stop = write_stop = WriteStop()
        wiring.connect(m, bursts.o, gate.i)
        wiring.connect(m, gate.request, wiring.flipped(self.client.request))
        wiring.connect(m, walk.o, reader.i)
        wiring.connect(m, reader.c, wiring.flipped(self.c))
        wiring.connect(m, reader.beats, wiring.flipped(self.client.beats))
        wiring.connect(m, wiring.flipped(self.client.answer), answers.answer)

        d = Signal(_LAYOUT)  # the descriptor being worked on
        m.d.comb += [
            segments.i.payload.eq(d),
            *(walk.offsets[j].eq(j) for j in range(config.beat_elements + 1)),
            reader.half.eq(d.half),
            gate.regions.eq(self.regions),
            answers.begun.eq(self.client.request.valid & self.client.request.ready),
            write_stop.stop.eq(self.stop),
            write_stop.command.eq(d.command),
            write_stop.begun.eq(answers.begun),
            write_stop.complete.eq(answers.complete),
            write_stop.completed.eq(answers.completed),
            write_stop.lost.eq(self.lost),
            self.hold.eq(write_stop.hold),
            self.writing.eq(write_stop.writing),
            answers.marked_command.eq(d.command),
            self.main_done.eq(answers.complete),
            self.fault.eq(gate.fault | answers.fault),
            # A refused burst began before the one that is stopped at the gate.
            self.fault_code.eq(Mux(answers.fault, ErrorCode.WRITE_FAULT, ErrorCode.WRITE_REGION)),
            self.fault_command.eq(Mux(answers.fault, answers.command, d.command)),
        ]
        # The reader's idle of the cycle before covers the beat that the walk offered it then.
        empty = bursts.idle & gate.idle & walk.idle & delayed(m, reader.idle, 1) & ~reader.beats.valid
        self._share(m, segments.o, (bursts.i, walk.i))
        self._control(m, d, segments, answers, empty & ~segments.o.valid)
        return m

    def _share(self, m, segments, takers):
        """Give each segment to both takers in the same cycle."""
        m.d.comb += segments.ready.eq(Cat(taker.ready for taker in takers).all())
        for taker in takers:
            place = taker.payload.place
            m.d.comb += [
                taker.valid.eq(segments.valid & segments.ready), taker.payload.last.eq(segments.payload.last),
                *(place[name].eq(segments.payload.place[name]) for name in ("dram", "sp")),
            ]  # fmt: skip

    def _control(self, m, d, segments, answers, empty):
        """Carry out one descriptor after the other."""
        ended = Signal()  # in the cycle before, nothing of the descriptor was left
        begin, begins = self.i.payload.begin, Signal()
        m.d.comb += [
            begins.eq(self.i.valid & (self.drained.avail | ~begin)), self.drained.take.eq(self.i.ready & begin),
        ]  # fmt: skip
        with m.FSM() as fsm:
            with m.State("IDLE"):
                with m.If(self.i.valid):
                    m.d.sync += d.eq(self.i.payload)
                with m.If(begins):
                    m.d.sync += self.i.ready.eq(1)
                    m.next = "START"
            with m.State("START"):
                m.d.sync += self.i.ready.eq(0)
                m.d.comb += segments.i.valid.eq(~d.dry)
                m.next = "MOVE"
            with m.State("MOVE"):
                m.d.sync += ended.eq(empty)
                with m.If(ended & ~(d.done & answers.busy)):
                    m.d.comb += [self.c_free.eq(d.close), answers.mark.eq(d.done)]
                    m.d.sync += ended.eq(0)
                    m.next = "IDLE"
        m.d.comb += self.busy.eq(begins | ~fsm.ongoing("IDLE") | answers.busy)
