"""The microcode in Python pushes what its interpreter issues, and takes as many cycles."""

import random
from dataclasses import replace

import pytest
from adagp.host.estimate.sequencing import sequence
from adagp.spec.microcode.compiler import compile_program
from adagp.spec.microcode.isa import interpret
from adagp.spec.microcode.machine import Recorder, TileError
from adagp.spec.opcodes import DEPTHWISE, NORMS
from adagp.spec.presets import PRESETS, preset
from layers import random_layer
from norm_tasks import random_norm_task


def listed(machine):
    """The descriptors that the interpreter issued to its recorder, with the fields that aren't 0.

    Without those that the sequencer's hardware adds.
    """
    return [
        (engine, {name: value for name, value in fields.items() if value and name not in ("command", "half")})
        for engine, fields in machine.issued
    ]


@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
def test_random_tasks(config):
    print("seed 11")
    rng = random.Random(11)
    config = replace(config, depthwise=True, batch_norm=True, clamps=True, matmul=True, dropout=True)
    program, seen, opcodes = compile_program(config), 0, set()
    for opcode in [None] * 24 + list(DEPTHWISE) * 3 + list(NORMS) * 3:
        t = random_norm_task(config, rng, opcode) if opcode in NORMS else random_layer(config, rng, opcode).task
        machine = Recorder()
        cycles = interpret(program, config, t, machine)
        pushes, taken = sequence(config, t)
        assert [(push.engine, push.fields) for push in pushes] == listed(machine)
        assert taken == cycles
        places = [push.cycle for push in pushes]
        assert places == sorted(set(places)) and places[0] > 0 and places[-1] < cycles
        seen += len(pushes)
        opcodes.add(t.opcode)
    assert seen > 200 and len(opcodes) > 12


def test_a_task_that_cannot_run_is_refused():
    config = preset("tiny")
    t = random_layer(config, random.Random(3), None).task
    t.nb = 0
    with pytest.raises(TileError) as found:
        sequence(config, t)
    with pytest.raises(TileError) as expected:
        interpret(compile_program(config), config, t, Recorder())
    assert found.value.code == expected.value.code
