"""The generated description, C header and reference agree with the contract and never change by themselves."""

import json
import subprocess

import pytest
from adagp.evaluation.report.reference import PATH, reference
from adagp.gen.description import describe, member_docs
from adagp.gen.header import header
from adagp.spec.commands import COMMAND_WORDS, FIELDS, Command, Opcode
from adagp.spec.config import Config
from adagp.spec.errors import ErrorCode
from adagp.spec.layout import Field
from adagp.spec.presets import PRESETS, preset
from adagp.spec.registers import DEVICE_ID, REGISTERS
from bench import seeded

C_MAIN = """
#include <stdio.h>
#include <string.h>
#include "adagp.h"

int main(void) {
    uint32_t command[ADAGP_COMMAND_WORDS];
    memset(command, 0, sizeof command);
%s
    for (int i = 0; i < ADAGP_COMMAND_WORDS; i++) printf("%%u\\n", command[i]);
%s
    return 0;
}
"""


def compile_and_run(tmp_path, source):
    (tmp_path / "adagp.h").write_text(header(preset("tiny")))
    (tmp_path / "main.c").write_text(source)
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    subprocess.run(["gcc", *flags, "main.c", "-o", "main"], cwd=tmp_path, check=True, timeout=60)
    return subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True, timeout=60).stdout.split()


def test_header_packs_commands_as_python_does(tmp_path):
    rng = seeded(1)
    values = {f.name: rng.randint(f.minimum, f.maximum) for f in FIELDS if f.name != "opcode"}
    stale = "".join(f"    ADAGP_SET(command, {f.name.upper()}, -1);\n" for f in FIELDS)
    sets = "".join(f"    ADAGP_SET(command, {name.upper()}, {value}u);\n" for name, value in values.items())
    gets = "".join(
        f'    printf("%d\\n", ADAGP_GET_SIGNED(command, {f.name.upper()}));\n'
        if f.signed
        else f'    printf("%u\\n", ADAGP_GET(command, {f.name.upper()}));\n'
        for f in FIELDS
    )
    seen = compile_and_run(
        tmp_path, C_MAIN % (stale + sets + "    ADAGP_SET(command, OPCODE, ADAGP_OPCODE_END);", gets)
    )
    seen = [int(text) for text in seen]
    assert seen[:COMMAND_WORDS] == Command(Opcode.END, values).encode()
    assert seen[COMMAND_WORDS:] == [{"opcode": Opcode.END, **values}[f.name] for f in FIELDS]
    assert len(seen) == COMMAND_WORDS + len(FIELDS) > 0


def test_header_packs_registers_as_python_does(tmp_path):
    rng = seeded(2)
    puts, gets, words, expected = "", "", [], []
    for r in REGISTERS:
        alone = [f for i, f in enumerate(r.fields) if not any(f.overlaps(other) for other in r.fields[:i])]
        values = {f.name: rng.randint(f.minimum, f.maximum) for f in alone}
        if values:
            words.append(r.pack(**values))
            bits = " | ".join(f"ADAGP_REG_BITS({r.name}, {name.upper()}, {value})" for name, value in values.items())
            puts += f'    printf("%u\\n", {bits});\n'
        for f in r.fields:
            sign = "_SIGNED" if f.signed else ""
            gets += f'    printf("{"%d" if f.signed else "%u"}\\n", '
            gets += f"ADAGP_REG_GET{sign}({words[-1]}u, {r.name}, {f.name.upper()}));\n"
            expected.append(r.unpack(words[-1])[f.name])
    seen = [int(text) for text in compile_and_run(tmp_path, C_MAIN % ("", puts + gets))[COMMAND_WORDS:]]
    assert seen == words + expected and len(words) > 5 and len(expected) > len(words)


def test_header_names_registers_and_errors(tmp_path):
    names = [f"ADAGP_REG_{r.name}" for r in REGISTERS] + [f"ADAGP_ERROR_{e.name}" for e in ErrorCode]
    gets = "".join(f'    printf("%u\\n", {name});\n' for name in names)
    seen = compile_and_run(tmp_path, C_MAIN % ("", gets))[COMMAND_WORDS:]
    assert [int(text) for text in seen] == [r.offset for r in REGISTERS] + [int(e) for e in ErrorCode]


@pytest.mark.parametrize("name", PRESETS)
def test_description_holds_the_whole_configuration(name):
    config = preset(name)
    data = json.loads(json.dumps(describe(config)))
    assert Config.from_dict(data["config"]) == config
    assert data["config_hash"] == config.config_hash
    assert data["id"] == DEVICE_ID
    assert {r["name"]: r["offset"] for r in data["registers"]} == {r.name: r.offset for r in REGISTERS}
    for found, r in zip(data["registers"], REGISTERS, strict=True):
        assert found["width"] == r.width
        assert tuple(Field(word=0, **field) for field in found["fields"]) == r.fields
    assert len(data["command"]["fields"]) == len(FIELDS) > 0


def test_every_error_is_described():
    docs = member_docs(ErrorCode)
    assert [name for name, doc in docs.items() if not doc] == ["NONE"]
    assert docs["BAD_TILE"] == "A tile size is 0."


def test_reference_is_up_to_date():
    assert PATH.read_text() == reference(), "run python -m adagp.evaluation.report.reference"
