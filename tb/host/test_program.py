"""Programs: bytes and back, names, listings."""

import random

import pytest
from adagp.host.program import AssemblerError, Line, Program, disassemble, header
from adagp.spec.commands import COMMAND_BYTES, COMMAND_WORDS, FIELDS, CMode, Command, Opcode, Phase
from adagp.spec.presets import PRESETS, preset

SEED = 1


def random_program(rng, length):
    program = Program()
    for index in range(length):
        values = {
            field.name: rng.choice((field.minimum, field.maximum, rng.randint(field.minimum, field.maximum)))
            for field in FIELDS
            if field.name != "opcode"
        }
        program.append(Command(rng.choice(list(Opcode)), values), f"layer{index}")
    return program


def test_bytes_round_trip():
    print(f"seed {SEED}")
    program = random_program(random.Random(SEED), 40)
    blob = program.bytes()
    assert len(blob) == 40 * COMMAND_BYTES
    again = Program.from_bytes(blob, program.names())
    assert again.lines == program.lines
    assert again.bytes() == blob
    assert disassemble(blob, program.names()) == program.listing()


def test_words_are_little_endian_and_in_command_order():
    program = Program()
    program.append(Command(Opcode.HOST, {"phase_mask": 0xF, "layer": 0x1234}))
    program.append(Command(Opcode.END, {"phase_mask": 0x8, "a_addr": 0xDEADBEEF}))
    assert program.bytes()[:4] == bytes([Opcode.HOST, 0xF, 0x34, 0x12])
    assert int(program.words()[COMMAND_WORDS + 3]) == 0xDEADBEEF


@pytest.mark.parametrize("name", PRESETS)
def test_header_names_the_configuration(name):
    text = disassemble(bytes(Program([]).bytes()))
    assert text == ""
    command = header(preset(name))
    assert (command.opcode, command.config_hash) == (Opcode.HEADER, preset(name).config_hash)


def test_a_line_tells_shape_options_tile_waits_and_operands():
    fields = {
        "phase_mask": int(Phase.ALL), "n": 32, "c": 16, "h": 8, "w": 9, "oh": 4, "ow": 5, "q": 32, "r": 3, "s": 2,
        "stride": 2, "pad_y": 1, "pad_x": 0, "nb": 8, "yb": 4, "cb": 16, "qb": 30, "swap": 1, "relu": 1, "bias": 1,
        "c_mode": int(CMode.ADD), "wait_main": 3, "wait_update": 7, "a_addr": 0x1000, "a_id": 4, "out_addr": 0x2000,
    }  # fmt: skip
    program = Program()
    program.append(Command(Opcode.FORWARD, fields), "conv2")
    line = program.listing()
    for piece in (
        "0  forward", "conv2", "[32x8x9x16]*[3x2]->[32x4x5x32]", "stride 2", "pad 1,0", "bias", "relu", "swap", "add",
        "tile n8 y4 c16 q30", "wait main 3 update 7", "a 1000#4", "out 2000#0", "all phases",
    ):  # fmt: skip
        assert piece in line, piece
    backward = Command(Opcode.BACKWARD_DATA, {**fields, "phase_mask": int(Phase.WARMUP | Phase.BP)})
    text = disassemble(Program([]).bytes() + bytes_of(backward))
    assert "[32x4x5x32]*[3x2]->[32x8x9x16]" in text and "warmup|bp" in text


def bytes_of(command):
    program = Program()
    program.append(command)
    return program.bytes()


def test_refusals():
    with pytest.raises(AssemblerError, match="multiple of 128 bytes, not 5"):
        Program.from_bytes(b"12345")
    with pytest.raises(AssemblerError, match="command 1 has the unknown opcode 200"):
        Program.from_bytes(bytes(COMMAND_BYTES) + bytes([200]) + bytes(COMMAND_BYTES - 1))
    assert "not in the program" in Program([]).describe(3)


def test_filters_that_lie_apart_are_told():
    """In GEMMs whose d_pitch isn't operand D's."""
    for opcode, mode, told in ((Opcode.FORWARD, CMode.ADD, True), (Opcode.FORWARD, CMode.ADD_MASK, False),
                               (Opcode.AVGPOOL, CMode.NONE, False)):  # fmt: skip
        line = disassemble(Program([Line(Command(opcode, {"d_pitch": 24, "c_mode": mode}))]).bytes())
        assert ("filters 24 apart" in line) == told
