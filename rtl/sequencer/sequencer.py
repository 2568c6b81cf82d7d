"""The sequencer: runs the tile program and feeds the engines with descriptors."""

from amaranth import Array, Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ...spec.config import Config
from ...spec.microcode.compiler import compile_program
from ...spec.microcode.descriptors import ENGINES
from ..lib.clock_gate import clock_gate
from ..lib.interfaces import TaskLayout, descriptor_layout, descriptor_stream
from ..lib.register_slice import RegisterSlice
from .processor import N_SLOTS, SequencerProcessor

__all__ = ["Sequencer"]


class Sequencer(wiring.Component):
    """Turns tasks into descriptors, one task after the other, as the tile program does.

    Code memory and register file are block RAMs, the multiplier two DSPs.

    Members
    -------
    i : In(stream.Signature(TaskLayout))
        the tasks; one is taken (``ready`` for a cycle) when its last descriptor has been issued
    reset : In(1)
        for the queues, whose clock is gated; the rest needs a ResetInserter around the sequencer
    fill, compute, drain, store
        the descriptors, each through two registers
    error_valid : Out(1)
        pulses if a task can't run; the sequencer then stands still until reset
    error_code, error_index : Out
        an ErrorCode, and the task's index in the program
    busy : Out(1)
        low only without a task, or while waiting for room in a queue
    """

    def __init__(self, config: Config):
        self._config = config
        self.program = compile_program(config)
        super().__init__({
            "i": In(stream.Signature(TaskLayout)), "reset": In(1),
            **{engine: Out(descriptor_stream(bits)) for engine, bits in ENGINES.items()},
            "error_valid": Out(1), "error_code": Out(8), "error_index": Out(16), "busy": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.core = core = SequencerProcessor(self._config, self.program)
        m.d.comb += [
            core.run.eq(self.i.valid), core.task.eq(self.i.payload), self.i.ready.eq(core.done),
            self.error_valid.eq(core.error_valid), self.error_code.eq(core.error_code),
            self.error_index.eq(self.i.payload.index),
        ]  # fmt: skip
        slots = self._slots(m, core)
        queues, moved = {}, []
        pushed_to = self._pushes(m, core)
        half = Signal()  # half of the C scratchpad; flips after each tile's last store
        room = []
        for number, (engine, layout) in enumerate(ENGINES.items()):
            shape = descriptor_layout(layout)
            queue, offer = queues[engine] = RegisterSlice(shape), RegisterSlice(shape)
            connect(m, queue.o, offer.i)
            descriptor = Signal(shape, name=f"{engine}_descriptor")
            given = {"command": self.i.payload.index, "half": half}
            m.d.comb += [descriptor[bits.name].eq(given.get(bits.name, slot))
                         for bits, slot in zip(layout, slots, strict=False)]  # fmt: skip
            m.d.comb += [queue.i.payload.eq(descriptor), queue.i.valid.eq(pushed_to[number])]
            pushed = queue.i.valid & queue.i.ready
            if engine == "store":
                with m.If(pushed & descriptor.close):
                    m.d.sync += half.eq(~half)
            o = getattr(self, engine)
            connect(m, offer.o, flipped(o))
            room.append(queue.i.ready)
            moved.append(Cat(pushed, o.valid & o.ready))
        gate = clock_gate(m, platform, "queues", Cat(moved).any() | self.reset, hold=1, reset=False)
        for engine, slices in queues.items():
            for name, register in zip(("queue", "offer"), slices, strict=True):
                m.submodules[f"{engine}_{name}"] = gate(ResetInserter(self.reset)(register))
        offered, there_is_room = Signal(), Signal()
        # ``offered`` is a register, since all stages of the processor wait for it.
        m.d.comb += there_is_room.eq(Array(room)[core.engine])
        m.d.sync += offered.eq(core.push & there_is_room & ~pushed_to.any() & ~offered)
        waiting = core.push & ~offered & ~there_is_room
        m.d.comb += [
            core.push_ready.eq(offered),
            self.busy.eq((self.i.valid & ~waiting) | pushed_to.any() | Cat(moved).any()),
        ]
        return m

    def _pushes(self, m, core):
        """Engine whose descriptor is complete, as a bit, a cycle after the processor said so."""
        pushed_to = Signal(len(ENGINES))
        m.d.sync += pushed_to.eq(Mux(core.push & core.push_ready, 1 << core.engine, 0))
        return pushed_to

    def _slots(self, m, core):
        """The descriptor being built: slot i is field i of the engine that it is for, as wide as the widest."""
        slots = []
        # The processor clears all of them after a push and at reset, so they need no reset of their own.
        for i in range(N_SLOTS):
            width = max(layout[i].width for layout in ENGINES.values() if i < len(layout))
            slot = Signal(width, name=f"slot{i}", reset_less=True)
            with m.If(core.slots[i]):
                m.d.sync += slot.eq(core.value)
            slots.append(slot)
        return slots
