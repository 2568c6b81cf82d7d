"""Update unit: SGD with momentum and weight decay on weights in DRAM."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..spec.config import Config
from ..spec.errors import ErrorCode
from ..spec.numerics import UPDATE_GUARD_BITS
from ..spec.registers import N_REGIONS
from .delay import delayed
from .interfaces import ReadClient, RegionLayout, ResultLayout, StopLayout, UpdateLayout, WriteClient
from .tracker import Tracker
from .update_check import UpdateCheck
from .update_lane import LOW_BITS, ROUNDED_WIDTH, ScaleLayout, UpdateLane, clamped_shift
from .update_read import SLOTS, UpdateReader
from .update_write import UpdateWriter
from .write_stop import WriteStop

__all__ = ["Update"]


class Update(wiring.Component):
    """Runs UPDATE commands one after the other, ``update_lanes`` weights per cycle at best.

    Chunks are read, computed and written at the same time. All four arrays must start at a multiple of the
    memory port's beat, else BAD_ADDRESS. What hi, lo and v would occupy is checked against ``regions`` before
    anything is read. ``result_valid`` comes twice per command (momentum, then weights), ``done`` after
    them when all writes are answered. After ``fault`` (a pulse, with ``fault_code`` and ``fault_command``) the
    unit begins no write burst of another chunk, reports nothing and takes no command until reset. ``busy`` from
    the cycle after a command is taken to the one of ``done``, or to reset. ``stop``, ``hold``, ``writing``: see
    :class:`.write_stop.WriteStop`.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "i": In(stream.Signature(UpdateLayout)),
            "read": Out(ReadClient(config)), "write": Out(WriteClient(config)),
            "regions": In(data.ArrayLayout(RegionLayout, N_REGIONS)),
            "done": Out(1), "result_valid": Out(1), "result": Out(ResultLayout),
            "saturations": Out(range(2 * config.update_lanes + 1)),
            "fault": Out(1), "fault_code": Out(ErrorCode), "fault_command": Out(16), "busy": Out(1),
            "stop": In(StopLayout), "hold": Out(1), "writing": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self._config
        task = Signal(UpdateLayout)
        m.submodules.reader = reader = UpdateReader(config)
        m.submodules.writer = writer = UpdateWriter(config)
        connect(m, reader.read, flipped(self.read))
        connect(m, writer.write, flipped(self.write))
        m.d.comb += [
            reader.count.eq(task.count),
            reader.addr.eq(Cat(task.a_addr, task.b_addr, task.c_addr, task.out_addr)),
            writer.start.eq(reader.start & ~task.dry),
            writer.count.eq(task.count),
            writer.addr.eq(Cat(task.b_addr, task.c_addr, task.out_addr)),
        ]
        trackers = self._trackers(m, task, reader.start)
        taken = Signal()
        slots = Signal(range(SLOTS + 1), init=SLOTS)  # chunks the writer has room for
        m.d.comb += [
            reader.o.ready.eq((slots != 0) | task.dry),
            taken.eq(reader.o.valid & reader.o.ready),
            writer.valid.eq(delayed(m, taken & ~task.dry, UpdateLane.LATENCY)),
        ]
        m.d.sync += slots.eq(slots - (taken & reader.o.p.last & ~task.dry) + writer.freed)
        self._lanes(m, task, taken, reader.o.p, writer.i, trackers)
        final = delayed(m, taken & reader.o.p.final, UpdateLane.LATENCY + 1 + Tracker.LATENCY)
        self._control(m, task, reader, writer, trackers, final)
        return m

    def _trackers(self, m, task, clear):
        m.submodules.v_tracker = v_tracker = Tracker(ROUNDED_WIDTH)
        m.submodules.w_tracker = w_tracker = Tracker(ROUNDED_WIDTH)
        m.d.comb += [
            v_tracker.clear.eq(clear), v_tracker.id.eq(task.out_id), v_tracker.exponent.eq(task.ev_next - LOW_BITS),
            w_tracker.clear.eq(clear), w_tracker.id.eq(task.b_id), w_tracker.exponent.eq(task.ew_next - LOW_BITS),
        ]  # fmt: skip
        return v_tracker, w_tracker

    def _lanes(self, m, task, taken, group, new, trackers):
        """All lanes with what they share: scale, masks alongside, sums of their reports."""
        mask = delayed(m, Mux(taken, group.mask, 0), UpdateLane.V_LATENCY)
        v_mask, w_mask = mask, delayed(m, mask, UpdateLane.LATENCY - UpdateLane.V_LATENCY)
        m.d.comb += new.last.eq(delayed(m, group.last, UpdateLane.LATENCY))
        scale = self._scale(m, task)
        v_magnitudes, w_magnitudes, saturations = 0, 0, 0
        for n in range(self._config.update_lanes):
            m.submodules[f"lane{n}"] = lane = UpdateLane(self._config)
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

    def _scale(self, m, task):
        """Factors and shifts of the command, two cycles after ``task``."""
        scale = Signal(ScaleLayout)
        guard = UPDATE_GUARD_BITS
        aligns = {
            "v": task.xm + task.ev - task.ev_next + guard,
            "g": task.eg - task.ev_next + LOW_BITS + guard,
            "d": task.xd + task.ew - task.ev_next + guard,
            "w": task.ew - task.ew_next + guard,
            "l": task.xl + task.ev_next - task.ew_next + guard,
        }
        for term, value in aligns.items():
            align = Signal(value.shape(), name=f"align_{term}")
            m.d.sync += [align.eq(value), scale[f"shift_{term}"].eq(clamped_shift(align))]
        m.d.sync += [scale.mm.eq(task.mm), scale.md.eq(task.md), scale.ml.eq(task.ml)]
        return scale

    def _control(self, m, task, reader, writer, trackers, final):
        """Check a command, let it run, report its results and its end."""
        m.submodules.check = check = UpdateCheck(self._config)
        m.d.comb += [
            check.addr.eq(reader.addr),
            check.count.eq(task.count),
            check.regions.eq(self.regions),
        ]
        refused = check.valid & (check.code != ErrorCode.NONE)
        stopped = Signal()
        self._faults(m, task, stopped, refused, check.code, reader, writer)
        self._stop(m, task, stopped)
        v_tracker, w_tracker = trackers
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(~stopped)
                self._take(m, task)
                with m.If(self.i.valid & self.i.ready):
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.comb += check.start.eq(1)
                m.next = "CHECK"
            with m.State("CHECK"), m.If(check.valid):
                m.d.comb += reader.start.eq(~refused)
                m.next = "RUN"
                with m.If(refused):
                    m.next = "IDLE"
                with m.Elif(task.count == 0):
                    m.next = "WRITE"
            with m.State("RUN"), m.If(final):
                m.next = "WRITE"
            with m.State("WRITE"), m.If(writer.idle & ~stopped):
                m.next = "RESULT_V"
            with m.State("RESULT_V"):
                m.d.comb += [self.result_valid.eq(~stopped), self.result.eq(v_tracker.result)]
                m.next = "RESULT_W"
            with m.State("RESULT_W"):
                m.d.comb += [self.result_valid.eq(~stopped), self.result.eq(w_tracker.result)]
                m.next = "DONE"
            with m.State("DONE"):
                m.d.comb += self.done.eq(~stopped)
                m.next = "IDLE"
        m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))

    def _stop(self, m, task, stopped):
        """What an orderly stop keeps back."""
        m.submodules.write_stop = write_stop = WriteStop()
        m.d.comb += [
            write_stop.stop.eq(self.stop), write_stop.command.eq(task.index), write_stop.completed.eq(task.index),
            write_stop.begun.eq(self.write.request.valid & self.write.request.ready),
            write_stop.complete.eq(self.done), write_stop.lost.valid.eq(stopped),
            write_stop.lost.index.eq(task.index),
            self.hold.eq(write_stop.hold), self.writing.eq(write_stop.writing),
        ]  # fmt: skip

    def _take(self, m, task):
        """Register the command; a dry one with the exponents that keep every value."""
        new = self.i.p
        m.d.sync += task.eq(new)
        with m.If(new.dry):
            m.d.sync += [
                task.ew_next.eq(new.ew),
                task.ev_next.eq(Mux(new.eg > new.ev, new.eg, new.ev)),
            ]

    def _faults(self, m, task, stopped, refused, refusal, reader, writer):
        """Report the first fault and stop."""
        faulty = refused | reader.fault | writer.fault
        m.d.comb += [
            writer.hold.eq(stopped | reader.fault),
            self.fault.eq(faulty & ~stopped),
            self.fault_command.eq(task.index),
            self.fault_code.eq(Mux(refused, refusal, Mux(reader.fault, ErrorCode.READ_FAULT, ErrorCode.WRITE_FAULT))),
        ]
        with m.If(faulty):
            m.d.sync += stopped.eq(1)
