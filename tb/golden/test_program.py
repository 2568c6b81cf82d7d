"""The golden machine's control: phases, batches, ring, HOST, calibration, errors, counters, regions."""

import random
from dataclasses import replace

import numpy as np
import pytest
from adagp.golden.program import GoldenMachine
from adagp.golden.validate import validate
from adagp.spec.commands import COMMAND_BYTES, FIELDS, Command, Opcode, Phase
from adagp.spec.config import VERSION
from adagp.spec.errors import ErrorCode
from adagp.spec.microcode.machine import descriptors
from adagp.spec.microcode.program import tile_program
from adagp.spec.opcodes import DEPTHWISE
from adagp.spec.presets import PRESETS
from adagp.spec.registers import Status
from layers import LAYERS, UNWRITTEN, random_layer

TINY = PRESETS["tiny"]
PROGRAM = 1 << 14
UNIT = {"n": 1, "c": 1, "h": 1, "w": 1, "oh": 1, "ow": 1, "q": 1, "r": 1, "s": 1, "stride": 1}
UNIT |= {"nb": 1, "yb": 1, "cb": 1, "qb": 1}


def command(opcode, **fields):
    return Command(opcode, {"phase_mask": Phase.ALL, **fields})


HEADER = command(Opcode.HEADER, config_hash=TINY.config_hash, version=VERSION)
COMMIT, HOST, END = (command(opcode) for opcode in (Opcode.COMMIT, Opcode.HOST, Opcode.END))


def copy(source, target, count=1, **fields):
    """AVGPOOL with a 1x1 window: out = a * const."""
    shape = {**UNIT, "c": count, "q": count, "cb": count, "qb": count}
    return command(
        Opcode.AVGPOOL, **{**shape, "const_mantissa": 1, "a_addr": source, "out_addr": target, "track": 1, **fields}
    )


def machine(*commands, config=TINY, header=True):
    """A machine with ``commands`` at PROGRAM, everything below it writable."""
    golden = GoldenMachine(config, np.zeros(1 << 15, np.uint8))
    words = [word for c in ([HEADER] if header else []) + list(commands) for word in c.encode()]
    golden.memory[PROGRAM : PROGRAM + 4 * len(words)] = np.array(words, "<u4").view(np.uint8)
    golden.regions[1] = (0, PROGRAM)
    return golden


def words(golden, address, count=1, dtype="<i2"):
    """``count`` operands of a machine's memory, to read or to set."""
    return golden.memory[address : address + count * np.dtype(dtype).itemsize].view(dtype)


def test_host_phases_batches_and_ring():
    seen = []
    golden = machine(
        copy(4, 512, ring=1, phase_mask=Phase.BP | Phase.EVAL), HOST, copy(2, 514, phase_mask=Phase.GP), END
    )
    golden.on_command = lambda index, c: seen.append(index)
    golden.ring_base, golden.ring_stride, golden.ring_count, golden.ring_index = 100, 10, 3, 1
    for i in range(3):
        words(golden, 104 + 10 * i)[:] = 7 + i
    golden.start(PROGRAM, phase=1, batches=3)
    results = []
    while golden.run() == Status.BUSY | Status.HOST:
        results.append(int(words(golden, 512)[0]))
        golden.resume()
    assert golden.status == Status.DONE
    assert results == [8, 9, 7]
    assert seen == [0, 1, 2, 4] * 3
    assert (golden.batch, golden.ring_index) == (3, 1)
    assert words(golden, 514)[0] == 0, "a GP command doesn't run in BP"
    assert [c["commands"] for c in golden.counters] == [0, 12, 0, 0]


def test_calibration_tries_adjusts_and_commits_all():
    golden = machine(
        copy(0, 512, 4, a_id=1, out_id=2, const_exponent=3), copy(512, 520, 4, a_id=2, out_id=3), COMMIT, END
    )
    words(golden, 0, 4)[:] = 1, 2, 3, 1000
    golden.set_exponents(1, -10)
    golden.start(PROGRAM, batches=1, calibrate=True)
    assert golden.run() == Status.DONE
    # Top bit: bit_length(1000) - 10 + 3 = 3; the operand gets 14 bits below it.
    assert golden.get_exponents(2) == golden.get_exponents(3) == (-11, None)
    assert words(golden, 512, 8).tolist() == [16, 32, 48, 16000] * 2
    assert golden.counters[0]["saturations"] == 0


def test_calibration_moves_every_weight_to_its_next_exponent():
    def step(weight):
        place = 64 * weight
        return command(
            Opcode.UPDATE, count=1, a_addr=place, b_addr=place + 16, c_addr=place + 32, out_addr=place + 48,
            a_id=1, b_id=2 * weight, out_id=2 * weight + 1,
        )  # fmt: skip

    golden = machine(step(1), step(2), COMMIT, END)
    golden.set_hyper(0, 1, 0)
    for weight, g in ((1, 100), (2, 30000)):
        words(golden, 64 * weight)[:] = g
        words(golden, 64 * weight + 16)[:] = 5
        golden.set_exponents(2 * weight, 0, 0)
        golden.set_exponents(2 * weight + 1, -128, -128)
    golden.start(PROGRAM, batches=1, calibrate=True)
    assert golden.run() == Status.DONE
    for weight, value in ((1, 5 - 100), (2, 5 - 30000)):
        cur, _ = golden.get_exponents(2 * weight)
        assert cur == abs(value).bit_length() - 14, "the exponent it was written at is the one it is read at"
        mantissa = int(words(golden, 64 * weight + 16)[0]) * 65536 + int(words(golden, 64 * weight + 32)[0])
        assert mantissa == value * 2 ** (16 - cur)
        v, cur_v = int(words(golden, 64 * weight + 48, dtype="<i4")[0]), golden.get_exponents(2 * weight + 1)[0]
        assert v * 2.0 ** (cur_v - 16) == 5 - value


def test_bias_place_is_left_alone_without_bias():
    fields = {**UNIT, "a_addr": 0, "b_addr": 2, "out_addr": 512, "out_id": 1}
    golden = machine(command(Opcode.BACKWARD_WEIGHT, **fields), END)
    words(golden, 0, 2)[:] = 3, 5
    words(golden, 512, 2)[:] = 99, 99
    golden.start(PROGRAM)
    golden.run()
    assert words(golden, 512, 2).tolist() == [15, 99]


@pytest.mark.parametrize(
    ("code", "index", "commands"),
    [
        (ErrorCode.BAD_OPCODE, 1, [copy(0, 2, c_mode=3, wait_main=2)]),
        (ErrorCode.BAD_WAIT, 2, [copy(0, 2), copy(0, 2, wait_main=2)]),
        (ErrorCode.BAD_WAIT, 2, [copy(0, 2), copy(0, 2, wait_update=1)]),
        (ErrorCode.BAD_TENSOR, 1, [copy(0, 2, c_id=64)]),
        (ErrorCode.BAD_TENSOR, 1, [command(Opcode.UPDATE, hyper=14)]),
        (ErrorCode.BAD_TENSOR, 2, [copy(0, 2), command(Opcode.COMMIT, out_id=64)]),
        (ErrorCode.BAD_ADDRESS, 1, [copy(1, 2)]),
        (ErrorCode.BAD_ADDRESS, 1, [command(Opcode.UPDATE, a_addr=4)]),
        (ErrorCode.BAD_GEOMETRY, 1, [copy(0, 2, pad_x=1)]),
        (ErrorCode.BAD_GEOMETRY, 1, [copy(0, 2, oh=2)]),
        (ErrorCode.BAD_GEOMETRY, 1, [copy(0, 2, q=2)]),
        (ErrorCode.BAD_GEOMETRY, 1, [copy(0, 2, stride=0)]),
        (ErrorCode.BAD_TILE, 1, [copy(0, 2, nb=0)]),
        (ErrorCode.ACC_OVERFLOW, 1, [command(Opcode.BACKWARD_WEIGHT, **{**UNIT, "n": 65535, "h": 3, "oh": 3})]),
        (ErrorCode.WRITE_REGION, 1, [copy(0, PROGRAM - 2, 2)]),
        (ErrorCode.WRITE_REGION, 1, [command(Opcode.UPDATE, count=5, b_addr=PROGRAM - 8)]),
        (ErrorCode.READ_FAULT, 1, [copy(1 << 15, 2)]),
        (ErrorCode.CONFIG_MISMATCH, 1, [command(Opcode.HEADER, config_hash=1, version=VERSION)]),
        (ErrorCode.CONFIG_MISMATCH, 1, [command(Opcode.HEADER, config_hash=TINY.config_hash, version=VERSION + 1)]),
    ],
)  # fmt: skip
def test_errors_name_the_command(code, index, commands):
    golden = machine(*commands, END)
    golden.start(PROGRAM)
    assert golden.run() == Status.ERROR
    assert (golden.error, golden.error_index) == (code, index)
    golden.clear()
    assert (golden.status, golden.error) == (0, ErrorCode.NONE)


def test_programs_that_are_none():
    golden = machine(COMMIT, END, header=False)
    golden.start(PROGRAM)
    assert (golden.run(), golden.error) == (Status.ERROR, ErrorCode.NO_HEADER)
    golden = machine(COMMIT)
    words(golden, PROGRAM + COMMAND_BYTES, dtype="<u4")[0] |= 0xEE
    golden.start(PROGRAM)
    assert (golden.run(), golden.error, golden.error_index) == (Status.ERROR, ErrorCode.BAD_OPCODE, 1)
    golden.memory = golden.memory[: PROGRAM + COMMAND_BYTES]
    golden.start(PROGRAM)
    assert (golden.run(), golden.error) == (Status.ERROR, ErrorCode.READ_FAULT)


def test_write_outside_the_memory():
    golden = machine(copy(0, 1 << 15), END)
    golden.regions[0] = (0, 1 << 20)
    golden.start(PROGRAM)
    assert (golden.run(), golden.error) == (Status.ERROR, ErrorCode.WRITE_FAULT)


@pytest.mark.parametrize(
    ("opcode", "width"),
    # With 8 bits the least mantissa is frequent, and the reference's padding is less than that.
    [(opcode, 16) for opcode in (*LAYERS, *DEPTHWISE)]
    + [(opcode, 8) for opcode in (*LAYERS, *DEPTHWISE) if opcode != Opcode.MAXPOOL],
)
@pytest.mark.parametrize("switched", [False, True])
def test_random_layers(opcode, width, switched):
    """Single commands through the whole machine, against torch with the epilogue in Python integers."""
    variant = "low" if width == 16 else "baseline"
    config = replace(
        PRESETS["tiny"], operand_width=width, depthwise=True, clamps=switched, matmul=switched, variant=variant
    )
    rng = random.Random(opcode * 100 + width)
    print(f"seed {opcode * 100 + width}")
    seen = 0
    for _ in range(12):
        layer = random_layer(config, rng, opcode)
        seen += _run_layer(config, layer)
    assert seen > 0


def _run_layer(config, layer):
    """Run a layer's command; 1 if it was a real one, 0 if the generator made a dry pass of it."""
    task = layer.task
    if task.dry:
        return 0
    fields = {field.name: getattr(task, field.name) for field in FIELDS if field.name != "opcode"}
    fields |= {"a_id": 10, "b_id": 11, "c_id": 12, "scale_id": 13, "phase_mask": 15}
    run = Command(Opcode(task.opcode), fields)
    assert validate(run, config) == ErrorCode.NONE
    golden = GoldenMachine(config, np.zeros(1 << 16, np.uint8))
    program = 1 << 15
    head = replace(HEADER, fields={**HEADER.fields, "config_hash": config.config_hash})
    image = np.array(head.encode() + run.encode() + END.encode(), "<u4").view(np.uint8)
    golden.memory[program : program + image.size] = image
    golden.regions[0] = (0, program)
    dtype = f"<i{config.operand_bytes}"
    unwritten = np.array([UNWRITTEN & 0x7FFF]).astype(dtype)[0]
    for address, expected in layer.expected.items():
        words(golden, address, expected.size, dtype)[:] = unwritten
    for address, values in layer.operands.items():
        words(golden, address, values.size, dtype)[:] = values
    for name in ("a", "b", "c", "out", "scale"):
        golden.set_exponents(getattr(run, f"{name}_id"), getattr(task, f"exp_{name}"))
    golden.start(program)
    assert golden.run() == Status.DONE, golden.error
    for address, expected in layer.expected.items():
        found = words(golden, address, expected.size, dtype)
        assert found.tolist() == np.where(expected == UNWRITTEN, unwritten, expected).tolist()
    gemms = [d for engine, d in descriptors(tile_program, config, [task]) if engine == "compute" and d["mode"] == 0]
    assert golden.counters[0]["macs"] == sum(d["n_a"] * d["n_b"] * d["n_k"] for d in gemms)
    assert golden.counters[0]["saturations"] == layer.saturations
    if task.track:
        assert golden.exponents.shadow == {run.out_id: layer.top}
    return 1
