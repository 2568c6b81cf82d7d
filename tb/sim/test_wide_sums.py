"""The widest accumulator: random commands, and a sum that no accumulator of 48 bits holds."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from adagp.golden.validate import validate
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.program import Line, Program
from adagp.spec.commands import FIELDS, CMode, Command, Opcode, Phase
from adagp.spec.config import VERSION
from adagp.spec.errors import ErrorCode
from layers import LAYERS, random_layer
from random_programs import DESIGNS

pytestmark = pytest.mark.timeout(900)  # Verilog and a simulator may have to be made first

CONFIG = DESIGNS["efficient"]
SEED, COMMANDS = 56, 60
SPACE, LARGE = 1 << 15, 1 << 20
TENSORS = {"a_id": 1, "b_id": 2, "c_id": 3, "out_id": 4, "scale_id": 0, "d_id": 0, "phase_mask": Phase.ALL}
SIDE = 364
"""Pixels along a side whose square is more than 131080, the longest sum of 48 bits."""


def program_of(command, address):
    header = Command(
        Opcode.HEADER, {"phase_mask": Phase.ALL, "config_hash": CONFIG.config_hash, "version": VERSION}
    )  # fmt: skip
    return Program([Line(header), Line(command), Line(Command(Opcode.END, {"phase_mask": Phase.ALL}))], address)


def run(device, memory, command, exponents):
    """Memory after a command alone."""
    program = program_of(command, len(memory) * 2)
    device.write(0, memory)
    device.write(program.address, program.words())
    for number, exponent in enumerate(exponents, 1):
        device.set_exponents(number, exponent)
    device.set_regions([(0, len(memory) * 2)])
    device.start(program, 0)
    device.wait()
    return device.read(0, len(memory) * 2).view(np.int16)


def test_random_commands():
    """Simulation, golden model and torch agree on commands of all kinds."""
    print(f"seed {SEED}")
    rng, seen = Random(SEED), set()
    devices = SimDevice(CONFIG, memory_bytes=SPACE), GoldenDevice(CONFIG, SPACE)
    try:
        while len(seen) < len(LAYERS) or rng.random() > 1 / COMMANDS:
            layer = random_layer(CONFIG, rng)
            task = layer.task
            if task.dry or task.c_mode == CMode.SUB:
                continue
            memory = np.full(SPACE // 4, 0x2AAA, np.int16)
            for address, values in layer.operands.items():
                memory[address // 2 : address // 2 + len(values)] = values
            command = Command(
                Opcode(task.opcode), {field.name: getattr(task, field.name) for field in FIELDS} | TENSORS
            )
            exponents = (task.exp_a, task.exp_b, task.exp_c, task.exp_out)
            found, expected = (run(device, memory, command, exponents) for device in devices)
            assert (found == expected).all(), command
            for address, values in layer.expected.items():
                assert (found[address // 2 : address // 2 + len(values)] == values).all(), command
            seen.add(task.opcode)
    finally:
        devices[0].close()
    assert seen == set(LAYERS)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_beyond_48_bits(sign):
    """The weight gradient of a large image is exact; an accumulator of 48 bits is refused it."""
    n = SIDE * SIDE
    geometry = {"n": 1, "c": 1, "h": SIDE, "w": SIDE, "q": 1, "oh": SIDE, "ow": SIDE, "r": 1, "s": 1, "stride": 1}
    tile = {"nb": 1, "yb": 4, "cb": 1, "qb": 1, "bias": 1, "out_addr": 4 * n}
    command = Command(Opcode.BACKWARD_WEIGHT, {**geometry, **tile, **TENSORS, "b_addr": 2 * n})
    assert validate(command, replace(CONFIG, acc_width=48)) == ErrorCode.ACC_OVERFLOW
    assert validate(command, CONFIG) == ErrorCode.NONE
    rng = np.random.default_rng(SEED)
    x, dy = rng.integers(32700, 32768, n), sign * rng.integers(32700, 32768, n)
    total, bias = sum(map(int, x * dy)), int(dy.sum())
    assert abs(total) >= 1 << 47
    memory = np.concatenate([x, dy, np.full(-2 * n % 2048 + 2048, 0x2AAA)]).astype(np.int16)
    devices = SimDevice(CONFIG, memory_bytes=LARGE), GoldenDevice(CONFIG, LARGE)
    results = [run(device, memory, command, (-15, 0, 0, 18))[2 * n : 2 * n + 2].tolist() for device in devices]
    devices[0].close()
    assert results[0] == results[1] == [round(total / 2**33), round(bias / 2**18)]
