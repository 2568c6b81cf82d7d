"""Strided layers: random commands on the simulated machine, golden and by torch; cycles are as expected."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from adagp.host.compiler.mapping import choose_mapping
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.program import Line, Program
from adagp.spec.commands import FIELDS, CMode, Command, Opcode, Phase
from adagp.spec.config import VARIANTS, VERSION
from adagp.spec.operands import macs
from adagp.spec.presets import preset
from adagp.spec.residues import residues
from layers import LAYERS, random_layer

pytestmark = pytest.mark.timeout(900)  # Verilog and a simulator may have to be made first

SEED = 36
COMMANDS = 80
SPACE = 1 << 15
PROGRAM = SPACE // 2
STEPS = (Opcode.BACKWARD_DATA, Opcode.BACKWARD_WEIGHT)
"""Commands that run by residue classes."""
OTHERS = tuple(opcode for opcode in LAYERS if opcode not in STEPS)
CONVOLUTIONS = (
    (1, 16, 14, 16, 3, 2, 1), (2, 8, 16, 24, 3, 2, 1), (2, 16, 14, 32, 1, 2, 0), (1, 8, 15, 8, 5, 2, 2),
    (1, 3, 28, 16, 7, 2, 3), (2, 16, 12, 16, 3, 3, 0),
)  # fmt: skip
"""Images, channels, size, filters, kernel, stride and padding."""
CLOSE = 0.1
"""Part of a command's cycles by which the cost model may be wrong."""
LARGE = 1 << 18
END = Line(Command(Opcode.END, {"phase_mask": Phase.ALL}))
TENSORS = {"a_id": 1, "b_id": 2, "c_id": 3, "out_id": 4, "scale_id": 0, "d_id": 0}


def strided(config, rng, opcode):
    """A random command with a stride above 1, and what memory holds before and after it."""
    while True:
        layer = random_layer(config, rng, opcode)
        if layer.task.stride > 1 and not layer.task.dry and layer.task.c_mode != CMode.SUB:
            return layer


def header_of(config):
    return Line(Command(
        Opcode.HEADER, {"phase_mask": Phase.ALL, "config_hash": config.config_hash, "version": VERSION}
    ))  # fmt: skip


def program_of(config, task):
    fields = {field.name: getattr(task, field.name) for field in FIELDS} | TENSORS | {"phase_mask": Phase.ALL}
    return Program([header_of(config), Line(Command(Opcode(task.opcode), fields)), END], PROGRAM)


def run(device, layer, program):
    """Memory, the result's exponents, and counters after ``layer`` alone."""
    task, memory = layer.task, np.full(PROGRAM // 2, 0x2AAA, np.int16)
    for address, values in layer.operands.items():
        memory[address // 2 : address // 2 + len(values)] = values
    device.write(0, memory)
    device.write(program.address, program.words())
    for number, exponent in enumerate((task.exp_a, task.exp_b, task.exp_c, task.exp_out), 1):
        device.set_exponents(number, exponent)
    device.set_regions([(0, PROGRAM)])
    device.reset_counters()
    device.start(program, 0)
    device.wait()
    counters = device.counters(0)
    return device.read(0, PROGRAM).view(np.int16), {name: counters[name] for name in ("macs", "saturations")}


@pytest.mark.parametrize("variant", VARIANTS)
def test_random_strided_commands(variant):
    """Memory and counters agree; classes without taps, tiles that cut rows and channels, and gaps occur."""
    config = replace(preset("tiny"), variant=variant)
    print(f"seed {SEED}")
    rng, seen = Random(SEED), set()
    devices = SimDevice(config, memory_bytes=SPACE), GoldenDevice(config, SPACE)
    try:
        for number in range(COMMANDS):
            layer = strided(config, rng, OTHERS[number // 4 % len(OTHERS)] if number % 4 == 0 else rng.choice(STEPS))
            program = program_of(config, layer.task)
            command = program.lines[1].command
            (memory, counters), (golden, expected) = (run(device, layer, program) for device in devices)
            assert counters == expected and counters["macs"] == macs(command), command
            assert (memory == golden).all(), command
            for address, values in layer.expected.items():
                assert (memory[address // 2 : address // 2 + len(values)] == values).all(), command
            seen |= {command.opcode}
            if command.opcode in STEPS:
                seen |= features(command)
    finally:
        devices[0].close()
    assert seen >= {*STEPS, *OTHERS, *(f"stride {n}" for n in (2, 3, 4)), *(f"c_mode {n}" for n in range(3)), "taps",
                    "no taps", "nb", "cb", "qb", "bias", "y_pitch", "swap"}  # fmt: skip


def features(command):
    """Kinds of a command that runs by residue classes."""
    lines = [line for axis in residues(command) for line in axis]
    return {
        f"stride {command.stride}", f"c_mode {int(command.c_mode)}",
        "no taps" if any(line.taps == 0 for line in lines) else "taps",
        *(name for name, whole in (("nb", command.n), ("cb", command.c), ("qb", command.q))
          if getattr(command, name) < whole),
        *(name for name in ("bias", "y_pitch", "swap") if getattr(command, name)),
    }  # fmt: skip


@pytest.mark.parametrize("opcode", STEPS, ids=lambda opcode: opcode.name.lower())
def test_cycles_are_as_the_cost_model_expects(opcode):
    """Strided convolutions have one or many tiles in a residue class, cut as the mapping says."""
    config = preset("tiny")
    device = SimDevice(config, memory_bytes=LARGE)
    try:
        for n, c, size, q, kernel, stride, padding in CONVOLUTIONS:
            out = (size + 2 * padding - kernel) // stride + 1
            x, weights, y = n * size * size * c, q * (kernel * kernel * c + 1), n * out * out * q
            operands = (y, weights, x) if opcode is Opcode.BACKWARD_DATA else (x, y, weights)
            places = np.cumsum([0, *operands]) * 2
            fields = {
                "n": n, "c": c, "h": size, "w": size, "q": q, "oh": out, "ow": out, "r": kernel, "s": kernel,
                "stride": stride, "pad_y": padding, "pad_x": padding, "bias": opcode is Opcode.BACKWARD_WEIGHT,
                **dict(zip(("a_addr", "b_addr", "out_addr"), places.tolist(), strict=False)), **TENSORS,
                "phase_mask": Phase.ALL,
            }  # fmt: skip
            mapping = choose_mapping(Command(opcode, fields), config)
            command = Command(opcode, fields | mapping.fields())
            program = Program([header_of(config), Line(command), END], LARGE // 2)
            device.write(program.address, program.words())
            device.set_regions([(0, LARGE // 2)])
            device.reset_counters()
            device.start(program, 0)
            device.wait()
            counters = device.counters(0)
            print(f"{fields}: {counters['cycles']} cycles, expected {mapping.cycles:.0f}")
            assert counters["macs"] == macs(command) > 0
            assert abs(mapping.cycles / counters["cycles"] - 1) < CLOSE, fields
    finally:
        device.close()
