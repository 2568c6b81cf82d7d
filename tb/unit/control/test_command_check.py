"""Fetch's refusals against the golden model's judgement: random commands around every limit."""

from collections import Counter
from dataclasses import replace

import pytest
from adagp.golden.validate import validate
from adagp.rtl.control.command_check import CommandCheck
from adagp.spec.commands import Command, Opcode
from adagp.spec.errors import ErrorCode
from adagp.spec.opcodes import DEPTHWISE, GEMMS, NORMS, POOLS, UPDATES
from adagp.spec.presets import preset
from bench import seeded, simulate

JUDGED = (ErrorCode.BAD_OPCODE, ErrorCode.BAD_WAIT, ErrorCode.BAD_TENSOR, ErrorCode.BAD_ADDRESS)
"""Errors that are found here; the sequencer finds the rest."""
WORK = (*(*GEMMS, *POOLS) * 3, *DEPTHWISE, *NORMS, *(Opcode.UPDATE, Opcode.ADAM) * 4)
GIVEN = 5


def random_command(config, rng):
    """Mostly right; each mistake is there now and then, alone or not."""

    def rarely(wrong, right):
        return wrong if rng.random() < 0.06 else right

    fields = {f"{name}_id": rarely(config.n_tensors, rng.randrange(config.n_tensors)) for name in ("a", "b", "c", "d")}
    fields |= {name: rarely(config.n_tensors, config.n_tensors - 1) for name in ("out_id", "scale_id")}
    for name in ("a", "b", "c", "d", "out"):
        fields[f"{name}_addr"] = rarely(rng.choice((1, 2, 4)), config.beat_bytes * rng.randrange(9))
    return Command(rng.choice(WORK), {
        **fields, "phase_mask": 15, "c_mode": rarely(rng.choice((3, 5, 6, 7)), rng.choice((0, 1, 2, 4))),
        "bound_mantissa": rng.choice((0, 0, 1, 40000)), "slope": rng.choice((0, 0, 1, 40000)),
        "reorganise": rarely(1, 0),
        "predictor": rarely(1, 0), "quality": rarely(1, 0), "source": rarely(rng.randrange(4), 0),
        "y_pitch": rng.choice((0, 1, config.update_lanes)),
        "hyper": config.n_hyper - rng.choice((0, 2, 3, 5, 6, 7, 8)), "wait_main": rarely(GIVEN + 1, GIVEN),
        "wait_update": rarely(GIVEN + 1, rng.randrange(GIVEN + 1)),
    })  # fmt: skip


@pytest.mark.parametrize(("variant", "fields"), [
    ("baseline", {}), ("low", {}), ("baseline", {"clamps": True}), ("low", {"clamps": True}),
    ("max", {"streamed_predictions": True, "update_lanes": 2}),
], ids=str)  # fmt: skip
def test_refusals(variant, fields):
    config = replace(preset("tiny"), variant=variant, **fields)
    rng = seeded(61)
    dut = CommandCheck(config)
    seen = Counter()

    async def bench(ctx):
        ctx.set(dut.given, {"main": GIVEN, "update": GIVEN})
        for _ in range(1500):
            command = random_command(config, rng)
            ctx.set(dut.fetched, {"command": {"opcode": command.opcode, **command.fields}, "index": 1, "fault": 0})
            expected = validate(command, config, {"wait_main": GIVEN, "wait_update": GIVEN})
            expected = expected if expected in JUDGED or command.opcode in UPDATES else ErrorCode.NONE
            await ctx.tick()
            assert ctx.get(dut.code) == expected, command
            seen[expected] += 1

    simulate(dut, bench)
    assert all(seen[code] > 20 for code in (*JUDGED, ErrorCode.NONE))
    assert (seen[ErrorCode.BAD_GEOMETRY] > 5) is config.streams
