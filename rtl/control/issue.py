"""Issue: makes tasks of commands, and keeps account of those that are complete."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from ...spec.commands import Opcode, Source
from ...spec.config import Config
from ..lib.delay import delayed
from ..lib.interfaces import CommandLayout, TaskLayout, UpdateLayout
from .command_check import is_update
from .dispatch import Dispatch, WaitLayout, queues
from .exponents import ExponentLookup, operands
from .hyper_table import HyperLookup

__all__ = ["Issue", "WorkLayout"]

MAIN_DEPTH = 2
UPDATE_DEPTH = 4
"""Tasks that wait before the sequencer and before the update unit."""

IN_FLIGHT = 8
"""Incomplete tasks of a queue, at most; or twice its depth if that is more. Queue and engines hold fewer."""

WorkLayout = data.StructLayout({"command": CommandLayout, "index": 16, "dry": 1})
"""A compute or UPDATE command, its index in the program, and whether it is only tried."""


class Issue(wiring.Component):
    """Looks up exponents and hyper-parameters of ``work``, and offers it as a task once its waits are over.

    The predictor's commands have a queue of their own if there are two cores; else they go with the main core's.

    Parameters
    ----------
    config : Config
        decides which queues there are, and their depths

    Members
    -------
    work : In(stream of WorkLayout)
        commands; one is taken when its task enters a queue. Before a dry one, and before any after it, the giver waits
        for ``settled``
    new_batch : In(1)
        a batch ends: counts begin anew
    ring_address : In(32)
        address of the batch's entry of the input ring
    given : Out(WaitLayout)
        commands taken since ``new_batch``, without dry ones
    settled : Out(1)
        all commands taken are complete, dry ones too
    exponents, hyper : Out(ExponentLookup(config)), Out(HyperLookup(config))
        the tables; a lookup of hyper-parameters mustn't take longer than one of exponents
    task, update_task, predictor_task : Out(streams of TaskLayout and UpdateLayout(config))
        tasks for the main core, the update unit and the predictor's core, if there is one
    main_done, update_done, predictor_done : In(1)
        pulse for each task that is complete
    until, complete : In(16), Out(1)
        all commands taken whose index is below ``until`` are complete, dry or not
    busy : Out(1)
        low only while the block can do nothing but wait for other blocks; may be low for a few cycles after an input
    """

    def __init__(self, config: Config):
        self.config = config
        self.queues = queues(config)
        self.depths = {"main": MAIN_DEPTH, "update": UPDATE_DEPTH, "predictor": config.predictor_depth}
        super().__init__({
            "work": In(stream.Signature(WorkLayout)), "new_batch": In(1), "ring_address": In(32),
            "given": Out(WaitLayout), "settled": Out(1),
            "exponents": Out(ExponentLookup(config)), "hyper": Out(HyperLookup(config)),
            "task": Out(stream.Signature(TaskLayout)), "update_task": Out(stream.Signature(UpdateLayout(config))),
            **({"predictor_task": Out(stream.Signature(TaskLayout))} if config.n_cores > 1 else {}),
            **{f"{queue}_done": In(1) for queue in self.queues},
            "until": In(16), "complete": Out(1), "busy": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        command = self.work.p.command
        update, aside = Signal(), Signal()  # aside: counted as the predictor's
        m.d.sync += [  # the command has stood for long when it is pushed
            update.eq(is_update(command.opcode)), aside.eq(~is_update(command.opcode) & command.predictor),
        ]  # fmt: skip
        chosen = {"main": ~update, "update": update}
        if self.config.n_cores > 1:
            chosen |= {"main": ~update & ~command.predictor, "predictor": aside}
        done = self._in_flight(m, chosen, aside)
        pushing, push = Signal(), Signal()
        completed = self._account(m, update, aside, done)
        ready = []
        for name in self.queues:
            shape = UpdateLayout(self.config) if name == "update" else TaskLayout
            m.submodules[name] = queue = Dispatch(shape, self.depths[name])
            task = self.task if name == "main" else getattr(self, f"{name}_task")
            wiring.connect(m, queue.o, wiring.flipped(task))
            (self._update_task if name == "update" else self._task)(m, queue.i.p.payload)
            m.d.comb += [
                queue.completed.eq(completed),
                *(queue.i.p.wait[kind].eq(command[f"wait_{kind}"]) for kind in WaitLayout.members),
                queue.i.valid.eq(push & chosen[name]),
            ]
            ready.append(queue.i.ready & chosen[name] & self.rooms[name])
        m.d.sync += push.eq(pushing & ~push & delayed(m, Cat(ready).any(), 1))  # nothing else takes the room
        m.d.comb += [
            self.work.ready.eq(push),
            self.hyper.first.eq(command.hyper),
            *(self.exponents.ids[operand].eq(command[f"{operand}_id"]) for operand in operands(self.config)),
        ]
        with m.FSM() as fsm:
            with m.State("LOOKUP"):
                m.d.comb += [self.exponents.start.eq(self.work.valid), self.hyper.start.eq(self.work.valid)]
                with m.If(self.work.valid):
                    m.next = "WAIT"
            with m.State("WAIT"), m.If(self.exponents.done):
                m.next = "PUSH"
            with m.State("PUSH"):
                m.d.comb += pushing.eq(1)
                with m.If(self.work.ready):
                    m.next = "LOOKUP"
        m.d.comb += self.busy.eq(self.work.valid & (~fsm.ongoing("PUSH") | self.work.ready))
        return m

    def _in_flight(self, m, chosen, aside):
        """Keep the indices of incomplete tasks, oldest first; ``rooms`` says for each queue if there is room.

        Returns the pulses of completion, by the kinds that waits count.
        """
        layout = data.StructLayout({"index": 16, "aside": 1})
        self.rooms, complete = {}, []
        oldest = {}
        for name in self.queues:
            n_tasks = max(IN_FLIGHT, 2 * self.depths[name])
            m.submodules[f"{name}_in_flight"] = tasks = SyncFIFO(width=layout.size, depth=n_tasks)
            new = layout(tasks.w_data)
            oldest[name] = layout(tasks.r_data)
            m.d.comb += [
                tasks.w_en.eq(self.work.ready & chosen[name]),
                new.index.eq(self.work.p.index), new.aside.eq(aside),
                tasks.r_en.eq(getattr(self, f"{name}_done")),
            ]  # fmt: skip
            self.rooms[name] = tasks.w_rdy
            complete.append(~tasks.r_rdy | (oldest[name].index >= self.until))
        m.d.comb += self.complete.eq(Cat(complete).all())
        if self.config.n_cores > 1:
            return {"main": self.main_done, "update": self.update_done, "predictor": self.predictor_done}
        of_predictor = oldest["main"].aside & self.config.predicts
        return {
            "main": self.main_done & ~of_predictor, "update": self.update_done,
            "predictor": self.main_done & of_predictor,
        }  # fmt: skip

    def _account(self, m, update, aside, done):
        """Count the commands given and those completed; returns the second count."""
        completed = Signal(WaitLayout)
        trying = Signal()
        taken = self.work.ready
        given = {"main": ~update & ~aside, "update": update, "predictor": aside & self.config.predicts}
        m.d.comb += self.settled.eq((self.given == completed) & ~trying)
        with m.If(taken & ~self.work.p.dry):
            m.d.sync += [self.given[kind].eq(self.given[kind] + given[kind]) for kind in given]
        with m.If(trying):
            m.d.sync += trying.eq(~Cat(done.values()).any())
        with m.Else():
            m.d.sync += [
                trying.eq(taken & self.work.p.dry),
                *(completed[kind].eq(completed[kind] + done[kind]) for kind in done),
            ]
        with m.If(self.new_batch):
            m.d.sync += [self.given.eq(0), completed.eq(0)]
        return completed

    def _exponents(self):
        """The exponents found, by operand."""
        return dict(zip(operands(self.config), self.exponents.found, strict=True))

    def _scale(self, exps):
        """The exponent of the layer's scale."""
        return Mux(self.work.p.command.scale_id == 0, 0, exps["scale"].cur)

    def _task(self, m, task):
        work = self.work.p
        exps = self._exponents()
        ring = Mux(work.command.ring, self.ring_address, 0)
        m.d.comb += [
            task.command.eq(work.command), task.index.eq(work.index), task.dry.eq(work.dry),
            task.a_base.eq(ring + work.command.a_addr),
            *(task[f"exp_{operand}"].eq(exps[operand].cur) for operand in ("a", "b", "c", "out")),
        ]  # fmt: skip
        if self.config.predicts:
            m.d.comb += task.exp_scale.eq(self._scale(exps))
            with m.If(exps["out"].has_next):  # results are written with the next exponent, as weights are
                m.d.comb += task.exp_out.eq(exps["out"].next)

    def _update_task(self, m, task):
        work = self.work.p
        exps = self._exponents()
        gradient, weight, momentum = exps["a"], exps["b"], exps["out"]
        rate, inertia, decay, *others = self.hyper.found
        copied = ("count", "a_addr", "b_addr", "c_addr", "out_addr", "b_id", "out_id")
        m.d.comb += [
            task.index.eq(work.index), task.dry.eq(work.dry),
            *(task[name].eq(work.command[name]) for name in copied),
            task.eg.eq(gradient.cur), task.ew.eq(weight.cur), task.ew_next.eq(weight.next),
            task.ev.eq(momentum.cur), task.ev_next.eq(momentum.next),
            task.ml.eq(rate.mantissa), task.xl.eq(rate.exponent), task.mm.eq(inertia.mantissa),
            task.xm.eq(inertia.exponent), task.md.eq(decay.mantissa), task.xd.eq(decay.exponent),
        ]  # fmt: skip
        if self.config.predicts:
            self._predicted(m, task, exps, others)

    def _predicted(self, m, task, exps, others):
        """Fill in the fields of an update task that only predicting variants have; a true gradient isn't scaled."""
        command = self.work.p.command
        adam = command.opcode == Opcode.ADAM
        m.d.comb += [
            task.adam.eq(adam), task.zero.eq(~adam & (command.source == Source.ZERO)),
            task.keep.eq(~adam & command.keep & ~command.quality),
            task.quality.eq(~adam & command.quality), task.scale.eq(self._scale(exps)),
            *(task[name].eq(command[name]) for name in ("layer", "d_addr", "d_id", "scale_id")),
            task.eg.eq(exps["a"].cur + Mux(adam | command.quality, 0, task.scale)),
            task.ed.eq(exps["d"].cur), task.ed_next.eq(exps["d"].next),
            *(entry.eq(found) for entry, found in zip(task.more, others, strict=True)),
        ]  # fmt: skip
        if self.config.flips_signs:
            m.d.comb += task.random.eq(~adam & (command.source == Source.RANDOM))
        if self.config.streams:
            m.d.comb += task.filter.eq(Mux(adam, 0, command.y_pitch))
