"""The tile program against torch: random layers and tiles, run by a plain model of the engines."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from adagp.golden.validate import validate
from adagp.spec.commands import CMode, Command, Opcode
from adagp.spec.errors import ErrorCode
from adagp.spec.microcode.machine import TileError, descriptors, task
from adagp.spec.microcode.program import tile_program
from adagp.spec.opcodes import DEPTHWISE, GEMMS
from adagp.spec.presets import PRESETS, preset
from engine_model import Emulator
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_sums import accumulate
from layers import LAYERS, UNWRITTEN, random_layer


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
    issued = descriptors(tile_program, config, [layer.task for layer in layers])
    engines.run(issued)
    assert engines.grammar.taken.total() == len(issued) > 0
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


@pytest.mark.parametrize("opcode", LAYERS, ids=lambda opcode: opcode.name)
@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
def test_layer(config, opcode):
    rng = random.Random(f"{config.name} {opcode.name}")
    seen = sum(check(config, rng, [random_layer(config, rng, opcode)]) for _ in range(12))
    assert seen == 12


@pytest.mark.parametrize("opcode", DEPTHWISE, ids=lambda opcode: opcode.name)
@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
def test_depthwise_layer(config, opcode):
    config = replace(config, depthwise=True)
    rng = random.Random(f"{config.name} {opcode.name}")
    seen = sum(check(config, rng, [random_layer(config, rng, opcode)]) for _ in range(20))
    layers = [
        random_layer(config, rng, each, base=20_000 * i, limit=300)
        for i, each in enumerate((opcode, Opcode.FORWARD, opcode))
    ]
    assert seen + check(config, rng, layers) == 23


@pytest.mark.parametrize("opcode", GEMMS, ids=lambda opcode: opcode.name)
@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
def test_filters_apart(config, opcode):
    """About half of the commands have filters with a pitch of their own, which hold no biases."""
    config = replace(config, matmul=True)
    rng = random.Random(f"apart {config.name} {opcode.name}")
    layers = [random_layer(config, rng, opcode) for _ in range(16)]
    assert sum(check(config, rng, [layer]) for layer in layers) == 16
    pitches = [layer.task.d_pitch for layer in layers if layer.task.c_mode != CMode.ADD_MASK]
    assert 0 in pitches and len(set(pitches)) > 3


def test_pitches_of_filters_are_no_pitches_of_results():
    """Filters may be nearer to each other than a result has channels, and so far apart that its pixels couldn't be."""
    config = replace(preset("tiny"), matmul=True)
    sizes = dict.fromkeys(("n", "w", "ow", "r", "s", "stride", "nb"), 1)
    tall = {**sizes, "opcode": Opcode.FORWARD, "h": 64, "oh": 64, "yb": 64, "c": 3, "cb": 3}
    for more in ({"q": 9, "qb": 9, "d_pitch": 3}, {"q": 1, "qb": 1, "d_pitch": (1 << 24) - 1}):
        fields = {**tall, **more}
        assert validate(Command(Opcode.FORWARD, {**fields, "phase_mask": 15}), config) == ErrorCode.NONE
        assert len(descriptors(tile_program, config, [task(fields)])) > 0
        for wrong in ({"c_mode": CMode.ADD_MASK}, {"bias": 1}, {"c": 20, "q": 40, "d_pitch": 19}):
            spoiled = {**fields, **wrong}
            assert validate(Command(Opcode.FORWARD, {**spoiled, "phase_mask": 15}), config) == ErrorCode.BAD_GEOMETRY
            with pytest.raises(TileError, match="BAD_GEOMETRY"):
                descriptors(tile_program, config, [task(spoiled)])


@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
def test_queue_of_layers(config):
    rng = random.Random(7)
    for _ in range(6):
        layers = [random_layer(config, rng, base=20_000 * i, limit=300) for i in range(4)]
        assert check(config, rng, layers) == 4


@pytest.mark.parametrize("opcode", LAYERS, ids=lambda opcode: opcode.name)
def test_layer_with_bound_and_slope(opcode):
    config, rng = replace(preset("tiny"), clamps=True), random.Random(opcode.name)
    assert sum(check(config, rng, [random_layer(config, rng, opcode)]) for _ in range(20)) == 20


@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
def test_layer_with_dropout(config):
    """Whatever its tiles, however wide the vectors are; a tile whose pixels don't follow each other is refused."""
    config, rng = replace(config, dropout=True), random.Random(f"{config.name} dropout")
    layers = [random_layer(config, rng, Opcode.AVGPOOL, limit=400) for _ in range(30)]
    assert sum(check(config, rng, [layer]) for layer in layers) == 30
    assert 10 < sum(layer.task.momentum > 0 for layer in layers) < 30
    bad = {**FIT, "opcode": Opcode.AVGPOOL, "bias": 0, "momentum": 1, "nb": 2}
    with pytest.raises(TileError) as failed:
        descriptors(tile_program, config, [task(bad)])
    assert failed.value.code == ErrorCode.BAD_TILE
    assert descriptors(tile_program, config, [task({**bad, "yb": 8, "cb": 1})])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(sorted(PRESETS)))
def test_any_layer(seed, name):
    rng = random.Random(seed)
    assert check(preset(name), rng, [random_layer(preset(name), rng)]) == 1


NARROW = replace(preset("tiny"), name="narrow", acc_width=41)


@pytest.mark.parametrize("config", [*PRESETS.values(), NARROW], ids=lambda config: config.name)
@pytest.mark.parametrize("opcode", [Opcode.FORWARD, Opcode.BACKWARD_WEIGHT], ids=lambda opcode: opcode.name)
def test_dry_runs_with_small_operands(config, opcode):
    """They report a maximum that is the true one to half a per cent, however small operand A is beside a bias."""
    rng = random.Random(f"{config.name} {opcode.name} small")
    exact = 0
    for exp_a in (*range(-12, -40, -1), -100):
        run = {"dry": 1, "exp_a": exp_a, "exp_b": -10}
        layer = random_layer(config, rng, opcode, run=run, bias=1, relu=0, c_mode=0, track=1, x_pitch=0, y_pitch=0)
        assert check(config, rng, [layer]) == 1
        largest = largest_result(layer)
        low, high = (math.frexp(float(largest) * factor)[1] for factor in (0.995, 1.005))
        assert low <= layer.top <= high, (exp_a, layer.task)
        exact += low == high
    assert exact > 20


def largest_result(layer):
    """Largest magnitude of a FORWARD's or BACKWARD_WEIGHT's result, in float64."""
    t = layer.task
    acc, exponent, _ = accumulate(t, *(layer.operands[address] for address in (t.a_addr, t.b_addr)))
    result = acc.astype(float) * 2.0**exponent
    if t.opcode == Opcode.FORWARD:
        result += layer.operands[t.b_addr].reshape(t.q, -1)[:, -1] * 2.0**t.exp_b
    return np.abs(result).max()


FIT = {"opcode": Opcode.FORWARD, "n": 2, "c": 4, "h": 8, "w": 8, "oh": 8, "ow": 8, "q": 4, "r": 3, "s": 3,
       "stride": 1, "pad_y": 1, "pad_x": 1, "nb": 1, "yb": 2, "cb": 4, "qb": 4, "bias": 1}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "code"),
    [
        *(({name: 0}, ErrorCode.BAD_GEOMETRY) for name in ("n", "c", "h", "w", "oh", "ow", "q", "r", "s", "stride")),
        *(({name: 0}, ErrorCode.BAD_TILE) for name in ("nb", "yb", "cb", "qb")),
        *(({name: 3}, ErrorCode.BAD_GEOMETRY) for name in ("pad_y", "pad_x")),
        *(({name: 9}, ErrorCode.BAD_GEOMETRY) for name in ("oh", "ow")),
        ({"opcode": Opcode.MAXPOOL, "q": 5}, ErrorCode.BAD_GEOMETRY),
        ({"c": 65535}, ErrorCode.ACC_OVERFLOW),
        ({"c": 200, "cb": 200}, ErrorCode.A_OVERFLOW),
        ({"q": 100, "qb": 100}, ErrorCode.B_OVERFLOW),
        ({"c": 1, "q": 129, "qb": 129, "h": 3, "oh": 1, "pad_y": 0, "yb": 1}, ErrorCode.ACC_OVERFLOW),
        ({"n": 17, "nb": 17, "c": 1, "q": 1, "h": 3, "oh": 1, "pad_y": 0, "yb": 1, "ow": 16, "w": 16},
         ErrorCode.ACC_OVERFLOW),
        ({"opcode": Opcode.MAXPOOL, "q": 16, "c": 16, "cb": 16, "yb": 8}, ErrorCode.C_OVERFLOW),
        ({"n": 1, "c": 1, "q": 257, "qb": 257, "h": 1, "w": 1, "oh": 1, "ow": 1, "r": 1, "s": 1, "pad_y": 0,
          "pad_x": 0}, ErrorCode.BIAS_OVERFLOW),
    ],
)  # fmt: skip
def test_failure(change, code):
    config = preset("tiny")
    assert descriptors(tile_program, config, [task(FIT)])
    with pytest.raises(TileError) as raised:
        descriptors(tile_program, config, [task(FIT | change)])
    assert raised.value.code == code
