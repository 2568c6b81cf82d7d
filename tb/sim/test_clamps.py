"""Bounds and slopes in the whole machine: programs of random commands, against the golden model bit by bit."""

import contextlib
import random

import numpy as np
import pytest
from adagp.host.devices.device import DeviceError
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.program import Line, Program, header
from adagp.spec.commands import CMode, Command, Opcode
from adagp.spec.errors import ErrorCode
from adagp.spec.opcodes import DEPTHWISE, GEMMS
from layers import LAYERS
from random_programs import DESIGNS, MEMORY, RandomProgram, same_bits

pytestmark = pytest.mark.timeout(900)  # Verilog and a simulator may have to be made first


def program(config, draw):
    """Commands of all units, of which most have a bound or a slope, with all uses of the C operand."""
    made = RandomProgram(config, draw)
    for opcode in draw.sample([*GEMMS, *LAYERS, *DEPTHWISE], 12):
        made.add(opcode)
    return made


@pytest.mark.parametrize("variant", DESIGNS)
@pytest.mark.parametrize("seed", range(4))
def test_random_commands(variant, seed):
    made = program(DESIGNS[variant], random.Random(f"clamps {variant} {seed}"))
    same_bits(made, seed)
    assert sum(size for _, size in made.results) > 0


def test_what_the_programs_hold():
    """Bounds and slopes with all uses of C, of GEMMs and pools; bounds below and above the operands' range."""
    seen = set()
    for variant, config in DESIGNS.items():
        for seed in range(4):
            made = program(config, random.Random(f"clamps {variant} {seed}"))
            for c in made.commands:
                exponent = made.exponents[c.c_id if c.c_mode == CMode.MASK else c.out_id]
                within = c.bound_mantissa * 2.0 ** (c.bound_exponent - exponent) < 32767
                seen |= {("bound", c.c_mode, within)} if c.bound_mantissa else set()
                seen |= {("slope", c.c_mode, c.relu)} if c.slope else set()
                seen |= {("unit", c.opcode)} if c.bound_mantissa and c.slope == 0 else set()
    for mode in (CMode.NONE, CMode.MASK, CMode.ADD, CMode.SUB):
        assert {("bound", mode, within) for within in (False, True)} <= seen
        assert ("slope", mode, 1) in seen
    assert {("unit", opcode) for opcode in (*LAYERS, *DEPTHWISE)} <= seen


@pytest.mark.parametrize(
    ("variant", "fields"),
    [
        ("baseline", {"c_mode": CMode.ADD_MASK, "slope": 1}), ("max", {"c_mode": CMode.ADD_MASK, "bound_mantissa": 1}),
        ("max", {"predictor": 1, "slope": 1 << 15}), ("low", {"predictor": 1, "bound_mantissa": 1 << 15}),
    ],
)  # fmt: skip
def test_refusals(variant, fields):
    """A bound or a slope in a command that can't have one is BAD_OPCODE, and nothing is written."""
    config = DESIGNS[variant]
    ones = dict.fromkeys(("n", "c", "h", "w", "q", "r", "s", "stride", "oh", "ow", "nb", "yb", "cb", "qb"), 1)
    bad = Command(Opcode.FORWARD, {**ones, "phase_mask": 15, "out_addr": 4096, **fields})
    program = Program([Line(header(config)), Line(bad)], 0)
    for make in (GoldenDevice, SimDevice):
        with contextlib.closing(make(config, memory_bytes=MEMORY)) as device:
            device.write(0, program.words())
            device.write(4096, np.full(8, 0x55, np.uint8))
            device.set_regions([(0, MEMORY)])
            device.start(program, 0)
            with pytest.raises(DeviceError) as failed:
                device.wait()
            assert (failed.value.code, failed.value.index) == (ErrorCode.BAD_OPCODE, 1)
            assert (device.read(4096, 8) == 0x55).all()
