"""Depthwise convolutions in the whole machine: programs of random commands, against the golden model bit by bit."""

import contextlib
import random
from dataclasses import replace

import numpy as np
import pytest
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.program import Line, Program, header
from adagp.sim import IDEAL
from adagp.spec.commands import Command, Opcode, Phase
from adagp.spec.opcodes import DEPTHWISE, GEMMS
from adagp.spec.operands import operands, outputs
from adagp.spec.presets import preset
from adagp.spec.registers import Status
from layers import random_layer

pytestmark = pytest.mark.timeout(900)  # Verilog and a simulator may have to be made first

TINY = replace(preset("tiny"), depthwise=True, n_tensors=512, n_filters=512)
CONFIGS = {
    "baseline": TINY,
    "low": replace(TINY, name="wide", rows=6, cols=3, variant="low"),
    "efficient": replace(TINY, name="narrow", rows=3, cols=5, variant="efficient"),
    "max": replace(TINY, variant="max"),
}
PROGRAM, MEMORY = 1 << 19, 1 << 20
GEOMETRY = ("n", "c", "h", "w", "q", "r", "s", "stride", "pad_y", "pad_x", "oh", "ow", "nb", "yb", "cb", "qb")
PITCHES = ("x_pitch", "y_pitch", "c_pitch", "d_pitch")
EPILOGUE = ("bias", "swap", "relu", "track", "out_outer", "c_mode", "const_mantissa", "const_exponent")


class Maker:
    """Makes a program of random layers, each with operands and tensors of its own."""

    def __init__(self, config, draw):
        self.config, self.draw, self.address = config, draw, 0
        self.commands, self.data, self.exponents, self.results = [], {}, {}, []

    def add(self, opcode):
        """A command; its operands are read from a copy of the layer's memory."""
        modes = 5 if self.config.predicts else 3
        layer = random_layer(self.config, self.draw, opcode, limit=1000, c_mode=self.draw.randrange(modes))
        t, index = layer.task, len(self.commands)
        fields = {name: getattr(t, name) for name in (*GEOMETRY, *PITCHES, *EPILOGUE)}
        for place, name in enumerate(("a", "b", "c", "out")):
            fields[f"{name}_id"] = number = 4 * index + place + 1
            self.exponents[number] = getattr(t, f"exp_{name}")
        for name, operand in operands(Command(opcode, fields), self.config).items():
            fields[f"{name}_addr"] = self.address
            if name in outputs(Command(opcode, fields)):
                self.results.append((self.address, operand.n_bytes))
            else:
                values = layer.operands[getattr(t, f"{name}_addr")]
                self.data[self.address] = values.astype(f"<i{self.config.operand_bytes}")
            self.address += -(-operand.n_bytes // 64) * 64 + 64
        fields["wait_main"] = self.draw.randint(0, index)
        self.commands.append(Command(opcode, {"phase_mask": int(Phase.ALL), **fields}))

    def run(self, device, calibrate):
        """What a device makes of it: results, exponents, counters."""
        ends = [Command(opcode, {"phase_mask": int(Phase.ALL)}) for opcode in (Opcode.COMMIT, Opcode.END)]
        program = Program([Line(c) for c in (header(self.config), *self.commands, *ends)], PROGRAM)
        device.write(PROGRAM, program.words())
        for address, values in self.data.items():
            device.write(address, values)
        for number, exponent in self.exponents.items():
            device.set_exponents(number, exponent)
        device.set_regions([(0, PROGRAM)])
        device.start(program, 0, calibrate=calibrate)
        assert device.wait() == Status.DONE
        counters = device.counters(0)
        return (
            device.read(0, self.address), [device.exponents(number) for number in self.exponents],
            {name: counters[name] for name in ("macs", "saturations", "commands")},
        )  # fmt: skip


def program(config, draw):
    """Commands of depthwise convolutions of all shapes, strides, tiles, epilogues, between those of other units."""
    maker = Maker(config, draw)
    for opcode in draw.sample([*DEPTHWISE * 3, *GEMMS, Opcode.MAXPOOL, Opcode.AVGPOOL], 12):
        maker.add(opcode)
    return maker


@pytest.mark.parametrize("variant", CONFIGS)
@pytest.mark.parametrize("seed", range(4))
def test_random_commands(variant, seed):
    """On an ideal memory (seed 0), on one that stalls at random, and in calibration (seed 3)."""
    print(f"seed {seed}")
    config = CONFIGS[variant]
    maker = program(config, random.Random(f"depthwise {variant} {seed}"))
    calibrate = seed == 3
    expected = maker.run(GoldenDevice(config, MEMORY), calibrate)
    memory = {"part": IDEAL} if seed == 0 else {"stall": 0.3, "seed": seed}
    with contextlib.closing(SimDevice(config, memory_bytes=MEMORY, limit=10_000_000, **memory)) as device:
        found = maker.run(device, calibrate)
    wrong = np.flatnonzero(found[0] != expected[0])
    assert wrong.size == 0, f"{wrong.size} bytes differ, the first at {wrong[0]}"
    assert found[1:] == expected[1:]
    assert sum(size for _, size in maker.results) > 0 and expected[2]["commands"] == 15


def test_what_the_programs_hold():
    """All three directions, each at strides 1 and 2 with padding, in one tile and in several."""
    seen = set()
    for variant, config in CONFIGS.items():
        for seed in range(4):
            for c in program(config, random.Random(f"depthwise {variant} {seed}")).commands:
                padded, tiled = c.pad_y + c.pad_x > 0, c.nb < c.n or c.cb < c.c or c.yb < c.oh
                seen |= {(c.opcode, c.stride, padded), (c.opcode, "tiles", tiled), (c.opcode, "bias", c.bias)}
    for opcode in DEPTHWISE:
        assert {(opcode, stride, True) for stride in (1, 2)} <= seen
        assert {(opcode, "tiles", tiled) for tiled in (True, False)} <= seen
    assert {(opcode, "bias", bias) for opcode in (DEPTHWISE[0], DEPTHWISE[2]) for bias in (0, 1)} <= seen
