"""Issue: makes tasks of commands, and keeps account of which are complete."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from ..spec.commands import Opcode
from ..spec.config import Config
from .dispatch import Dispatch, WaitLayout
from .exponents import OPERANDS, ExponentLookup
from .hyper import HyperLookup
from .interfaces import CommandLayout, TaskLayout, UpdateLayout

__all__ = ["Issue", "WorkLayout"]

MAIN_DEPTH = 2
UPDATE_DEPTH = 4
"""Tasks that wait before the sequencer and before the update unit."""

IN_FLIGHT = 8
"""Tasks of one queue that can be handed out and not complete; more than the engines hold."""

WorkLayout = data.StructLayout({"command": CommandLayout, "index": 16, "dry": 1})
"""A compute or UPDATE command, its index in the program, and whether it is only tried."""


class Issue(wiring.Component):
    """Looks up exponents and hyper-parameters of ``work``, and offers it as a task once its waits are over.

    ``work`` is taken when its task enters a queue. ``given``: commands taken since ``new_batch``, dry ones
    not counted; ``settled``: all are complete, dry ones included. Whoever gives dry work, or any after it,
    waits for ``settled`` first. ``main_done`` and ``update_done`` pulse for each task completed. ``complete``: so are
    all those taken, dry or not, whose index is below ``until``.

    ``busy`` but while it can only wait for others, apart from what follows from an input within a few cycles.

    The lookup of hyper-parameters must not take longer than that of exponents.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__({
            "work": In(stream.Signature(WorkLayout)), "new_batch": In(1), "ring_address": In(32),
            "given": Out(WaitLayout), "settled": Out(1),
            "exponents": Out(ExponentLookup(config)), "hyper": Out(HyperLookup(config)),
            "task": Out(stream.Signature(TaskLayout)), "update_task": Out(stream.Signature(UpdateLayout)),
            "main_done": In(1), "update_done": In(1), "until": In(16), "complete": Out(1), "busy": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.main = main = Dispatch(TaskLayout, MAIN_DEPTH)
        m.submodules.update = update = Dispatch(UpdateLayout, UPDATE_DEPTH)
        wiring.connect(m, main.o, wiring.flipped(self.task))
        wiring.connect(m, update.o, wiring.flipped(self.update_task))

        command = self.work.p.command
        for queue in (main, update):
            m.d.comb += [queue.i.p.wait.main.eq(command.wait_main), queue.i.p.wait.update.eq(command.wait_update)]
        self._task(m, main.i.p.payload)
        self._update_task(m, update.i.p.payload)
        m.d.comb += [
            self.hyper.first.eq(command.hyper),
            *(self.exponents.ids[operand].eq(command[f"{operand}_id"]) for operand in OPERANDS),
        ]

        is_update = command.opcode == Opcode.UPDATE
        main_room, update_room = self._in_flight(m, is_update)
        with m.FSM() as fsm:
            with m.State("LOOKUP"):
                m.d.comb += [self.exponents.start.eq(self.work.valid), self.hyper.start.eq(self.work.valid)]
                with m.If(self.work.valid):
                    m.next = "WAIT"
            with m.State("WAIT"), m.If(self.exponents.done):
                m.next = "PUSH"
            with m.State("PUSH"):
                m.d.comb += [
                    main.i.valid.eq(~is_update & main_room),
                    update.i.valid.eq(is_update & update_room),
                    self.work.ready.eq(Mux(is_update, update.i.ready & update_room, main.i.ready & main_room)),
                ]
                with m.If(self.work.ready):
                    m.next = "LOOKUP"
        m.d.comb += self.busy.eq(self.work.valid & (~fsm.ongoing("PUSH") | self.work.ready))
        self._account(m, is_update, main, update)
        return m

    def _in_flight(self, m, is_update):
        """Indices of the tasks not complete, oldest first; returns whether there is room, by queue."""
        rooms, complete = [], []
        for name, mine, done in (("main", ~is_update, self.main_done), ("update", is_update, self.update_done)):
            m.submodules[f"{name}_in_flight"] = indices = SyncFIFO(width=16, depth=IN_FLIGHT)
            m.d.comb += [
                indices.w_en.eq(self.work.valid & self.work.ready & mine),
                indices.w_data.eq(self.work.p.index),
                indices.r_en.eq(done),
            ]
            rooms.append(indices.w_rdy)
            complete.append(~indices.r_rdy | (indices.r_data >= self.until))
        m.d.comb += self.complete.eq(complete[0] & complete[1])
        return rooms

    def _account(self, m, is_update, main, update):
        completed = Signal(WaitLayout)
        trying = Signal()
        taken = self.work.valid & self.work.ready
        m.d.comb += [
            main.completed.eq(completed),
            update.completed.eq(completed),
            self.settled.eq((self.given == completed) & ~trying),
        ]
        with m.If(taken & ~self.work.p.dry):
            with m.If(is_update):
                m.d.sync += self.given.update.eq(self.given.update + 1)
            with m.Else():
                m.d.sync += self.given.main.eq(self.given.main + 1)
        with m.If(trying):
            m.d.sync += trying.eq(~self.main_done & ~self.update_done)
        with m.Else():
            m.d.sync += [
                trying.eq(taken & self.work.p.dry),
                completed.main.eq(completed.main + self.main_done),
                completed.update.eq(completed.update + self.update_done),
            ]
        with m.If(self.new_batch):
            m.d.sync += [self.given.eq(0), completed.eq(0)]

    def _task(self, m, task):
        work = self.work.p
        exps = dict(zip(OPERANDS, self.exponents.found, strict=True))
        ring = Mux(work.command.ring, self.ring_address, 0)
        m.d.comb += [
            task.command.eq(work.command), task.index.eq(work.index), task.dry.eq(work.dry),
            task.a_base.eq(ring + work.command.a_addr),
            *(task[f"exp_{operand}"].eq(exps[operand].cur) for operand in OPERANDS),
        ]  # fmt: skip

    def _update_task(self, m, task):
        work = self.work.p
        gradient, weight, _, momentum = self.exponents.found
        rate, inertia, decay = self.hyper.found
        copied = ("count", "a_addr", "b_addr", "c_addr", "out_addr", "b_id", "out_id")
        m.d.comb += [
            task.index.eq(work.index), task.dry.eq(work.dry),
            *(task[name].eq(work.command[name]) for name in copied),
            task.eg.eq(gradient.cur), task.ew.eq(weight.cur), task.ew_next.eq(weight.next),
            task.ev.eq(momentum.cur), task.ev_next.eq(momentum.next),
            task.ml.eq(rate.mantissa), task.xl.eq(rate.exponent), task.mm.eq(inertia.mantissa),
            task.xm.eq(inertia.exponent), task.md.eq(decay.mantissa), task.xd.eq(decay.exponent),
        ]  # fmt: skip
