"""Update unit: SGD with momentum and weight decay, and Adam, on weights in DRAM."""

from amaranth import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ...spec.config import Config
from ...spec.errors import ErrorCode
from ...spec.numerics import unpredicted
from ...spec.registers import N_REGIONS
from ..lib.clock_gate import without_reset
from ..lib.delay import delayed
from ..lib.interfaces import (  # fmt: skip
    QualityLayout,
    ReadClient,
    RegionLayout,
    ResultLayout,
    SignsLayout,
    StopLayout,
    UpdateLayout,
    WriteClient,
)
from ..lib.maximum import Maximum
from .adam import RateClient, UpdateAdam
from .arrays import SLOTS, GroupLayout
from .control import run_commands
from .filter_ends import FilterEnds
from .folded_sgd_lane import FOLD, lane_type
from .random_signs import RandomSigns
from .reader import UpdateReader
from .sgd_lane import LOW_BITS, ROUNDED_WIDTH, lane_scale, most_saturations
from .third_result import ThirdResult
from .writer import UpdateWriter

__all__ = ["Update"]


class Update(wiring.Component):
    """Runs UPDATE commands one after the other, and ADAM commands where gradients are predicted.

    Chunks are read, computed and written at the same time. The written arrays are checked against ``regions`` before
    anything is read; all arrays must start at a multiple of the memory port's beat, else BAD_ADDRESS. ADAM, and UPDATE
    with ``quality``, have a third result: the second moment, or the layer's scale.

    Members
    -------
    i : In(stream.Signature(UpdateLayout(config)))
        the commands
    reset : In(1)
        for reader and writer, which are far apart: it reaches them through registers; the rest needs a ResetInserter
    read, write : Out
        ways to memory
    regions : In(data.ArrayLayout(RegionLayout, N_REGIONS))
        the write regions
    done : Out(1)
        after the results, when all writes are answered
    result_valid, result : Out
        the momentum's result, unless it is kept, then the weights', then the third
    saturations : Out(range(most_saturations(config) + 1))
        number of results that saturated in this cycle
    fault, fault_code, fault_command : Out
        a fault (a pulse): until reset the unit begins no write burst of another chunk, reports nothing and takes no
        command
    busy : Out(1)
        from the cycle after a command is taken to that of ``done``, or to reset
    stop, hold, writing : In, Out, Out
        see :class:`.dma.write_stop.WriteStop`
    quality_valid, quality : Out
        quality sums, with the third result of a command that isn't dry; where gradients are predicted
    rate : Out(RateClient())
        Adam's rate, made outside; where gradients are predicted
    signs : In(SignsLayout)
        key of random signs; only where ``config.flips_signs``

    Attributes
    ----------
    RESETS
        registers on the way of ``reset``

    Timing
    ------
    UPDATE: ``update_lanes`` weights in ``update_cycles`` at best; ADAM: ``adam_lane.FOLD`` cycles a weight.
    """

    RESETS = 2

    def __init__(self, config: Config):
        self._config = config
        self._lane = lane_type(config)
        predicted = {"quality_valid": Out(1), "quality": Out(QualityLayout), "rate": Out(RateClient())}
        super().__init__({
            "i": In(stream.Signature(UpdateLayout(config))), "reset": In(1),
            "read": Out(ReadClient(config)), "write": Out(WriteClient(config)),
            "regions": In(data.ArrayLayout(RegionLayout, N_REGIONS)),
            "done": Out(1), "result_valid": Out(1), "result": Out(ResultLayout(config)),
            "saturations": Out(range(most_saturations(config) + 1)),
            "fault": Out(1), "fault_code": Out(ErrorCode), "fault_command": Out(16), "busy": Out(1),
            "stop": In(StopLayout), "hold": Out(1), "writing": Out(1),
            **(predicted if config.predicts else {}), **({"signs": In(SignsLayout)} if config.flips_signs else {}),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self._config
        task = Signal(UpdateLayout(config), reset_less=True)
        self._apart = without_reset(m, platform, "apart")
        self._turn = self._slots(m) if config.update_cycles == FOLD else None
        resets = Signal(self.RESETS, reset_less=True)
        m.d.sync += resets.eq(Cat(self.reset, resets))
        reader, writer = UpdateReader(config), UpdateWriter(config)
        m.submodules.reader = self._apart(ResetInserter(resets[0])(reader))
        m.submodules.writer = self._apart(ResetInserter(resets[1])(writer))
        connect(m, reader.read, flipped(self.read))
        connect(m, writer.write, flipped(self.write))
        written = [task.b_addr, task.c_addr, task.out_addr, *([task.d_addr] if config.predicts else [])]
        m.d.comb += [
            reader.count.eq(task.count),
            reader.addr.eq(Cat(task.a_addr, *written)),
            writer.count.eq(task.count),
            writer.addr.eq(Cat(written)),
        ]
        trackers = self._trackers(m, task, reader.start)
        taken = Signal()  # a group is taken
        slots, slots_next = (Signal(range(SLOTS + 1), init=SLOTS, name=name) for name in ("slots", "slots_next"))
        room_next = Signal()  # the writer will have a slot for a chunk, or needs none
        m.d.comb += [
            taken.eq(reader.o.valid & reader.o.ready),
            slots_next.eq(slots - (taken & reader.o.p.last & ~task.dry) + writer.freed),
            room_next.eq((slots_next != 0) | task.dry),
        ]  # fmt: skip
        m.d.sync += slots.eq(slots_next)
        if config.predicts:
            results, final = self._predicted(m, task, reader, writer, trackers, room_next, taken)
        else:
            room = Signal(init=1)
            m.d.sync += room.eq(room_next)
            m.d.comb += [
                reader.o.ready.eq(self._in_turn(room)),
                writer.valid.eq(delayed(m, taken & ~task.dry, self._lane.LATENCY)),
            ]
            self._lanes(m, task, taken, reader.o.p, writer.i, trackers)
            results, final = [], delayed(m, taken & reader.o.p.final, self._lane.LATENCY)
        final = delayed(m, final, 1 + Maximum.LATENCY)
        results = [*(tracker.result for tracker in trackers), *results]
        run_commands(m, config, self, task, reader, writer, results, final)
        return m

    def _slots(self, m):
        """The turns of folded lanes."""
        slots = Signal(FOLD, init=1)
        m.d.sync += slots.eq(slots.rotate_left(1))
        return slots

    def _in_turn(self, may):
        """``may``, in the cycles in which the lanes can take a group."""
        return may if self._turn is None else may & self._turn[0]

    def _predicted(self, m, task, reader, writer, trackers, room_next, taken):
        """Add both kinds of lanes. Returns the third result, and a pulse as a command's last weight leaves its lane."""
        config = self._config
        m.submodules.adam = adam = UpdateAdam(config, borrows=self._turn is not None)
        m.submodules.third = third = ThirdResult(config)
        assert third.latency <= self._lane.LATENCY
        sgd = Signal()  # a group of an UPDATE is taken
        given, signs_ready = self._signs(m, task, reader, taken) if config.flips_signs else (reader.o.p.g, 1)
        sgd_room, adam_room = Signal(init=1), Signal()
        m.d.sync += [sgd_room.eq(room_next & ~task.adam), adam_room.eq(room_next & task.adam)]
        may = self._in_turn(sgd_room & signs_ready & (reader.d.valid | ~task.quality))
        group, new = Signal(GroupLayout(config)), Signal(GroupLayout(config))
        gradients = [Mux(task.zero, 0, value) for value in given]
        if config.streams:
            gradients = self._marked(m, task, reader, taken, gradients)
        m.d.comb += [
            group.eq(reader.o.p),
            *(g.eq(value) for g, value in zip(group.g, gradients, strict=True)),
            reader.without_g.eq(task.zero), reader.without_v.eq(task.keep), writer.without_v.eq(task.keep),
            reader.with_d.eq(task.adam | task.quality), reader.wide.eq(task.adam),
            sgd.eq(reader.o.valid & may), reader.o.ready.eq(may | (adam_room & adam.groups.ready)),
            reader.d.ready.eq(Mux(task.adam, adam.s.ready, sgd)),
            adam.task.eq(task), adam.rate.eq(self.rate.o), adam.s.payload.eq(reader.d.payload),
            adam.groups.valid.eq(reader.o.valid & adam_room), adam.groups.p.eq(group),
            adam.s.valid.eq(reader.d.valid),
            third.task.eq(task), third.clear.eq(reader.start), third.mask.eq(Mux(sgd & task.quality, group.mask, 0)),
            third.g.eq(group.g), third.e.eq(reader.d.payload), third.s_magnitude.eq(adam.s_magnitude),
            writer.valid.eq(~task.dry & (delayed(m, sgd, self._lane.LATENCY) | adam.valid)),
            writer.i.eq(Mux(task.adam, adam.o, new)), writer.with_d.eq(task.adam),
            writer.d_valid.eq(adam.s_valid & ~task.dry), writer.d.eq(adam.o_s), writer.d_last.eq(adam.s_last),
            self.quality.eq(third.quality),
        ]  # fmt: skip
        first, *_ = self._lanes(
            m, task, sgd, group, new, trackers, (adam.m_magnitude, adam.w_magnitude, adam.saturated)
        )  # fmt: skip
        if self._turn is not None:
            m.d.comb += [first.lent.eq(task.adam), first.asks.eq(adam.asks), adam.aligned.eq(first.aligned)]
        final = delayed(m, sgd & group.final, self._lane.LATENCY) | (adam.valid & adam.o.final)
        return [third.result], final

    def _signs(self, m, task, reader, taken):
        """Gradients, whose signs some commands change, and a bit that says that they are there."""
        m.submodules.signs = signs = RandomSigns(self._config)
        m.d.comb += [
            signs.start.eq(reader.start), signs.layer.eq(task.layer), signs.key.eq(self.signs),
            signs.g.eq(reader.o.p.g), signs.taken.eq(taken & task.random),
        ]  # fmt: skip
        given = [Mux(task.random, new, old) for new, old in zip(signs.o, reader.o.p.g, strict=True)]
        return given, signs.valid | ~task.random

    def _marked(self, m, task, reader, taken, gradients):
        """The gradients of a group, with marks for the last weight of each filter."""
        config = self._config
        m.submodules.ends = ends = FilterEnds(config)
        m.d.comb += [ends.start.eq(reader.start), ends.filter.eq(task.filter), ends.taken.eq(taken)]
        mark = unpredicted(config.operand_width)
        return [Mux(end, mark, value) for end, value in zip(ends.o, gradients, strict=True)]

    def _trackers(self, m, task, clear):
        """Add the maxima. They need no reset: each is cleared by a register of its own, before weights and results."""
        v_tracker, w_tracker = Maximum(self._config, ROUNDED_WIDTH), Maximum(self._config, ROUNDED_WIDTH)
        m.submodules.v_tracker, m.submodules.w_tracker = self._apart(v_tracker), self._apart(w_tracker)
        clears = Signal(2)
        m.d.sync += clears.eq(Cat(clear, clears))
        m.d.comb += [
            v_tracker.clear.eq(clears[0]), v_tracker.id.eq(task.out_id), v_tracker.exponent.eq(task.ev_next - LOW_BITS),
            w_tracker.clear.eq(clears[1]), w_tracker.id.eq(task.b_id), w_tracker.exponent.eq(task.ew_next - LOW_BITS),
        ]  # fmt: skip
        return v_tracker, w_tracker

    def _lanes(self, m, task, taken, group, new, trackers, others=(0, 0, 0)):
        """Add all SGD lanes and their shared parts: scale, delayed masks, sums of their reports and of ``others``.

        Where it is folded, the first one lends its multiplier to Adam's. Returns the lanes.
        """
        mask = delayed(m, Mux(taken, group.mask, 0), self._lane.V_LATENCY)
        v_mask, w_mask = mask, delayed(m, mask, self._lane.LATENCY - self._lane.V_LATENCY)
        m.d.comb += new.last.eq(delayed(m, group.last, self._lane.LATENCY))
        scale = lane_scale(m, self._config, task)
        v_magnitudes, w_magnitudes, saturations = others
        lends = {"lends": True} if self._config.predicts and self._turn is not None else {}
        lanes = [self._lane(self._config, **(lends if n == 0 else {})) for n in range(self._config.update_lanes)]
        for n, lane in enumerate(lanes):
            m.submodules[f"lane{n}"] = self._apart(lane)  # its results before the first weight are masked
            if self._turn is not None:
                m.d.comb += lane.slots.eq(self._turn)
            m.d.comb += [
                lane.scale.eq(scale),
                lane.g.eq(group.g[n]), lane.hi.eq(group.hi[n]), lane.lo.eq(group.lo[n]), lane.v.eq(group.v[n]),
                new.hi[n].eq(lane.o_hi), new.lo[n].eq(lane.o_lo), new.v[n].eq(lane.o_v),
            ]  # fmt: skip
            v_magnitudes |= Mux(v_mask[n], lane.v_magnitude, 0)
            w_magnitudes |= Mux(w_mask[n], lane.w_magnitude, 0)
            saturations += (v_mask[n] & lane.v_saturated) + (w_mask[n] & lane.w_saturated)
        v_tracker, w_tracker = trackers
        m.d.comb += [
            v_tracker.i.eq(v_magnitudes),
            w_tracker.i.eq(w_magnitudes),
            self.saturations.eq(Mux(task.dry, 0, saturations)),
        ]
        return lanes
