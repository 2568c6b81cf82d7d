"""The register machine of the sequencer: runs microcode, one instruction a cycle, in four stages::

pc --> code memory --> register file --> operands --> execute
       fetched         read              x            (result forwarded to read)
"""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..spec.config import Config
from ..spec.descriptors import ENGINES
from ..spec.errors import ErrorCode
from ..spec.microcode import REGISTER_WIDTH, Op, Program
from ..spec.tile_machine import TASK_FIELDS
from .block_memory import BlockMemory
from .delay import delayed
from .interfaces import TaskLayout
from .sequencer_alu import SequencerAlu

__all__ = ["N_SLOTS", "SequencerCore"]

N_SLOTS = max(len(layout) for layout in ENGINES.values())
"""Fields of the longest descriptor."""


def _instruction_layout(program: Program) -> data.StructLayout:
    """The struct of an instruction in the code memory."""
    operand = range(max(len(program.registers), len(TASK_FIELDS), len(ErrorCode)))
    destination = range(max(len(program.instructions), len(program.registers), N_SLOTS))
    return data.StructLayout({"op": range(len(Op)), "to_slot": 1, "d": destination, "a": operand, "b": operand})


class SequencerCore(wiring.Component):
    """Runs ``program`` once for each ``task`` while ``run``; ``done`` in the last cycle of a run.

    ``slot_en``: field number ``slot`` of the descriptor is ``value``. ``push``: the descriptor is complete,
    for engine number ``engine``; the machine waits for ``push_ready``. ``error_valid`` pulses with an
    ErrorCode when the task can't run; the machine then stands still until reset.

    An instruction takes a cycle, some more (TAKEN_CYCLES and others of :mod:`adagp.spec.microcode`).
    ``task`` must hold while ``run``.
    """

    def __init__(self, config: Config, program: Program):
        self._config = config
        self._program = program
        super().__init__({
            "run": In(1), "task": In(TaskLayout), "done": Out(1),
            "slot_en": Out(1), "slot": Out(range(N_SLOTS)), "value": Out(signed(REGISTER_WIDTH)),
            "push": Out(1), "engine": Out(range(len(ENGINES))), "push_ready": In(1),
            "error_valid": Out(1), "error_code": Out(8),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.alu = alu = SequencerAlu(self._config, self._program.shifts)
        x = Signal(_instruction_layout(self._program))  # the instruction in execution
        x_valid, stall, flush = Signal(), Signal(), Signal()
        # Whether x counts: not behind a branch that was taken (``jumped``), not behind an error.
        x_live, jumped = Signal(name="x_live"), Signal(name="jumped")
        x_is = {op: Signal(name=f"x_is_{op.name.lower()}") for op in (Op.PUSH, Op.END, Op.FAIL)}  # known early
        running, stopped = Signal(), Signal()

        m.d.comb += [
            x_live.eq(x_valid & ~jumped & ~stopped), alu.en.eq(x_live), alu.op.eq(x.op), alu.distance.eq(x.b),
            self.value.eq(alu.result),
            self.push.eq(x_live & x_is[Op.PUSH]), self.engine.eq(x.a),
            self.slot_en.eq(x_live & x.to_slot & ~stall), self.slot.eq(x.d),
            self.done.eq(x_live & x_is[Op.END]),
            self.error_valid.eq(x_live & (x_is[Op.FAIL] | alu.overflow)),
            self.error_code.eq(Mux(alu.overflow, ErrorCode.BAD_GEOMETRY, x.a)),
            stall.eq((x_live & ~alu.done) | (self.push & ~self.push_ready)),
            flush.eq(jumped | stopped | ~running | self.done),
        ]  # fmt: skip
        m.d.sync += [
            running.eq((running | self.run) & ~(self.done | stopped)),
            stopped.eq(stopped | self.error_valid),
        ]
        self._pipeline(m, alu, x, x_is, x_valid, x_live, jumped, stall, flush, running)
        return m

    def _pipeline(self, m, alu, x, x_is, x_valid, x_live, jumped, stall, flush, running):
        """The stages before execution: fetch, register read with the executing result forwarded."""
        layout = x.shape()
        code = [layout.const(vars(i)) for i in self._program.instructions]
        m.submodules.code = code_memory = Memory(shape=layout, depth=len(code), init=code)
        read = Signal(layout)
        writes = delayed(m, (read.op < Op.BEQ) & ~read.to_slot, 1, ~stall)
        write = x_live & writes

        pc, address, target = (Signal(range(len(code)), name=name) for name in ("pc", "address", "target"))
        fetch = code_memory.read_port()
        fetched_valid, read_valid = Signal(), Signal()
        m.d.comb += [
            address.eq(Mux(jumped, target, pc)),
            fetch.addr.eq(address),
            fetch.en.eq(~stall),
        ]
        with m.If(~running):
            m.d.sync += [pc.eq(0), jumped.eq(0), fetched_valid.eq(0), read_valid.eq(0), x_valid.eq(0)]
        with m.Elif(~stall):
            m.d.sync += [
                pc.eq(address + 1), jumped.eq(alu.taken & x_live), target.eq(x.d), read.eq(fetch.data), x.eq(read),
                fetched_valid.eq(~self.done), read_valid.eq(fetched_valid & ~flush),
                x_valid.eq(read_valid & ~flush),
            ]  # fmt: skip
        with m.If(~stall):
            m.d.sync += [bit.eq(read.op == op) for op, bit in x_is.items()]
        self._load(m, alu, read.a, stall)
        written = delayed(m, self.value, 1, ~stall)
        for operand in ("a", "b"):
            m.submodules[f"registers_{operand}"] = registers = BlockMemory(
                signed(REGISTER_WIDTH), len(self._program.registers), init=self._program.registers
            )
            m.d.comb += [
                registers.r_addr.eq(fetch.data[operand]), registers.r_en.eq(~stall),
                registers.w_en.eq(write & ~stall), registers.w_addr.eq(x.d), registers.w_data.eq(self.value),
            ]  # fmt: skip
            just = delayed(m, read.d == fetch.data[operand], 1, ~stall)
            missed = delayed(m, write & (x.d == fetch.data[operand]), 1, ~stall)  # not what is written as it is read
            source = Signal(signed(REGISTER_WIDTH), name=f"read_{operand}")
            with m.If(write & just):
                m.d.comb += source.eq(self.value)
            with m.Elif(missed):
                m.d.comb += source.eq(written)
            with m.Else():
                m.d.comb += source.eq(registers.r_data)
            m.d.comb += getattr(alu, operand).eq(delayed(m, source, 1, ~stall))

    def _load(self, m, alu, number, stall):
        """The task's field ``number``, of those the program loads: chosen while that is read, there a cycle later."""
        fields = 0
        for index in self._program.fields:
            name = TASK_FIELDS[index]
            owner = self.task if name in self.task.shape().members else self.task.command
            fields |= Mux(delayed(m, number == index, 1, ~stall), owner[name], 0)
        m.d.comb += alu.loaded.eq(delayed(m, fields, 1))
