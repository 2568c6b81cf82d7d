"""GEMMs with activations as filters in the whole machine: programs of random commands, against the golden model."""

import contextlib
import random

import numpy as np
import pytest
from adagp.golden.validate import validate
from adagp.host.devices.device import DeviceError
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.program import Line, Program, header
from adagp.spec.commands import CMode, Command, Opcode
from adagp.spec.errors import ErrorCode
from adagp.spec.opcodes import GEMMS
from adagp.spec.operands import filter_pitch
from random_programs import DESIGNS, MEMORY, RandomProgram, same_bits

pytestmark = pytest.mark.timeout(900)  # Verilog and a simulator may have to be made first


def program(config, draw):
    """GEMMs, of which about half have filters apart, with all uses of the C operand."""
    made = RandomProgram(config, draw)
    for opcode in draw.choices(GEMMS, k=12):
        made.add(opcode)
    return made


@pytest.mark.parametrize("variant", DESIGNS)
@pytest.mark.parametrize("seed", range(4))
def test_random_commands(variant, seed):
    made = program(DESIGNS[variant], random.Random(f"matmul {variant} {seed}"))
    same_bits(made, seed)
    assert sum(size for _, size in made.results) > 0


def test_what_the_programs_hold():
    """Filters that lie apart, with and without gaps, in each GEMM, either way around, with strides and C operands."""
    seen = set()
    for variant, config in DESIGNS.items():
        for seed in range(4):
            for c in program(config, random.Random(f"matmul {variant} {seed}")).commands:
                if pitch := filter_pitch(c, config):
                    whole = (c.qb if c.opcode == Opcode.BACKWARD_DATA else c.cb) >= c.c
                    seen |= {
                        (c.opcode, pitch > c.r * c.s * c.c),
                        (c.opcode, "swap", c.swap),
                        (c.opcode, "whole", whole),
                    }
                    seen |= {(c.opcode, "c_mode", c.c_mode), (c.opcode, "stride", c.stride > 1)}
    for opcode in GEMMS:
        assert {(opcode, gaps) for gaps in (False, True)} <= seen
        assert {(opcode, name, on) for name in ("swap", "stride", "whole") for on in (False, True)} <= seen
        assert {(opcode, "c_mode", mode) for mode in (CMode.NONE, CMode.MASK, CMode.ADD)} <= seen


_ONES = dict.fromkeys(("n", "c", "h", "w", "q", "r", "s", "stride", "oh", "ow", "nb", "yb", "cb", "qb"), 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"c": 3, "cb": 3, "d_pitch": 2}, {"r": 3, "h": 3, "d_pitch": 2}, {"d_pitch": 4, "bias": 1},
        {"q": 64, "qb": 8, "d_pitch": (1 << 24) - 1},
    ],
)  # fmt: skip
@pytest.mark.parametrize("opcode", GEMMS)
def test_refusals(opcode, fields):
    """A pitch below the filter's elements, one with biases, and filters of 2^30 bytes are BAD_GEOMETRY, as without
    matmul they aren't; nothing is written."""
    config = DESIGNS["baseline"]
    bad = Command(opcode, {**_ONES, "phase_mask": 15, "out_addr": 4096, **fields})
    program = Program([Line(header(config)), Line(bad)], 0)
    for make in (GoldenDevice, SimDevice):
        with contextlib.closing(make(config, memory_bytes=MEMORY)) as device:
            device.write(0, program.words())
            device.write(4096, np.full(64, 0x55, np.uint8))
            device.set_regions([(0, MEMORY)])
            device.start(program, 0)
            with pytest.raises(DeviceError) as failed:
                device.wait()
            assert (failed.value.code, failed.value.index) == (ErrorCode.BAD_GEOMETRY, 1)
            assert (device.read(4096, 64) == 0x55).all()
    fine = Command(opcode, {**bad.fields, "d_pitch": 0, "bias": 0})
    assert validate(fine, config) == ErrorCode.NONE
