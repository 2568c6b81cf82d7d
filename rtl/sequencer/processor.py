"""The sequencer's register machine: runs microcode, one instruction a cycle, in five stages::

pc --> code memory --> register file --> operands --> execute --> write
       fetched         read              x            value

Results are registered before they are used. ``value``, and the result before it, are forwarded to the read stage. An
instruction that reads the result of the one before it gets it in stage x, and stays there a cycle longer.
"""

from functools import reduce
from operator import or_

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...spec.config import Config
from ...spec.errors import ErrorCode
from ...spec.microcode.descriptors import ENGINES
from ...spec.microcode.isa import PAIRS, REGISTER_WIDTH, Instruction, Op, Program
from ...spec.microcode.machine import TASK_FIELDS
from ..lib.block_memory import BlockMemory
from ..lib.delay import delayed, registered
from ..lib.interfaces import TaskLayout
from .alu import SequencerAlu

__all__ = ["N_SLOTS", "SequencerProcessor"]

N_SLOTS = max(len(layout) for layout in ENGINES.values())
"""Fields of the longest descriptor."""

FORWARDED = 3
"""Results that the register file doesn't have yet when an instruction reads it."""

FIELD_GROUP = 8
"""Fields of a task from which LOAD chooses one in a cycle."""


def _instruction_layout(program: Program) -> data.StructLayout:
    """Struct of an instruction in the code memory."""
    operand = range(max(len(program.registers), len(TASK_FIELDS), len(ErrorCode)))
    destination = range(max(len(program.instructions), len(program.registers), N_SLOTS))
    return data.StructLayout({
        "op": range(len(Op)), "to_slot": 1, "d": destination, "a": operand, "b": operand,
        "from_a": range(FORWARDED + 1), "from_b": range(FORWARDED + 1),
    })  # fmt: skip


def _code(program: Program) -> list[dict]:
    """Words of the code memory, as initial values of the layout: the program, and ENDs at all other addresses.

    Fetching runs ahead of execution, past the program's end, and goes anywhere after an error.
    """
    every = [*[Instruction(Op.END)] * FORWARDED, *program.instructions]

    def written_by(operand, place):
        """Distance to the instruction before ``place`` whose result it reads, up to FORWARDED; 0 if there is none.

        An instruction reached by a branch may be counted, since after a branch none of those before it is alive.
        """
        before = range(1, FORWARDED + 1)
        at = place + FORWARDED
        return next((n for n in before if every[at].reads(operand, every[at - n])), 0)

    words = [
        {**vars(i), "from_a": written_by("a", place), "from_b": written_by("b", place)}
        for place, i in enumerate(program.instructions)
    ]
    for word in words:
        if word["op"] == Op.LOAD:  # a field's place in its group, and its group; for a short path
            group, place = divmod(program.fields.index(word["a"]), FIELD_GROUP)
            word |= {"a": place, "b": 1 << group}
    return words + [vars(Instruction(Op.END))] * ((1 << (len(words) - 1).bit_length()) - len(words))


class SequencerProcessor(wiring.Component):
    """Runs ``program`` once for each task while ``run``.

    A product outside its limits is known two cycles later, in time to void the PUSH after it, but not an END. In
    ``program`` an END comes only after branches.

    Parameters
    ----------
    program
        the microcode

    Members
    -------
    run : In(1)
        there is a task
    task : In(TaskLayout)
        the task; holds while ``run``
    done : Out(1)
        in the last cycle of a run
    slots : Out(N_SLOTS, init=-1)
        fields of the descriptor that become ``value``
    value : Out(signed(REGISTER_WIDTH))
        result of an instruction; 0 a cycle after ``push`` and ``push_ready``, and at reset, when all fields take it
    push, engine : Out
        the descriptor is complete, for engine number ``engine``
    push_ready : In(1)
        it is taken, from the second cycle of ``push`` on; the machine waits for it
    error_valid, error_code : Out
        pulses with an ErrorCode if the task can't run; the machine then stands still until reset

    Timing
    ------
    An instruction takes a cycle, some more: TAKEN_CYCLES and others of :mod:`adagp.spec.microcode.isa`.
    """

    def __init__(self, config: Config, program: Program):
        self._config = config
        self._program = program
        super().__init__({
            "run": In(1), "task": In(TaskLayout), "done": Out(1),
            "slots": Out(N_SLOTS, init=-1), "value": Out(signed(REGISTER_WIDTH)),
            "push": Out(1), "engine": Out(range(len(ENGINES))), "push_ready": In(1),
            "error_valid": Out(1), "error_code": Out(8),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.alu = alu = SequencerAlu(self._config, self._program.shifts)
        x = Signal(_instruction_layout(self._program), reset_less=True)  # the instruction in execution
        # ``x_live``: it counts. ``void``: it doesn't, after an error or a branch. ``last``: this is its last cycle,
        # unless it is a PUSH.
        x_valid, x_live, void, last, stall = (
            Signal(name=name) for name in ("x_valid", "x_live", "void", "last", "stall")
        )  # fmt: skip
        x_is = {op: Signal(name=f"x_is_{op.name.lower()}") for op in (Op.PUSH, Op.END, Op.FAIL, Op.MUL)}  # known early
        x_slots = Signal(N_SLOTS, name="x_slots", reset_less=True)  # the field that takes its result
        running, stopped = Signal(name="running"), Signal(name="stopped")
        # There was a product a cycle ago; there was one two cycles ago that broke its limits.
        multiplied, broken = Signal(), Signal(name="broken")
        failing = Signal()

        m.d.comb += [
            x_live.eq(x_valid & ~void), stall.eq(x_valid & ~void & ~last & ~self.push_ready),
            alu.op.eq(x.op), alu.distance.eq(x.b),
            self.push.eq(x_live & x_is[Op.PUSH] & ~broken), self.engine.eq(x.a),
            self.done.eq(x_live & x_is[Op.END] & last),
            failing.eq((broken | (x_live & x_is[Op.FAIL] & last)) & ~stopped),
        ]  # fmt: skip
        m.d.sync += [
            self.slots.eq(Mux(x_live & last, x_slots, 0) | (self.push & self.push_ready).replicate(N_SLOTS)),
            multiplied.eq(x_live & x_is[Op.MUL] & last),
            broken.eq(multiplied & alu.overflow),
            running.eq((running | self.run) & ~(self.done | stopped)),
            stopped.eq(stopped | failing), self.error_valid.eq(failing),
        ]  # fmt: skip
        registered(m, self.error_code, Mux(broken, ErrorCode.BAD_GEOMETRY, x.a))
        fetched, read = self._fetch(m, alu, x, x_is, x_valid, x_live, void, stall, running)
        with m.If(failing):
            m.d.sync += void.eq(1)
        with m.If(~stall):
            m.d.sync += x_slots.eq(Mux(read.to_slot, 1 << read.d, 0))
        self._last(m, alu, x_is, x_live, read, last, stall)
        self._load(m, alu, read, stall)
        self._operands(m, alu, x, x_live, fetched, read, stall)
        return m

    def _fetch(self, m, alu, x, x_is, x_valid, x_live, void, stall, running):
        """Lead instructions to execution. Returns the words that the code memory reads, and those in the read stage."""
        layout = x.shape()
        code = [layout.const(word) for word in _code(self._program)]
        m.submodules.code = code_memory = Memory(shape=layout, depth=len(code), init=code)
        read = Signal(layout, reset_less=True)
        pc, address, target = (Signal(range(len(code)), name=name) for name in ("pc", "address", "target"))
        fetch = code_memory.read_port()
        fetched_valid, read_valid, flush = Signal(), Signal(), Signal()
        m.d.comb += [
            flush.eq(void | ~running | self.done),
            address.eq(Mux(void, target, pc)), fetch.addr.eq(address), fetch.en.eq(~stall),
        ]  # fmt: skip
        with m.If(~running):
            m.d.sync += [pc.eq(0), void.eq(0), fetched_valid.eq(0), read_valid.eq(0), x_valid.eq(0)]
        with m.Elif(~stall):
            m.d.sync += [
                pc.eq(address + 1), void.eq(alu.taken & x_live), target.eq(x.d), fetched_valid.eq(~self.done),
                read_valid.eq(fetched_valid & ~flush), x_valid.eq(read_valid & ~flush),
            ]  # fmt: skip
        with m.If(~stall):
            m.d.sync += [read.eq(fetch.data), x.eq(read), *(bit.eq(read.op == op) for op, bit in x_is.items())]
        return fetch.data, read

    def _last(self, m, alu, x_is, x_live, read, last, stall):
        """Tell, a cycle before, that an instruction has a late operand, and that it is in its last cycle."""
        single = Signal()
        m.d.comb += single.eq(~read.op.matches(*PAIRS, Op.LOAD, Op.DIV, Op.PUSH))
        x_single = delayed(m, single, 1, ~stall, reset=False)
        late = Signal()
        waits = x_live & ((read.from_a == 1) | (read.from_b == 1))
        m.d.comb += alu.en.eq(stall & ~late)
        m.d.sync += late.eq(waits & ~stall)
        with m.If(~stall):
            m.d.sync += last.eq(single & ~waits)
        with m.Elif(late):
            m.d.sync += last.eq(x_single)
        with m.Else():
            m.d.sync += last.eq(alu.nearly & ~x_is[Op.PUSH])

    def _operands(self, m, alu, x, x_live, fetched, read, stall):
        """Read the register file, forward results that it doesn't have yet, and write it."""
        number = x.d[: (len(self._program.registers) - 1).bit_length()]
        writes = delayed(m, (read.op < Op.BEQ) & ~read.to_slot, 1, ~stall, reset=False)
        write = delayed(m, x_live & writes, 1, ~stall)
        to = delayed(m, number, 1, ~stall, reset=False)
        m.d.comb += self.value.eq(delayed(m, alu.result, 1, ~stall))
        older = delayed(m, self.value, 1, ~stall, reset=False)
        for operand in ("a", "b"):
            m.submodules[f"registers_{operand}"] = registers = BlockMemory(
                signed(REGISTER_WIDTH), len(self._program.registers), init=self._program.registers
            )
            m.d.comb += [
                registers.r_addr.eq(fetched[operand]), registers.r_en.eq(~stall),
                registers.w_en.eq(write), registers.w_addr.eq(to), registers.w_data.eq(self.value),
            ]  # fmt: skip
            before = fetched[f"from_{operand}"]
            near = delayed(m, x_live & (before == 2), 1, ~stall)
            missed = delayed(m, write & (before == 3), 1, ~stall)  # written in the cycle it was read
            late = delayed(m, x_live & (read[f"from_{operand}"] == 1) & ~stall, 1)  # it comes in the first cycle of x
            source = Mux(near, self.value, Mux(missed, older, registers.r_data))
            registered(m, getattr(alu, operand), Mux(late, self.value, source), ~stall | late)

    def _load(self, m, alu, read, stall):
        """Choose the task's field to load, in three steps: its place, a field of each group, one of all groups."""
        groups = []
        for first in range(0, len(self._program.fields), FIELD_GROUP):
            fields = 0
            for place, index in enumerate(self._program.fields[first : first + FIELD_GROUP]):
                meant = read.b[first // FIELD_GROUP] & (read.a[: exact_log2(FIELD_GROUP)] == place)
                name = TASK_FIELDS[index]
                owner = self.task if name in self.task.shape().members else self.task.command
                fields |= Mux(delayed(m, meant, 1, ~stall), owner[name], 0)
            groups.append(delayed(m, fields, 1, reset=False))
        m.d.comb += alu.loaded.eq(delayed(m, reduce(or_, groups), 1, reset=False))
