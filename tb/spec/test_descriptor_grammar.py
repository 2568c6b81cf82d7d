"""Descriptors of commands of any kind are as the formal jobs assume, and one that isn't is seen."""

from dataclasses import replace
from math import prod

import pytest
from adagp.golden.occupancy import Tile, misfit
from adagp.golden.validate import validate
from adagp.spec.commands import Command, Opcode
from adagp.spec.errors import ErrorCode
from adagp.spec.microcode.descriptors import ENGINES, Target, VectorMode
from adagp.spec.microcode.machine import Recorder, TileError, constants, descriptors, task
from adagp.spec.microcode.program import tile_program
from adagp.spec.opcodes import COMPUTE, GEMMS, POOLS
from adagp.spec.presets import PRESETS, preset
from amaranth.hdl import Fragment
from bench import seeded
from descriptor_grammar import RULES, Grammar
from formal.properties import JOBS
from robustness.spoil_commands import GEOMETRY, neighbours, spoilt

MEMORY = 1 << 15
N_PROGRAMS, N_SPOILT = 130, 12
MOST_TILES = 100
"""Commands of more tiles take too long."""


def legal(config, words):
    """The compute command that the words are, None if it is refused for its fields alone or goes on for too long."""
    try:
        command = Command.decode(words)
    except ValueError:
        return None
    if command.opcode not in COMPUTE or validate(command, config) != ErrorCode.NONE:
        return None
    return command if prod(Tile(command).counts) <= MOST_TILES else None


def test_rules_are_what_is_assumed():
    """Every rule is an assumption of a formal job, word for word."""
    assumed = set()
    jobs = (
        "fill", "lane_offsets", "pool", "depthwise", "compute", "drain", "drain_reorganise", "window_sums",
        "reorganise", "store", "block_offsets", "block_im2col",
    )  # fmt: skip
    for name in jobs:
        harness = JOBS[name].harness()
        Fragment.get(harness.m, None)  # Amaranth warns of what is never elaborated
        assumed |= harness.names
    assert set(RULES.values()) <= assumed


LAYER = {"n": 1, "c": 4, "h": 4, "w": 4, "oh": 4, "ow": 4, "q": 4, "r": 3, "s": 3, "stride": 1, "pad_y": 1, "pad_x": 1,
         "nb": 1, "yb": 4, "cb": 2, "qb": 4, "bias": 1, "c_mode": 1}  # fmt: skip
GEMM, POOL, WINDOWS = ({"mode": mode} for mode in (VectorMode.GEMM, VectorMode.MAX, VectorMode.DOT))
SUMMED, SUMS = ({"reorganise": 1, "vector": vector} for vector in range(2))
ELEMENT = dict.fromkeys(("n", "h", "w", "oh", "ow", "r", "s", "stride", "nb", "yb", "qb"), 1)
REORGANISE = ELEMENT | {"c": 16, "q": 16, "cb": 16, "opcode": Opcode.REORGANISE}


def reorganising(config, draw, layer):
    """A command whose results are summed up, with the geometry of ``layer``, and one that takes such sums out."""
    opcode = Opcode.FORWARD if layer.opcode in GEMMS else layer.opcode
    yield Command(opcode, layer.fields | {"reorganise": 1, "y_pitch": 0})
    n_sums = draw.choice((1, 4, 4 * config.n_filters, 4 * draw.randint(1, config.n_filters)))
    cb = draw.choice((n_sums, n_sums + 1, draw.randint(1, n_sums)))
    yield Command(Opcode.REORGANISE, layer.fields | ELEMENT | {
        "c": n_sums, "q": n_sums, "cb": cb, "pad_y": 0, "pad_x": 0, "reorganise": 0, "y_pitch": 0, "const_mantissa": 1,
        "const_exponent": -3,
    })  # fmt: skip


@pytest.mark.parametrize("rule, engine, which, change", [
    ("fill a", "fill", {"target": Target.A}, {"open": 0}),
    ("fill a", "fill", {"target": Target.A}, {"ready": 0}),
    ("fill b", "fill", {"target": Target.B}, {"open": 0}),
    ("fill b", "fill", {"target": Target.B}, {"ready": 0}),
    ("fill c", "fill", {"target": Target.BIAS}, {"open": 0}),
    ("fill c", "fill", {"target": Target.BIAS}, {"ready": 1}),
    ("fill c", "fill", {"target": Target.C}, {"open": 1}),
    ("walk", "compute", GEMM, {"n_k": 0}),
    ("walk", "compute", POOL, {"n_k": 0}),
    ("elements", "compute", GEMM, {"k1": 2}),
    ("sides", "compute", GEMM, {"n_b": 0}),
    ("blocks", "compute", GEMM, {"n_a": 15}),
    ("taps", "compute", POOL, {"n_a": 0}),
    ("windows", "compute", WINDOWS, {"task": 1}),
    ("windows", "compute", WINDOWS, {"n4": 2}),
    ("windows", "compute", WINDOWS, {"n5": 0}),
    ("windows", "compute", WINDOWS, {"n5": 17}),
    ("windows", "compute", WINDOWS, {"mode": VectorMode.DIGITS}),
    ("gemm", "compute", GEMM | {"first": 1}, {"first": 0}),
    ("gemm", "compute", GEMM | {"last": 0}, {"first": 0, "last": 1}),
    ("gemm", "compute", GEMM | {"first": 0}, {"first": 1}),
    ("drain", "drain", {"vector": 0}, {"n_out": 0}),
    ("drain", "drain", {"vector": 1}, {"n_in": 0}),
    ("drain", "drain", SUMS, {"n_out": 0}),
    ("sums", "drain", SUMS, {"n_in": 2}),
    ("sums", "drain", SUMS, {"idx": 4}),
    ("place", "drain", SUMS, {"at": 4 * preset("tiny").n_filters - 15}),
    ("place", "drain", SUMMED, {"at": 4 * preset("tiny").n_filters - 12}),
    ("lanes", "drain", SUMMED, {"lanes_last": 0}),
    ("store", "store", {"begin": 1}, {"begin": 0}),
    ("store", "store", {"close": 0}, {"close": 1}),
    ("store", "store", {"begin": 0}, {"begin": 1}),
])  # fmt: skip
def test_spoilt_descriptors(rule, engine, which, change):
    """One descriptor of a good stream that breaks a rule is seen, at the latest by the next of its kind."""
    config = replace(preset("tiny"), depthwise=True)
    opcodes = (Opcode.FORWARD, Opcode.MAXPOOL, Opcode.DEPTHWISE, Opcode.FORWARD)
    tasks = [task(LAYER | {"opcode": opcode, "reorganise": opcode == Opcode.FORWARD}) for opcode in opcodes]
    tasks.append(task(REORGANISE))
    issued = descriptors(tile_program, config, tasks)
    grammar = Grammar(config)
    for each, d in issued:
        grammar.take(each, d)
    assert grammar.taken.total() == len(issued) > 0
    spoilt_one = next(d for each, d in issued if each == engine and d | which == d)
    spoilt_one.update(change)
    grammar = Grammar(config)
    with pytest.raises(AssertionError, match=RULES[rule]):
        for each, d in issued:
            grammar.take(each, d)


@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
def test_malformed_commands(config):
    """Valid commands and spoilt ones that are legal, on one machine, which is reset when a tile doesn't fit."""
    draw = seeded(8)
    config = replace(config, variant="low")
    grammar, names = Grammar(config), constants(config)
    executed, refused = set(), 0
    for _ in range(N_PROGRAMS):
        program, (place, *_) = neighbours(config, draw, MEMORY)
        variants = [program[place], *(spoilt(config, program[place], draw) for _ in range(N_SPOILT))]
        valid = Command.decode(program[place])
        if valid.opcode in COMPUTE:
            for command in reorganising(config, draw, valid):
                words = command.encode()
                variants += [words, *(spoilt(config, words, draw) for _ in range(N_SPOILT // 4))]
        for command in filter(None, (legal(config, words) for words in variants)):
            machine = Recorder()
            try:
                tile_program(task({"opcode": command.opcode, **command.fields}), names, machine)
            except TileError:
                assert misfit(command, config)
                refused += 1
            for engine, d in machine.issued:
                grammar.take(engine, d)
            if misfit(command, config):
                grammar.reset()
            else:
                executed.add((command.opcode, command.swap, *(getattr(command, name) for name in GEOMETRY)))
    print(f"{len(executed)} layers, {refused} refused, {grammar.taken.total()} descriptors")
    assert len(executed) >= 2 * N_PROGRAMS
    assert {layer[:2] for layer in executed} == {(opcode, swap) for opcode in (*GEMMS, *POOLS) for swap in range(2)}
    assert set(grammar.checked) == set(RULES)
    assert set(grammar.taken) == set(ENGINES)
