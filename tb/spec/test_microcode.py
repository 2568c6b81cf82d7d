"""The tile program compiled: its interpreter issues what the Python function issues."""

import random

import pytest
from adagp.spec.compiler import compile_program
from adagp.spec.microcode import interpret
from adagp.spec.presets import PRESETS
from adagp.spec.tile_machine import Recorder, descriptors
from adagp.spec.tiles import tile_program
from layers import random_layer


@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
def test_layers(config):
    rng = random.Random(5)
    program = compile_program(config)
    seen = 0
    for _ in range(40):
        t = random_layer(config, rng).task
        t.dry = rng.randrange(2)
        machine = Recorder()
        machine.index = t.index
        interpret(program, config, t, machine)
        assert machine.issued == descriptors(tile_program, config, [t])
        seen += len(machine.issued)
    assert seen > 400
