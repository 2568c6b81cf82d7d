"""The sequencer's register machine on programs of its own: what results are forwarded to, and products that fail."""

import re
from types import SimpleNamespace

import pytest
from adagp.rtl.sequencer.processor import N_SLOTS, SequencerProcessor
from adagp.spec.errors import ErrorCode
from adagp.spec.microcode.compiler import compile_program
from adagp.spec.microcode.descriptors import ENGINES
from adagp.spec.microcode.isa import Instruction, Op, Program, interpret
from adagp.spec.microcode.machine import TASK_FIELDS
from adagp.spec.presets import PRESETS, preset
from amaranth.back import rtlil
from bench import seeded, simulate

CONFIG = preset("tiny")
FIELD = 3  # of the task: 0, as the bench leaves it
N = 5  # registers in use
LENGTH = 60
OPS = (Op.ADD, Op.SUB, Op.ADD, Op.SUB, Op.MIN, Op.MAX, Op.ALIGN, Op.SHIFT, Op.LOAD, Op.MUL, Op.DIV, Op.BLT, Op.BNE)

ALL_SLOTS = (1 << N_SLOTS) - 1


def run(program, limit):
    """({slot: value} that is pushed or None, error codes, cycles until done or None)."""
    dut = SequencerProcessor(CONFIG, program)
    slots, codes, cycles, pushed = {}, [], None, None

    async def bench(ctx):
        nonlocal cycles, pushed
        ctx.set(dut.run, 1)
        pushing = False
        for cycle in range(1, limit):
            ctx.set(dut.push_ready, pushing)
            chosen, value = ctx.get(dut.slots), ctx.get(dut.value)
            if chosen == ALL_SLOTS:  # before the program, and behind a push
                assert cycle == 1 or pushed is not None
                assert value == 0
                slots.clear()
            elif chosen:
                slots[chosen.bit_length() - 1] = value
                assert chosen.bit_count() == 1
            if ctx.get(dut.error_valid):
                codes.append(ctx.get(dut.error_code))
            if pushing and ctx.get(dut.push):
                pushed = dict(slots)
            pushing = bool(ctx.get(dut.push)) and not pushing
            if ctx.get(dut.done):
                cycles = cycle
                break
            await ctx.tick()

    simulate(dut, bench, limit=2 * limit)
    return pushed, codes, cycles


def end(code):
    """With all registers pushed at the end."""
    code += [Instruction(Op.ADD, i, i + 1, 0, to_slot=True) for i in range(N)] + [Instruction(Op.PUSH)]
    return [*code, Instruction(Op.BEQ, len(code) + 1), Instruction(Op.END)]


def some(rng, at):
    """A random instruction at address ``at``."""
    op = rng.choice(OPS)
    a, b = rng.randint(1, N), rng.randint(1, N)
    if op in (Op.BLT, Op.BNE):
        return Instruction(op, min(at + rng.randint(1, 3), LENGTH), a, b)
    if op in (Op.MUL, Op.DIV):  # 7 by 7: neither too large nor negative
        a = b = N + 1
    return Instruction(op, rng.randint(1, N), FIELD if op == Op.LOAD else a, 1 if op == Op.SHIFT else b)


def test_random_programs():
    """Results reach whoever reads them, however far behind, in the cycles that the interpreter counts."""
    rng = seeded(21)
    seen = 0
    for _ in range(12):
        code = end([some(rng, at) for at in range(LENGTH)])
        program = Program(code, [0, *(rng.getrandbits(rng.randint(1, 20)) for _ in range(N)), 7])
        expected = {}
        names = {bits.name: slot for slot, bits in enumerate(ENGINES["fill"])}
        task = SimpleNamespace(**dict.fromkeys(TASK_FIELDS, 0))
        machine = SimpleNamespace(fill=lambda names=names, into=expected, **fields: into.update(
            {names[name]: value for name, value in fields.items()}))  # fmt: skip
        cycles = interpret(program, CONFIG, task, machine)
        assert run(program, 2 * cycles) == (expected, [], cycles)
        seen += len(expected)
    assert seen == 12 * N


def test_product_that_fails():
    """Nothing is pushed behind it, and the error comes once."""
    product = Instruction(Op.MUL, 3, 1, 2)
    for products in range(1, 4):
        code = end([Instruction(Op.LOAD, 3, FIELD), *[product] * products, Instruction(Op.PUSH)])
        assert run(Program(code, [0, 1 << 20, 1 << 12, 0, 0, 0]), 60) == (None, [ErrorCode.BAD_GEOMETRY], None)


@pytest.mark.parametrize("name", PRESETS)
def test_every_address_has_a_word(name):
    """So that nothing is read past the memory's last word, wherever the program counter goes."""
    text = rtlil.convert(SequencerProcessor(preset(name), compile_program(preset(name))))
    (size,) = re.findall(r"memory width \d+ size (\d+) \\code\n", text)
    address_bits = set(re.findall(r'parameter \\MEMID "\\\\code"\n\s*parameter \\ABITS (\d+)\n', text))
    assert 1 << max(map(int, address_bits)) == int(size)  # those of the initial values are 0
