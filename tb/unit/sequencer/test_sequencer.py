"""The sequencer against the tile program run as Python, with stalls on all streams."""

from itertools import pairwise

import pytest
from adagp.rtl.lib.interfaces import TaskLayout
from adagp.rtl.sequencer.sequencer import Sequencer
from adagp.spec.commands import FIELDS, Opcode
from adagp.spec.errors import ErrorCode
from adagp.spec.microcode.compiler import compile_program
from adagp.spec.microcode.descriptors import ENGINES
from adagp.spec.microcode.isa import Op, interpret
from adagp.spec.microcode.machine import Recorder, descriptors, task
from adagp.spec.microcode.program import tile_program
from adagp.spec.presets import PRESETS, preset
from amaranth.hdl import ResetInserter, Signal
from bench import seeded, simulate, sink, source
from descriptor_grammar import Grammar
from layers import random_layer


def payload(t):
    """A task as the port's payload."""
    names = [name for name in TaskLayout.members if name != "command"]
    return {"command": {field.name: getattr(t, field.name) for field in FIELDS}} | {n: getattr(t, n) for n in names}


def run(config, rng, tasks, stall):
    """Descriptors of each engine as the device issues them; the number must be as expected."""
    dut = Sequencer(config)
    expected = {name: [] for name in ENGINES}
    for engine, fields in descriptors(tile_program, config, tasks):
        expected[engine].append(fields)
    seen = {}

    def taker(name):
        async def bench(ctx):
            taken = await sink(ctx, getattr(dut, name), len(expected[name]), rng, stall)
            seen[name] = [{bits.name: getattr(d, bits.name) for bits in ENGINES[name]} for d in taken]

        return bench

    async def giver(ctx):
        await source(ctx, dut.i, [payload(t) for t in tasks], rng, stall)

    cycles = 3000 * len(tasks) + 3000 * len(expected["compute"])
    simulate(dut, giver, *(taker(name) for name in ENGINES), limit=cycles)
    grammar = Grammar(config)
    for name in ENGINES:
        for got, want in zip(seen[name], expected[name], strict=True):
            wrong = {field: (got[field], want[field]) for field in got if got[field] != want[field]}
            assert not wrong, f"{name}: (got, want) {wrong}"
            grammar.take(name, got)
    assert grammar.taken.total() == sum(map(len, seen.values()))
    return sum(map(len, seen.values())), sum(map(len, expected.values()))


def small_task(config, rng, opcode, max_tiles=2):
    """A random task of at most ``max_tiles`` tiles."""
    while True:
        t = random_layer(config, rng, opcode, limit=200).task
        if sum(engine == "compute" for engine, _ in descriptors(tile_program, config, [t])) <= max_tiles:
            return t


@pytest.mark.parametrize(
    ("name", "stall", "opcodes"), [("tiny", 0.5, (3, 4, 15)), ("ecp5", 0.95, (2, 5)), ("paper", 0.0, (1, 16))]
)
def test_descriptors(name, stall, opcodes):
    rng = seeded(3)
    config = preset(name)
    tasks = [small_task(config, rng, Opcode(opcode)) for opcode in opcodes]
    seen, expected = run(config, rng, tasks, stall)
    assert seen == expected > 0


def test_cycles():
    """While no engine holds it up, a task takes exactly the cycles the microcode's interpreter counts."""
    rng = seeded(6)
    config = preset("tiny")
    dut = Sequencer(config)
    tasks = [small_task(config, rng, Opcode.BACKWARD_DATA) for _ in range(2)]
    taken = []

    async def bench(ctx):
        for name in ENGINES:
            ctx.set(getattr(dut, name).ready, 1)
        for t in tasks:
            ctx.set(dut.i.payload, payload(t))
            ctx.set(dut.i.valid, 1)
            cycles = 1
            while not ctx.get(dut.i.ready):
                await ctx.tick()
                cycles += 1
            taken.append(cycles)
            await ctx.tick()

    simulate(dut, bench)
    assert taken == [interpret(dut.program, config, t, Recorder()) for t in tasks]
    assert taken


@pytest.mark.parametrize("name", PRESETS)
def test_end_behind_a_branch(name):
    """Behind a product the core would take it before it knows whether that breaks its limits."""
    code = compile_program(preset(name)).instructions
    assert code[-1].op == Op.END
    assert all(Op.BEQ <= before.op <= Op.BGE for before, i in pairwise(code) if i.op == Op.END)


FAILURES = [
    ({"n": 0}, ErrorCode.BAD_GEOMETRY), ({"oh": 0}, ErrorCode.BAD_GEOMETRY), ({"pad_y": 3}, ErrorCode.BAD_GEOMETRY),
    ({"oh": 9}, ErrorCode.BAD_GEOMETRY), ({"qb": 0}, ErrorCode.BAD_TILE),
    # A product overflows:
    ({"opcode": Opcode.BACKWARD_WEIGHT, "n": 65535, "h": 65535, "oh": 65535}, ErrorCode.BAD_GEOMETRY),
    ({"c": 65535}, ErrorCode.ACC_OVERFLOW),
    ({"c": 3000, "cb": 3000}, ErrorCode.A_OVERFLOW), ({"q": 600, "qb": 600, "n": 1}, ErrorCode.B_OVERFLOW),
]  # fmt: skip


def test_failures():
    """Each bad task stops the sequencer with its code and index, nothing is issued, a reset helps."""
    rng = seeded(4)
    config = preset("tiny")
    good = {"opcode": Opcode.FORWARD, "n": 2, "c": 4, "h": 8, "w": 8, "oh": 8, "ow": 8, "q": 4, "r": 3, "s": 3,
            "stride": 1, "pad_y": 1, "pad_x": 1, "nb": 1, "yb": 2, "cb": 4, "qb": 4}  # fmt: skip
    dut = Sequencer(config)
    reset = Signal()
    seen = 0

    async def bench(ctx):
        nonlocal seen
        for change, code in FAILURES:
            index = rng.getrandbits(16)
            ctx.set(dut.i.payload, payload(task(good | change, index=index)))
            ctx.set(dut.i.valid, 1)
            cycles = 0
            while not ctx.get(dut.error_valid):
                assert not ctx.get(dut.i.ready)
                await ctx.tick()
                cycles += 1
                assert cycles < 2000, change
            assert (ctx.get(dut.error_code), ctx.get(dut.error_index)) == (code, index), change
            for _ in range(20):
                await ctx.tick()
                assert not ctx.get(dut.error_valid) and not ctx.get(dut.i.ready)
            seen += 1
            ctx.set(dut.i.valid, 0)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)
            await ctx.tick()

    simulate(ResetInserter(reset)(dut), bench)
    assert seen == len(FAILURES) > 0


def test_reset_clears_slots():
    """A descriptor begun before a reset leaves nothing in the one after it, whose fields that are 0 nobody writes."""
    rng = seeded(8)
    config = preset("tiny")
    first, second = (small_task(config, rng, opcode, 1) for opcode in (Opcode.FORWARD, Opcode.MAXPOOL))
    want = next(fields for engine, fields in descriptors(tile_program, config, [second]) if engine == "fill")
    dut = Sequencer(config)
    reset = Signal()
    seen = 0

    async def bench(ctx):
        nonlocal seen
        for cycles in range(300, 900, 40):  # of these some are amid a descriptor
            for t, limit in ((first, cycles), (second, 3000)):
                ctx.set(dut.i.payload, payload(t))
                ctx.set(dut.i.valid, 1)
                for _ in range(limit):
                    await ctx.tick()
                    if t is second and ctx.get(dut.fill.valid):
                        break
                else:
                    assert t is first
                if t is second:
                    got = ctx.get(dut.fill.payload)
                    assert {name: getattr(got, name) for name in want} == want
                    seen += 1
                ctx.set(dut.i.valid, 0)
                ctx.set(reset, 1)
                await ctx.tick()
                ctx.set(reset, 0)

    simulate(ResetInserter(reset)(dut), bench)
    assert seen > 0
