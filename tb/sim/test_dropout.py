"""Dropout in the whole machine: programs of random commands, against the golden model bit by bit."""

import contextlib
import random

import numpy as np
import pytest
from adagp.host.devices.device import DeviceError
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.program import Line, Program, header
from adagp.spec.commands import Command, Opcode
from adagp.spec.errors import ErrorCode
from layers import LAYERS
from random_programs import DESIGNS, MEMORY, RandomProgram, same_bits

pytestmark = pytest.mark.timeout(900)  # Verilog and a simulator may have to be made first


def program(config, draw):
    """Averages, most of which drop some of their results, among commands of all units."""
    made = RandomProgram(config, draw)
    for opcode in draw.sample([*LAYERS, *[Opcode.AVGPOOL] * 8], 12):
        made.add(opcode)
    return made


@pytest.mark.parametrize("variant", DESIGNS)
@pytest.mark.parametrize("seed", range(4))
def test_random_commands(variant, seed):
    made = program(DESIGNS[variant], random.Random(f"dropout {variant} {seed}"))
    same_bits(made, seed)
    assert sum(size for _, size in made.results) > 0


def test_what_the_programs_hold():
    """Dropout with all uses of C and ReLU, in several tiles of images, rows and channels, in windows too."""
    seen, commands = set(), 0
    for variant, config in DESIGNS.items():
        for seed in range(4):
            for c in program(config, random.Random(f"dropout {variant} {seed}")).commands:
                if c.momentum:
                    commands += 1
                    seen |= {
                        ("mode", c.c_mode),
                        ("relu", c.relu),
                        ("window", c.r * c.s > 1),
                        ("half", c.momentum == 1 << 15),
                    }
                    seen |= {("tiles", name) for name, tile, whole in (
                        ("n", c.nb, c.n), ("y", c.yb, c.oh), ("c", c.cb, c.c),
                    ) if tile < whole}  # fmt: skip
    assert commands > 50 and {("mode", mode) for mode in range(5)} <= seen
    assert {("tiles", name) for name in "nyc"} | {
        (name, each) for name in ("window", "half") for each in (False, True)
    } <= seen


@pytest.mark.parametrize("variant", ["baseline", "max"])
def test_refusal(variant):
    """Tiles whose pixels don't follow each other are BAD_TILE, and nothing is written."""
    config = DESIGNS[variant]
    ones = dict.fromkeys(("c", "w", "q", "r", "s", "stride", "ow", "yb", "cb", "qb"), 1)
    bad = Command(Opcode.AVGPOOL, {
        **ones, **dict.fromkeys(("n", "h", "oh", "nb"), 2), "phase_mask": 15, "out_addr": 4096, "momentum": 1 << 15,
    })  # fmt: skip
    program = Program([Line(header(config)), Line(bad)], 0)
    for make in (GoldenDevice, SimDevice):
        with contextlib.closing(make(config, memory_bytes=MEMORY)) as device:
            device.write(0, program.words())
            device.write(4096, np.full(8, 0x55, np.uint8))
            device.set_regions([(0, MEMORY)])
            device.start(program, 0)
            with pytest.raises(DeviceError) as failed:
                device.wait()
            assert (failed.value.code, failed.value.index) == (ErrorCode.BAD_TILE, 1)
            assert (device.read(4096, 8) == 0x55).all()
