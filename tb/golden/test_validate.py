"""The golden model's judgement of commands against the sequencer's microcode, and both at every limit."""

from dataclasses import replace

import pytest
from adagp.golden.validate import validate
from adagp.spec.commands import FIELDS, CMode, Command, Opcode
from adagp.spec.errors import ErrorCode
from adagp.spec.microcode.compiler import compile_program
from adagp.spec.microcode.isa import interpret
from adagp.spec.microcode.machine import TileError, constants, task
from adagp.spec.microcode.program import tile_program
from adagp.spec.opcodes import DEPTHWISE, GEMMS, NORMS, POOLS
from hypothesis import given, settings
from hypothesis import strategies as st
from limits import CASES, CONFIGS

TILES = {ErrorCode.A_OVERFLOW, ErrorCode.B_OVERFLOW, ErrorCode.C_OVERFLOW, ErrorCode.BIAS_OVERFLOW}
PROGRAMS = {name: compile_program(config) for name, config in CONFIGS.items()}


class _Accepted(Exception):
    pass


class _Judge:
    """A machine that is content with a command's first descriptor."""

    def fill(self, **_):
        raise _Accepted

    def fail(self, code):
        raise TileError(code)


def judged(run):
    """The error code that ``run(machine)`` ends with."""
    try:
        run(_Judge())
    except _Accepted:
        return ErrorCode.NONE
    except TileError as error:
        return error.code
    raise AssertionError("no descriptor")


def by_microcode(name, fields):
    return judged(lambda machine: interpret(PROGRAMS[name], CONFIGS[name], task(fields), machine))


def by_python(name, fields):
    return judged(lambda machine: tile_program(task(fields), constants(CONFIGS[name]), machine))


def by_golden(name, fields):
    """In a variant that has all there is, for opcodes aren't the microcode's business."""
    fields, config = dict(fields), CONFIGS[name]
    variant = "low" if config.operand_width == 16 else "baseline"
    return validate(Command(Opcode(fields.pop("opcode")), fields), replace(config, variant=variant))


@pytest.mark.parametrize(("name", "fields", "code", "sequencer"), CASES)
def test_limits(name, fields, code, sequencer):
    assert by_golden(name, fields) == code
    assert by_microcode(name, fields) == sequencer
    assert (by_python(name, fields) == ErrorCode.NONE) == (sequencer == ErrorCode.NONE)


WIDTHS = {field.name: field.width for field in FIELDS}
NUMBERS = st.one_of(st.integers(0, 4), st.integers(0, 300), st.sampled_from([127, 128, 255, 256, 16384, 32768, 65535]))


@st.composite
def commands(draw):
    """Fields of any size, mostly small; half of the time a shape that agrees with itself."""
    fields = {
        name: draw(NUMBERS) for name in ("n", "c", "h", "w", "oh", "ow", "q", "r", "s", "stride", "pad_y", "pad_x")
    }
    fields |= {name: draw(st.sampled_from([0, 1, 1, 1, 2, 5])) for name in ("nb", "yb", "cb", "qb")}
    fields |= {name: draw(st.integers(0, 1)) for name in ("bias", "swap", "out_outer", "reorganise")}
    for name, channels in (("x", "c"), ("y", "q"), ("c", "q"), ("d", "c")):
        least = fields[channels]
        pitches = [0] * 6 + [least, least + 1, 1, 5, 1 << 20, (1 << 24) - 1]
        fields[f"{name}_pitch"] = draw(st.sampled_from(pitches))
    fields = {name: value & (1 << WIDTHS[name]) - 1 for name, value in fields.items()}
    opcode = draw(st.sampled_from((*GEMMS, *POOLS, *DEPTHWISE, *NORMS)))
    if draw(st.booleans()):
        fields |= {name: max(1, fields[name]) for name in fields if name not in ("pad_y", "pad_x")}
        fields["pad_y"], fields["pad_x"] = fields["pad_y"] % fields["r"], fields["pad_x"] % fields["s"]
        for size, out, kernel, pad in (("h", "oh", "r", "pad_y"), ("w", "ow", "s", "pad_x")):
            fields[size] = max(fields[size], fields[kernel])
            most = (fields[size] + 2 * fields[pad] - fields[kernel]) // fields["stride"] + 1
            fields[out] = draw(st.integers(1, min(most, 65535)))
        if opcode not in GEMMS:
            fields["q"] = fields["c"]
        if opcode in NORMS and draw(st.integers(0, 3)):
            fields |= {"r": 1, "s": 1, "stride": 1, "pad_y": 0, "pad_x": 0, "oh": fields["h"], "ow": fields["w"]}
    return {"opcode": opcode, **fields}


@settings(max_examples=600, deadline=None, derandomize=True)
@given(name=st.sampled_from(sorted(CONFIGS)), fields=commands())
def test_golden_predicts_the_microcode(name, fields):
    """Exactly, but for what depends on tiles; a tile whose very size is 2^30 or more counts as BAD_GEOMETRY."""
    if CONFIGS[name].operand_width == 8:
        fields |= {"reorganise": 0}  # nothing of the predictor's
        fields |= {"opcode": Opcode.AVGPOOL} if fields["opcode"] == Opcode.REORGANISE else {}
    name = "depthwise" if fields["opcode"] in DEPTHWISE else "norm" if fields["opcode"] in NORMS else name
    expected, found = by_golden(name, fields), by_microcode(name, fields)
    if expected != ErrorCode.NONE:
        assert found == expected
    else:
        assert found in {ErrorCode.NONE, ErrorCode.BAD_GEOMETRY, *TILES}
        if fields["stride"] == 1:
            assert found != ErrorCode.BAD_GEOMETRY


UNBUILT = (*DEPTHWISE, *NORMS)

OF_PREDICTOR = (
    (Opcode.FORWARD, {"c_mode": CMode.SUB}), (Opcode.REORGANISE, {}), (Opcode.ADAM, {}),
    (Opcode.UPDATE, {"quality": 1}), (Opcode.UPDATE, {"source": 1}), (Opcode.FORWARD, {"reorganise": 1}),
    (Opcode.BACKWARD_DATA, {"predictor": 1}),
)  # fmt: skip


@pytest.mark.parametrize(("fields", "code"), [
    ({"opcode": Opcode.FORWARD, "c_mode": 3, "wait_main": 9}, ErrorCode.BAD_OPCODE),
    *(({"opcode": Opcode.FORWARD, "c_mode": mode, "variant": "max"}, ErrorCode.BAD_OPCODE) for mode in range(5, 8)),
    *(({"opcode": opcode, "wait_main": 9, "variant": v}, ErrorCode.BAD_OPCODE)
      for opcode in UNBUILT for v in ("baseline", "max")),
    ({"opcode": Opcode.FORWARD, "c_mode": 2, "wait_main": 9, "a_addr": 1}, ErrorCode.BAD_WAIT),
    ({"opcode": Opcode.FORWARD, "c_mode": 2, "wait_main": 8, "c_id": 64, "a_addr": 1}, ErrorCode.BAD_TENSOR),
    ({"opcode": Opcode.FORWARD, "c_id": 63, "a_addr": 1}, ErrorCode.BAD_ADDRESS),
    ({"opcode": Opcode.UPDATE, "c_mode": 3, "wait_update": 1}, ErrorCode.NONE),
    ({"opcode": Opcode.UPDATE, "c_mode": 3, "wait_update": 2}, ErrorCode.BAD_WAIT),
    ({"opcode": Opcode.COMMIT, "c_mode": 3, "wait_update": 2, "a_addr": 1}, ErrorCode.NONE),
    *(({"opcode": opcode, "wait_main": 9, **fields}, ErrorCode.BAD_OPCODE) for opcode, fields in OF_PREDICTOR),
    *(({"opcode": opcode, "wait_main": 9, "variant": "low", **fields}, ErrorCode.BAD_WAIT)
      for opcode, fields in OF_PREDICTOR),
    ({"opcode": Opcode.UPDATE, "source": 3, "wait_main": 9, "variant": "max"}, ErrorCode.BAD_OPCODE),
    ({"opcode": Opcode.MAXPOOL, "predictor": 1, "wait_main": 9, "variant": "max"}, ErrorCode.BAD_OPCODE),
    ({"opcode": Opcode.FORWARD, "predictor": 1, "reorganise": 1, "variant": "max"}, ErrorCode.BAD_OPCODE),
    ({"opcode": Opcode.FORWARD, "wait_predictor": 3, "variant": "max"}, ErrorCode.BAD_WAIT),
    ({"opcode": Opcode.ADAM, "d_addr": 4, "variant": "max"}, ErrorCode.BAD_ADDRESS),
    ({"opcode": Opcode.ADAM, "hyper": 11, "variant": "max"}, ErrorCode.BAD_TENSOR),
    ({"opcode": Opcode.ADAM, "hyper": 10, "variant": "max"}, ErrorCode.NONE),
    ({"opcode": Opcode.UPDATE, "scale_id": 64, "variant": "max"}, ErrorCode.BAD_TENSOR),
])  # fmt: skip
def test_first_reason(fields, code):
    fields = dict(fields)
    config = replace(CONFIGS["tiny"], variant=fields.pop("variant", "baseline"))
    command = Command(fields.pop("opcode"), fields)
    assert validate(command, config, {"wait_main": 8, "wait_update": 1, "wait_predictor": 2}) == code
