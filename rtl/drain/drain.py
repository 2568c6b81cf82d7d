"""Drain engine: walks finished results through the epilogue into the C scratchpad."""

from types import SimpleNamespace

from amaranth import Module, Mux, ResetInserter, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.microcode.descriptors import DRAIN
from ..lib.clock_gate import clock_gate
from ..lib.delay import delayed
from ..lib.interfaces import (
    AccRead,
    DrainVector,
    PadRead,
    PadWrite,
    ResultLayout,
    Token,
    descriptor_layout,
    descriptor_stream,
)
from ..lib.maximum import Maximum
from ..lib.register_slice import RegisterSlice
from ..lib.skid import Skid
from ..memory.scratchpad import PingPong
from .activation import Bound
from .bias import BiasMemory, walk_biases
from .epilogue import Epilogue, result_latency, sum_width
from .folding import FoldedEpilogue, choose_sums, fold, of_banks
from .lanes import lane_addresses, lane_masks, lane_offsets, lane_shifts, result_addresses
from .reorganise import Reorganise
from .walk import DrainWalk

__all__ = ["Drain"]


class Drain(wiring.Component):
    """Turns accumulated sums or pooled vectors into results in C, as DRAIN descriptors say.

    A descriptor's vectors pass, in order, ``DrainWalk`` and a ``Skid``, C's read port, the accumulator's (or the stream
    ``vector``; with ``zeros`` none of both), ``Epilogue``, C's write port. Before the epilogue the pipeline waits for
    ``vector``, for ``Reorganise`` if that takes part, and for an epilogue with few lanes; from there on nothing waits.
    A descriptor starts when its tokens are there and its predecessor has left the pipeline.

    Members
    -------
    i : In(descriptor_stream(DRAIN))
        the descriptors; all counts must be > 0
    reset : In(1)
        for the block inside whose clock is gated; the rest needs a ResetInserter around the engine
    acc : Out(AccRead(config))
        read port of the accumulator
    vector : In(stream.Signature(DrainVector(config)))
        vectors from the pool unit and batch norm's
    c_read, c_write : Out
        ports of the C scratchpad
    bias_valid, bias_half, bias_start, bias_data : In
        biases, see :class:`.bias.BiasMemory`
    bias_vector : In(1)
        ``rows`` biases to a word, see :class:`.bias.BiasMemory`; with ``Config.depthwise``
    acc_full, c_ready : Out(Token())
        tokens that are taken
    acc_free, drained : Out(1)
        give a token in each cycle they are 1
    result_valid, result : Out
        maximum of a tracked descriptor, together with ``drained``
    saturations : Out(range(n + 1))
        number of results that saturated in this cycle
    busy : Out(1)
        from the cycle of a descriptor's start until its last result can be read from C
    begins : Out(1)
        in the cycle before a descriptor is taken, and before it starts
    reads_c : Out(1)
        C may be read

    Attributes
    ----------
    READ_STAGES
        cycles from a step of the walk to the epilogue
    OVERHEAD
        cycles of a descriptor beside those of its vectors

    Timing
    ------
    A descriptor takes ``OVERHEAD`` cycles and ``Config.folds`` for each vector, without ``Config.normalises`` also a
    cycle between two from ``vector``.
    """

    READ_STAGES = 1 + PingPong.READ_LATENCY
    OVERHEAD = READ_STAGES + Epilogue.LATENCY + Maximum.LATENCY + 5

    def __init__(self, config: Config):
        self._config = config
        n = config.result_lanes
        super().__init__({
            "i": In(descriptor_stream(DRAIN)), "reset": In(1),
            "acc": Out(AccRead(config)),
            "vector": In(stream.Signature(DrainVector(config))),
            "c_read": Out(PadRead(config, 2 * config.c_depth)),
            "c_write": Out(PadWrite(config, 2 * config.c_depth)),
            "bias_valid": In(1), "bias_half": In(1), "bias_start": In(1),
            "bias_data": In(signed(config.acc_width)),
            **({"bias_vector": In(1)} if config.convolves_channels else {}),
            "acc_full": Out(Token()), "c_ready": Out(Token()),
            "acc_free": Out(1), "drained": Out(1),
            "result_valid": Out(1), "result": Out(ResultLayout(config)),
            "saturations": Out(range(n + 1)), "busy": Out(1), "begins": Out(1), "reads_c": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self._config
        d = Signal(descriptor_layout(DRAIN))
        m.submodules.walk = walk = DrainWalk(config)
        m.submodules.steps = steps = Skid(walk.step.shape())
        folds, latency = config.folds(config.result_lanes) > 1, result_latency(config)
        epilogue = FoldedEpilogue(config) if folds else Epilogue(config)
        active = epilogue.mask.any() | self.reset
        gate = clock_gate(m, platform, "epilogue", active, max(Epilogue.LATENCY + 1, latency), reset=False)
        m.submodules.epilogue = gate(ResetInserter(self.reset)(epilogue))
        m.submodules.tracker = tracker = Maximum(config, sum_width(config), limited=config.clamps)
        en, summing, summed = Signal(init=1), Signal(), Signal()  # summed: by the array
        passes = Signal(init=1) if folds else en  # a group of lanes passes
        next_passes, next_en = Signal(), Signal()
        step = Signal.like(walk.step)
        m.d.comb += [
            summed.eq(~d.vector & ~d.zeros),
            walk.d.eq(d), walk.en.eq(steps.i.ready), steps.i.valid.eq(walk.step.valid), steps.i.payload.eq(walk.step),
            steps.o.ready.eq(en), step.eq(steps.o.payload), step.valid.eq(steps.o.valid),
        ]  # fmt: skip
        asking, before, entering = (self._later(m, step, self.READ_STAGES - n, en) for n in (AccRead.LATENCY, 1, 0))
        full, tail = lane_masks(m, config, d)
        groups = fold(m, config, (full, tail), before, en, passes) if folds else None
        vectors, missing = self._vectors(m, d, before, en)
        moves = (en, next_en, passes, groups)
        self._operands(m, d, summed, moves, delayed(m, step.valid, 1, en), asking, epilogue, vectors)
        self._bias(m, d, entering, entering.valid & en, epilogue)
        if config.reorganises:
            missing |= self._reorganise(m, d, walk.start, before, entering, en, epilogue, summing)
        # Both are known a cycle ahead, as hundreds of registers wait for them.
        m.d.comb += [next_passes.eq(~missing), next_en.eq(next_passes & ~(groups.next_more if folds else 0))]
        m.d.sync += [passes.eq(next_passes), en.eq(next_en)] if folds else en.eq(next_en)
        self._settings(m, d, epilogue, tracker)
        plain = lane_shifts(m, config, d, en, before, tail, vectors.payload, epilogue)
        m.d.comb += epilogue.mask.eq(Mux(entering.valid & passes, Mux(entering.tail, tail, full), 0))
        m.d.comb += epilogue.plain.eq(entering.plain | plain)
        if folds:
            m.d.comb += epilogue.group.eq(groups.group)
            if config.reorganises:
                m.d.comb += epilogue.final.eq(entering.valid & en)
        offsets = lane_offsets(m, config, d)
        lane_addresses(m, config, d, self.c_read, step.address, offsets, en)
        group = epilogue.group if folds else None
        result_addresses(m, config, d, self.c_write, entering.address, group, offsets, latency)
        m.d.comb += [
            *(self.c_write.data[lane].eq(operand) for lane, operand in enumerate(epilogue.o)),
            self.c_write.mask.eq(epilogue.o_mask),
            self.saturations.eq(Mux(d.dry, 0, epilogue.saturations)),
            tracker.i.eq(epilogue.magnitudes), tracker.clear.eq(walk.start), self.result.eq(tracker.result),
        ]  # fmt: skip
        last_read = entering.valid & en & entering.last
        m.d.sync += self.acc_free.eq(last_read & summed)
        self._control(m, d, walk.start, delayed(m, last_read, Epilogue.LATENCY + 1 + Maximum.LATENCY), summing, summed)
        return m

    def _later(self, m, step, cycles, en):
        """``step`` some enabled cycles later; only its ``valid`` registers have a reset."""
        later = delayed(m, step, cycles, en, reset=False)
        fields = {name: later[name] for name in step.shape().members}
        return SimpleNamespace(**(fields | {"valid": delayed(m, step.valid, cycles, en)}))

    def _control(self, m, d, start, done, summing, summed):
        """Take a descriptor, wait for its tokens, start the walk, report its end.

        The bits that say that it is taken and that it starts are registers, since many signals depend on them.
        """
        ready = (self.acc_full.avail | ~summed) & self.c_ready.avail
        m.d.sync += [self.i.ready.eq(0), start.eq(0)]
        m.d.comb += [self.acc_full.take.eq(start & summed), self.c_ready.take.eq(start)]
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.sync += d.eq(self.i.payload)
                if not self._config.pools:
                    m.d.sync += d.vector.eq(0)
                with m.If(self.i.valid):
                    m.d.sync += self.i.ready.eq(1)
                    m.next = "WAIT"
            with m.State("WAIT"), m.If(ready):
                m.d.sync += start.eq(1)
                m.next = "START"
            with m.State("START"):
                m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += [self.drained.eq(done), self.result_valid.eq(done & d.track)]
                with m.If(done):
                    m.next = "IDLE"
                    if self._config.reorganises:
                        with m.If(summing):
                            m.next = "SUM"
            if self._config.reorganises:
                with m.State("SUM"), m.If(~summing):
                    m.next = "IDLE"
        running = start | fsm.ongoing("RUN") | summing
        m.d.comb += [
            self.busy.eq(running), self.reads_c.eq(running & (d.c_mode != 0)),
            self.begins.eq((fsm.ongoing("IDLE") & self.i.valid) | (fsm.ongoing("WAIT") & ready)),
        ]  # fmt: skip

    def _vectors(self, m, d, before, en):
        """Take vectors from the pool unit, which is far away.

        Returns them, and whether the pipeline must wait for one in the next cycle.
        """
        between = Skid if self._config.normalises else RegisterSlice  # norms give a vector a cycle
        m.submodules.vectors = vectors = between(DrainVector(self._config))
        wiring.connect(m, wiring.flipped(self.vector), vectors.i)
        pooled = d.vector & ~d.reorganise if self._config.reorganises else d.vector
        wanted = Signal()
        next_wanted = Signal()
        m.d.comb += [next_wanted.eq(Mux(en, before.valid & pooled, wanted)), vectors.o.ready.eq(wanted & en)]
        m.d.sync += wanted.eq(next_wanted)
        come = vectors.i.valid | ~vectors.i.ready if self._config.normalises else vectors.i.valid & vectors.i.ready
        return vectors.o, next_wanted & ~come & ~(vectors.o.valid & ~vectors.o.ready)

    def _reorganise(self, m, d, start, before, entering, en, epilogue, summing):
        """Sum up the epilogue's results, or give the sums to it; True if the pipeline must wait in the next cycle."""
        m.submodules.reorganise = reorganise = Reorganise(self._config)
        part, enters, folds = reorganise.i, entering.valid & en, hasattr(epilogue, "group")
        masks, group, final = epilogue.o_mask, 0, 1
        if folds:
            masks, group, final = epilogue.inner.o_mask, epilogue.o_group, epilogue.o_final
        m.d.comb += [
            reorganise.d.eq(d), reorganise.start.eq(start),
            reorganise.enter.eq(enters), reorganise.row.eq(entering.row_end),
            reorganise.last.eq(entering.last),
            *(value.eq(result) for value, result in zip(part.values, epilogue.o, strict=False)),
            part.mask.eq(masks), part.group.eq(group), part.final.eq(final),
            reorganise.o.ready.eq(enters & d.vector & d.reorganise), summing.eq(reorganise.busy),
        ]  # fmt: skip
        with m.If(d.vector & d.reorganise & (epilogue.group == 0 if folds else 1)):
            m.d.comb += epilogue.x[0].eq(reorganise.o.payload)
        held = d.reorganise & Mux(d.vector, ~reorganise.next_valid, ~reorganise.next_ready)
        return held & Mux(en, before.valid, entering.valid)

    def _operands(self, m, d, summed, moves, first, asking, epilogue, vectors):
        """Read sums (from the accumulator or the stream) and C so that they meet at the epilogue."""
        en, next_en, passes, groups = moves
        with m.If(self.acc_free):
            m.d.sync += [self.acc.half.eq(~self.acc.half), self.acc.addr.eq(0)]
        with m.Elif(en & self.acc.valid):
            m.d.sync += self.acc.addr.eq(self.acc.addr + 1)
        m.d.comb += [
            self.acc.en.eq(en), self.acc.next_en.eq(next_en), self.acc.valid.eq(asking.valid & summed),
            self.c_read.en.eq(en), self.c_read.valid.eq(first & (d.c_mode != 0)),
        ]  # fmt: skip
        pooled = vectors.payload.sums if self._config.normalises else vectors.payload
        sums = choose_sums(m, self._config, d, self.acc, pooled, groups)
        words = self.c_read.data
        if groups is not None:
            words = of_banks(m, self._config, self.c_read, en, passes, groups.more)
        m.d.comb += [x.eq(value) for x, value in zip(epilogue.x, sums, strict=True)]
        m.d.comb += [c.eq(value) for c, value in zip(epilogue.c, words, strict=False)]

    def _settings(self, m, d, epilogue, tracker):
        """Connect what stands still."""
        m.d.comb += [
            epilogue.c_mode.eq(d.c_mode), epilogue.shift_c.eq(d.shift_c), epilogue.relu.eq(d.relu),
            tracker.id.eq(d.id), tracker.exponent.eq(d.exponent),
        ]  # fmt: skip
        if self._config.clamps:
            m.submodules.bound = bound = Bound(self._config)
            m.d.comb += [
                bound.d.eq(d), epilogue.bound.eq(bound.bound), epilogue.bounded.eq(bound.bounded),
                epilogue.cut.eq(bound.cut), epilogue.slope.eq(d.slope), tracker.limit.eq(bound.limit),
            ]  # fmt: skip

    def _bias(self, m, d, entering, moving, epilogue):
        """Give each vector its biases in the cycle in which the epilogue adds them."""
        m.submodules.bias = bias = BiasMemory(self._config)
        word, lane = walk_biases(m, self._config, d, entering, moving)
        until = Epilogue.BIAS_LATENCY - BiasMemory.LATENCY
        m.d.comb += [
            bias.r_word.eq(delayed(m, word, until, reset=False)),
            bias.r_lane.eq(delayed(m, lane, until, reset=False)),
            bias.valid.eq(self.bias_valid), bias.half.eq(self.bias_half),
            bias.start.eq(self.bias_start), bias.data.eq(self.bias_data),
            bias.r_half.eq(d.half), bias.r_serial.eq(d.swap), bias.r_none.eq(~d.bias),
        ]  # fmt: skip
        if self._config.convolves_channels:
            m.d.comb += bias.vector.eq(self.bias_vector)
        if hasattr(bias, "r_group"):
            m.d.comb += bias.r_group.eq(delayed(m, epilogue.group, until, reset=False))
        m.d.comb += [to.eq(value) for to, value in zip(epilogue.bias, bias.o, strict=False)]
