"""Backward passes of strided convolutions: random commands on the simulated machine, golden and by torch."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.program import Line, Program
from adagp.spec.commands import FIELDS, CMode, Command, Opcode, Phase
from adagp.spec.config import VERSION
from adagp.spec.operands import macs
from adagp.spec.presets import preset
from adagp.spec.residues import residues
from layers import random_layer

pytestmark = pytest.mark.timeout(900)  # Verilog and a simulator may have to be made first

SEED = 36
COMMANDS = 60
SPACE = 1 << 15
PROGRAM = SPACE // 2
STEPS = (Opcode.BACKWARD_DATA, Opcode.BACKWARD_WEIGHT)
TENSORS = {"a_id": 1, "b_id": 2, "c_id": 3, "out_id": 4, "scale_id": 0, "d_id": 0}


def strided(config, rng):
    """A random backward GEMM with a stride above 1, and what memory holds before and after it."""
    while True:
        layer = random_layer(config, rng, rng.choice(STEPS))
        if layer.task.stride > 1 and not layer.task.dry and layer.task.c_mode != CMode.SUB:
            return layer


def program_of(config, task):
    header = Command(Opcode.HEADER, {"phase_mask": Phase.ALL, "config_hash": config.config_hash, "version": VERSION})
    fields = {field.name: getattr(task, field.name) for field in FIELDS} | TENSORS | {"phase_mask": Phase.ALL}
    end = Command(Opcode.END, {"phase_mask": Phase.ALL})
    return Program([Line(header), Line(Command(Opcode(task.opcode), fields)), Line(end)], PROGRAM)


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


@pytest.mark.parametrize("variant", ["baseline", "max"])
def test_random_strided_commands(variant):
    """Memory and counters agree; classes without taps, tiles that cut rows and channels, and gaps occur."""
    config = replace(preset("tiny"), variant=variant)
    print(f"seed {SEED}")
    rng, seen = Random(SEED), set()
    devices = SimDevice(config, memory_bytes=SPACE), GoldenDevice(config, SPACE)
    try:
        for _ in range(COMMANDS):
            layer = strided(config, rng)
            program = program_of(config, layer.task)
            command = program.lines[1].command
            (memory, counters), (golden, expected) = (run(device, layer, program) for device in devices)
            assert counters == expected and counters["macs"] == macs(command) > 0, command
            assert (memory == golden).all(), command
            for address, values in layer.expected.items():
                assert (memory[address // 2 : address // 2 + len(values)] == values).all(), command
            rows, columns = residues(command)
            seen |= {command.opcode, f"stride {command.stride}", f"c_mode {int(command.c_mode)}"}
            seen |= {"no taps"} if any(line.taps == 0 for line in (*rows, *columns)) else {"taps"}
            seen |= {name for name, whole in (("nb", command.n), ("cb", command.c), ("qb", command.q))
                     if getattr(command, name) < whole}  # fmt: skip
            seen |= {name for name in ("bias", "y_pitch", "swap") if getattr(command, name)}
    finally:
        devices[0].close()
    assert seen >= {*STEPS, *(f"stride {n}" for n in (2, 3, 4)), *(f"c_mode {n}" for n in range(3)), "taps", "no taps",
                    "nb", "cb", "qb", "bias", "y_pitch", "swap"}  # fmt: skip
