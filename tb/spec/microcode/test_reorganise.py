"""FORWARD with ``reorganise`` and REORGANISE, run by a plain model of the engines, against the golden model.

Queues of such pairs with commands between them; images, rows and filters in tiles of any size, in either order.
"""

import random
from dataclasses import replace

import numpy as np
import pytest
from adagp.golden.layer import LayerExponents, compute
from adagp.golden.reorganise import reorganise
from adagp.golden.validate import validate
from adagp.spec.commands import FIELDS, Command, Opcode
from adagp.spec.errors import ErrorCode
from adagp.spec.microcode.compiler import compile_program
from adagp.spec.microcode.descriptors import VectorMode
from adagp.spec.microcode.isa import interpret
from adagp.spec.microcode.machine import Recorder, TileError, descriptors, task
from adagp.spec.microcode.program import tile_program
from adagp.spec.opcodes import POOLS
from adagp.spec.presets import PRESETS, preset
from engine_model import Emulator
from layers import LAYERS, UNWRITTEN, random_layer

NAMES = {field.name for field in FIELDS}
PLACE = 20_000
"""Bytes that a command's tensors may take."""

ELEMENT = dict.fromkeys(("n", "h", "w", "oh", "ow", "r", "s", "stride", "nb", "yb", "qb"), 1)


class Queue:
    """Commands and what memory, maxima and saturations must be after them."""

    def __init__(self, config, rng):
        self.config, self.rng = config, rng
        self.tasks, self.operands, self.expected, self.tops = [], {}, {}, {}
        self.saturations = 0

    def add(self, layer):
        self.tasks.append(layer.task)
        self.operands |= layer.operands
        self.expected |= layer.expected
        self._result(layer.task, layer.top, layer.saturations)

    def _result(self, t, top, saturations):
        self.saturations += saturations
        if t.track:
            known = [each for each in (self.tops.get(t.out_id), top) if each is not None]
            self.tops[t.out_id] = max(known, default=None)

    def layer(self, opcode=None, **fixed):
        layer = random_layer(self.config, self.rng, opcode, base=PLACE * len(self.tasks), limit=300, **fixed)
        self.add(layer)
        return layer

    def pair(self):
        """A FORWARD and the REORGANISE of its result, sometimes dry at first."""
        rng, config = self.rng, self.config
        while True:
            base, dense = PLACE * len(self.tasks), {"y_pitch": 0, "reorganise": 1}
            layer = random_layer(config, rng, Opcode.FORWARD, base=base, limit=300, **dense)
            if not layer.task.dry:
                break
        self.add(layer)
        t = layer.task
        out = layer.expected[t.out_addr].astype(np.int64).reshape(t.n, t.oh, t.ow, t.q)
        fields = ELEMENT | {
            "opcode": Opcode.REORGANISE, "c": 4 * t.q, "q": 4 * t.q, "cb": rng.randint(1, 4 * t.q),
            "const_mantissa": rng.randrange(1 << 16), "const_exponent": rng.randint(-20, 2),
            "track": rng.randrange(2), "out_id": rng.randrange(8), "out_addr": PLACE * len(self.tasks),
        }  # fmt: skip
        exp_a = rng.randint(-20, 5)
        exp_out = exp_a + fields["const_exponent"] + rng.choice((rng.randint(8, 20), rng.randint(-20, 40)))
        command = Command(Opcode.REORGANISE, {name: value for name, value in fields.items() if name != "opcode"})
        result, _ = compute(command, {"sums": reorganise(out).ravel()}, LayerExponents(exp_a, 0, 0, exp_out), config)
        if rng.random() < 0.3:
            self.tasks.append(task(fields, exp_a=exp_a, exp_out=exp_out, dry=1, index=1))
            dry, _ = compute(
                command, {"sums": reorganise(out).ravel()}, LayerExponents(exp_a, 0, 0, 0), config, dry=True
            )
            self._result(self.tasks[-1], dry.top, 0)
        self.tasks.append(task(fields, exp_a=exp_a, exp_out=exp_out, index=2))
        self._result(self.tasks[-1], result.top, result.saturations)
        self.expected[fields["out_addr"]] = result.out.ravel()

    def check(self):
        """Run it all; the number of descriptors that sum up or give sums."""
        size = self.config.operand_bytes
        memory = np.full(400_000, UNWRITTEN, np.int64)
        expected = memory.copy()
        for target, contents in ((memory, self.operands), (expected, self.operands | self.expected)):
            for address, values in contents.items():
                target[address // size : address // size + len(values)] = values
        issued = descriptors(tile_program, self.config, self.tasks)
        engines = Emulator(self.config, memory, self.rng)
        engines.run(issued)
        wrong = np.flatnonzero(memory != expected)
        assert wrong.size == 0, f"{wrong.size} operands differ, first at {wrong[0] * size:#x}"
        assert engines.done == len(self.tasks) > 0
        assert engines.saturations == self.saturations
        assert engines.results == self.tops
        assert (engines.tokens["acc_full"], engines.tokens["acc_free"], engines.tokens["c_free"]) == (0, 2, 2)
        return sum(engine == "drain" and d["reorganise"] for engine, d in issued)


@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
def test_queue(config):
    rng = random.Random(config.name)
    config = replace(config, variant="low")
    tiles = 0
    for _ in range(12):
        queue = Queue(config, rng)
        for _ in range(3):
            queue.pair()
            if rng.randrange(2):
                queue.layer()
        tiles += queue.check()
    assert tiles > 12 * 6


def reorganise_task(**change):
    return task(ELEMENT | {"opcode": Opcode.REORGANISE, "c": 40, "q": 40, "cb": 40, "out_addr": 64} | change)


def test_only_the_drain_works():
    """Nothing is fetched and nothing computed; a tile is a piece of the result."""
    issued = descriptors(tile_program, preset("tiny"), [reorganise_task(cb=16, const_mantissa=7)])
    assert [engine for engine, _ in issued] == ["fill", "drain", "store"] * 3
    for engine, d in issued:
        if engine == "fill":
            assert (d["target"], d["n0"], d["open"], d["ready"]) == (2, 0, 1, 1)
    drains = [d for engine, d in issued if engine == "drain"]
    assert [(d["at"], d["n_out"], d["mantissa"]) for d in drains] == [(0, 16, 7), (16, 16, 7), (32, 8, 7)]


def test_other_commands_sum_nothing_up():
    """The flag means something to FORWARD only."""
    rng = random.Random(4)
    config = replace(preset("tiny"), variant="low")
    for opcode in LAYERS[1:]:
        layer = random_layer(config, rng, opcode, limit=200, y_pitch=0, reorganise=1)
        issued = descriptors(tile_program, config, [layer.task])
        drains = [d for engine, d in issued if engine == "drain"]
        assert drains
        assert not any(d["reorganise"] for d in drains)
        assert any(d["mode"] != VectorMode.GEMM for engine, d in issued if engine == "compute") == (opcode in POOLS)


@pytest.mark.parametrize(
    "change",
    [
        {"c": 516, "q": 516}, {"n": 2}, {"h": 2}, {"w": 2}, {"h": 2, "oh": 2}, {"w": 2, "ow": 2},
        {"r": 2, "pad_y": 1}, {"s": 2, "pad_x": 1},
    ],
)  # fmt: skip
def test_refused(change):
    """More sums than there are; more than one pixel or tap."""
    config = replace(preset("tiny"), variant="low")
    t = reorganise_task(**change)
    with pytest.raises(TileError) as raised:
        interpret(compile_program(config), config, t, Recorder())
    assert raised.value.code == ErrorCode.BAD_GEOMETRY
    fields = {name: value for name, value in vars(t).items() if name in NAMES and name != "opcode"}
    assert validate(Command(Opcode.REORGANISE, fields), config) == ErrorCode.BAD_GEOMETRY


def test_microcode_agrees():
    """The compiled program issues what the Python one does."""
    rng = random.Random(9)
    config = replace(preset("tiny"), variant="low")
    queue = Queue(config, rng)
    for _ in range(4):
        queue.pair()
    program, compiled = compile_program(config), Recorder()
    for t in queue.tasks:
        compiled.index = t.index
        interpret(program, config, t, compiled)
    assert compiled.issued == descriptors(tile_program, config, queue.tasks)
    assert sum(d.get("reorganise", 0) for _, d in compiled.issued) >= 8
