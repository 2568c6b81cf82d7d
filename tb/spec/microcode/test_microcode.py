"""The tile program compiled: its interpreter issues what the Python function issues."""

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
from adagp.spec.microcode.compiler import compile_program
from adagp.spec.microcode.isa import Op, interpret
from adagp.spec.microcode.machine import Recorder, descriptors, task
from adagp.spec.microcode.program import tile_program
from adagp.spec.microcode.shape import align, over
from adagp.spec.opcodes import DEPTHWISE, NORMS
from adagp.spec.presets import PRESETS, preset
from layers import random_layer
from norm_tasks import random_norm_task


@pytest.mark.parametrize("clamps", [False, True])
@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
def test_layers(config, clamps):
    rng = random.Random(5)
    config = replace(config, depthwise=True, batch_norm=True, clamps=clamps)
    program = compile_program(config)
    seen = 0
    for opcode in [None] * 40 + list(DEPTHWISE) * 10 + list(NORMS) * 10:
        t = random_norm_task(config, rng, opcode) if opcode in NORMS else random_layer(config, rng, opcode).task
        t.dry = rng.randrange(2)
        machine = Recorder()
        machine.index = t.index
        interpret(program, config, t, machine)
        assert machine.issued == descriptors(tile_program, config, [t])
        seen += len(machine.issued)
    assert seen > 400


def outside_loop(c, k, m):
    for _ in c.n:
        m.fail(k.BAD_TILE)


def outside_power(c, k, m):
    x = c.n % k.banks
    m.fill(length=x)


def shared(c, t):
    x = c.n + 1
    t.x = x * 3


def outside_step(c, k, m):
    t = SimpleNamespace()
    shared(t, c)
    m.fill(length=t.x)


def switched(c, k, m):
    if k.convolves_channels and c.n > 2:
        m.fail(k.BAD_TILE)
    elif not k.convolves_channels or c.n == 7:
        m.fill(length=c.h, vector=c.w if k.convolves_channels else 0)


def test_switches_leave_no_code():
    """Conditions that the configuration decides cost nothing where it decides against them."""
    without, both = (compile_program(replace(preset("tiny"), depthwise=on), switched) for on in (False, True))
    assert [step.op for step in without.instructions] == [Op.LOAD, Op.ADD, Op.PUSH, Op.END]
    assert len(both.instructions) > len(without.instructions)
    for config, program in ((preset("tiny"), without), (replace(preset("tiny"), depthwise=True), both)):
        for n in (1, 7):
            if n < 3 or not config.depthwise:
                machine = Recorder()
                interpret(program, config, task({"n": n, "h": 5, "w": 6}), machine)
                assert machine.issued == descriptors(switched, config, [task({"n": n, "h": 5, "w": 6})])


@pytest.mark.parametrize("function", [outside_loop, outside_power, outside_step])
def test_outside_the_subset(function):
    with pytest.raises(SyntaxError, match="outside the compiled subset"):
        compile_program(preset("tiny"), function)


def small(c, k, m):
    x = -1 if not (c.n > 2 and c.c <= 3) else c.n // 4 + c.c // 3
    while x < 3 or x == c.h:
        x = x + 1
    m.store(length=x * 3, n0=max(x, 2) * 2, n1=align(x, 2, k.banks))


@pytest.mark.parametrize("fields", [{"n": 1}, {"n": 9, "c": 3}, {"n": 9, "c": 4, "h": 3}, {"n": 20, "c": 3, "h": 6}])
def test_expressions(fields):
    config = preset("tiny")
    machine = Recorder()
    interpret(compile_program(config, small), config, task(fields), machine)
    assert machine.issued == descriptors(small, config, [task(fields)])


def stepped(c, k, m):
    t = SimpleNamespace()
    t.i = 0
    while t.i < c.n:
        shared(c, t)
        t.i = t.i + 1
    m.store(length=t.x, n0=c.c)


def test_steps():
    config, machine, fields = preset("tiny"), Recorder(), {"n": 3, "c": 7}
    interpret(compile_program(config, stepped), config, task(fields), machine)
    assert machine.issued == descriptors(stepped, config, [task(fields)])
    (issued,) = machine.issued
    assert (issued[1]["length"], issued[1]["n0"]) == (12, 7)


def looped(c, k, m):
    t = SimpleNamespace()
    t.ic = c.c
    t.n0 = 0
    t.n_t = c.n // 3
    t.i0 = 0
    t.i_t = 1
    t.final = 0
    while t.final == 0:
        m.store(length=t.n0, n0=t.i0)
        if over(c, t, "n", "i"):
            t.final = 1


def test_nested_loops():
    """Loops carry as digits do: the first named is the innermost; the last one ends them all."""
    config, machine, fields = preset("tiny"), Recorder(), {"n": 6, "c": 2}
    interpret(compile_program(config, looped), config, task(fields), machine)
    assert machine.issued == descriptors(looped, config, [task(fields)])
    places = [(issued["length"], issued["n0"]) for _, issued in machine.issued]
    assert places == [(0, 0), (2, 0), (4, 0), (0, 1), (2, 1), (4, 1)]


def negated(c, k, m):
    t = SimpleNamespace()
    t.n0 = 0
    t.n_t = c.n
    if not over(c, t, "n"):
        m.fail(k.BAD_TILE)


def test_loops_that_are_not_over_cannot_be_asked_for():
    with pytest.raises(SyntaxError, match="outside the compiled subset"):
        compile_program(preset("tiny"), negated)
