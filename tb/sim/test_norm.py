"""Batch norm in the whole machine: sequences of random commands, against the golden model bit by bit."""

import contextlib
import random

import pytest
from adagp.host.devices.device import DeviceError
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.spec.commands import CMode, Command, Opcode
from adagp.spec.opcodes import NORMS
from norm_programs import NormProgram, norm_program
from random_programs import DESIGNS, MEMORY, PROGRAM, same_bits

pytestmark = pytest.mark.timeout(900)  # Verilog and a simulator may have to be made first


@pytest.mark.parametrize("variant", DESIGNS)
@pytest.mark.parametrize("seed", range(4))
def test_random_batch_norms(variant, seed):
    same_bits(norm_program(DESIGNS[variant], random.Random(f"norm {variant} {seed}")), seed)


def test_what_the_programs_hold():
    """All commands in tiles of all kinds, with gaps, all uses of C, ReLUs, and exponents tracked, calibrated or not."""
    seen = set()
    for variant, config in DESIGNS.items():
        for seed in range(4):
            for c in norm_program(config, random.Random(f"norm {variant} {seed}")).commands:
                channels, values = min(c.cb, c.qb) < c.c, c.nb < c.n or c.yb < c.h
                seen |= {(c.opcode, "channels", channels), (c.opcode, "values", values), (c.opcode, "mode", c.c_mode)}
                seen |= {
                    (c.opcode, "gaps", c.x_pitch > c.c or c.y_pitch > c.q),
                    (c.opcode, "track", c.track, seed == 3),
                }
                seen |= {(c.opcode, "relu", c.relu, c.c_mode)}
    for opcode in NORMS:
        assert {(opcode, "channels", tiled) for tiled in (True, False)} <= seen
    for opcode in (Opcode.NORM_SUMS, Opcode.NORM_APPLY, Opcode.NORM_APPLY_BACKWARD):
        assert {(opcode, name, each) for name in ("values", "gaps") for each in (True, False)} <= seen
    for opcode in (Opcode.NORM_APPLY, Opcode.NORM_APPLY_BACKWARD):
        modes = (CMode.NONE, CMode.MASK, CMode.ADD, CMode.ADD_MASK)
        assert {(opcode, "mode", mode) for mode in modes} <= seen
    for opcode in (Opcode.NORM_APPLY, Opcode.NORM_BACKWARD, Opcode.NORM_APPLY_BACKWARD):
        calibrations = [(opcode, "track", track, calibrates) for track in (0, 1) for calibrates in (False, True)]
        assert seen.issuperset(calibrations)
    assert {(Opcode.NORM_APPLY, "relu", relu, mode) for relu in (0, 1) for mode in modes} <= seen


MISTAKES = (
    (Opcode.NORM_SUMS, {"r": 2}), (Opcode.NORM_SUMS, {"cb": 0}), (Opcode.NORM_CONSTANTS, {"e_addr": 1}),
    (Opcode.NORM_CONSTANTS, {"h": 9}), (Opcode.NORM_APPLY, {"c_mode": 5}), (Opcode.NORM_APPLY, {"stride": 2}),
    (Opcode.NORM_BACKWARD, {"b_id": 512}), (Opcode.NORM_APPLY_BACKWARD, {"q": 99}),
    (Opcode.NORM_CONSTANTS, {"c_addr": PROGRAM}), (Opcode.NORM_BACKWARD, {"out_addr": PROGRAM}),
    (Opcode.NORM_APPLY_BACKWARD, {"e_addr": MEMORY}), (Opcode.NORM_CONSTANTS, {"n": 65535, "h": 65535, "oh": 65535}),
)  # fmt: skip


@pytest.mark.parametrize(("opcode", "change"), MISTAKES, ids=lambda each: getattr(each, "name", str(each)))
def test_mistakes_are_refused(opcode, change):
    """Each with the code and the place that the golden model says; what comes before it is complete."""
    draw = random.Random(f"{opcode} {change}")
    config = DESIGNS["baseline"]
    maker = NormProgram(config, draw)
    maker.norm()
    place = next(at for at, command in enumerate(maker.commands) if command.opcode == opcode)
    command = maker.commands[place]
    maker.commands[place] = Command(opcode, command.fields | change)
    with pytest.raises(DeviceError) as expected:
        maker.run(GoldenDevice(config, MEMORY), False)
    with contextlib.closing(SimDevice(config, memory_bytes=MEMORY, limit=10_000_000, stall=0.3, seed=5)) as device:
        with pytest.raises(DeviceError) as found:
            maker.run(device, False)
        memory = device.read(0, maker.address)
    assert (found.value.code, found.value.index) == (expected.value.code, expected.value.index)
    assert expected.value.index == place + 1
    del maker.commands[place:]
    before = maker.run(GoldenDevice(config, MEMORY), False)[0]
    mine = {command.out_addr, command.c_addr}
    for address, values in maker.data.items():
        if address not in mine:
            span = slice(address, address + values.nbytes)
            assert (memory[span] == before[span]).all(), hex(address)
