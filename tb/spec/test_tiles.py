"""The tile program against torch: random layers and tiles, run by a plain model of the engines."""

import random

import numpy as np
import pytest
from adagp.spec.commands import Opcode
from adagp.spec.presets import PRESETS, preset
from adagp.spec.tile_machine import descriptors
from adagp.spec.tiles import tile_program
from emulator import Emulator
from hypothesis import given, settings
from hypothesis import strategies as st
from layers import UNWRITTEN, random_layer

COMPUTE_OPCODES = [opcode for opcode in Opcode if Opcode.FORWARD <= opcode <= Opcode.AVGPOOL_BACKWARD]


def check(config, rng, layers):
    """Run ``layers`` as one queue of commands on one machine and compare all memory and results."""
    size = config.operand_bytes
    memory = np.full(200_000, UNWRITTEN, np.int64)
    expected = memory.copy()
    for layer in layers:
        for address, values in layer.operands.items():
            memory[address // size : address // size + len(values)] = values
        for address, values in {**layer.operands, **layer.expected}.items():
            expected[address // size : address // size + len(values)] = values
    engines = Emulator(config, memory, rng)
    engines.run(descriptors(tile_program, config, [layer.task for layer in layers]))
    wrong = np.flatnonzero(memory != expected)
    assert wrong.size == 0, f"{wrong.size} operands differ, first at {wrong[0] * size:#x}: {vars(layers[0].task)}"
    assert engines.done == len(layers)
    assert engines.saturations == sum(layer.saturations for layer in layers)
    tops = {}
    for layer in layers:
        if layer.task.track:
            t = [top for top in (tops.get(layer.task.out_id), layer.top) if top is not None]
            tops[layer.task.out_id] = max(t, default=None)
    assert engines.results == tops
    assert engines.tokens == {"a_free": 2 - (engines.held["a"] >= 0), "b_free": 2 - (engines.held["b"] >= 0),
                              "a_full": 0, "b_full": 0, "acc_free": 2, "acc_full": 0, "c_free": 2, "c_ready": 0,
                              "drained": 0}  # fmt: skip
    return len(layers)


@pytest.mark.parametrize("opcode", COMPUTE_OPCODES, ids=lambda opcode: opcode.name)
@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
def test_layer(config, opcode):
    rng = random.Random(f"{config.name} {opcode.name}")
    seen = sum(check(config, rng, [random_layer(config, rng, opcode)]) for _ in range(12))
    assert seen == 12


@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
def test_queue_of_layers(config):
    rng = random.Random(7)
    for _ in range(6):
        layers = [random_layer(config, rng, base=20_000 * i, limit=300) for i in range(4)]
        assert check(config, rng, layers) == 4


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(sorted(PRESETS)))
def test_any_layer(seed, name):
    rng = random.Random(seed)
    assert check(preset(name), rng, [random_layer(preset(name), rng)]) == 1
