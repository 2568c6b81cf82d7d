"""The generated description, C header and reference agree with the contract and never change by themselves."""

import json
import subprocess
import sys
from contextlib import nullcontext

import pytest
from adagp.evaluation.instruments import results
from adagp.evaluation.report import figures
from adagp.evaluation.report.reference import PATH, reference
from adagp.gen import hardware_digest
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


def test_figures_are_up_to_date():
    text = figures.PATH.read_text()  # as of the hardware that it names, which needn't be that of the sources
    assert text == figures.figures(figures.named(text)), "run python -m adagp.evaluation.report.figures"


def test_figures_say_which_are_current():
    text = figures.PATH.read_text()
    sections = dict(section.split("\n\n")[:2] for section in text.split("\n## ")[1:])
    written = {path.stem: json.loads(path.read_text())["provenance"] for path in figures.RESULTS.glob("*.json")}
    seen = 0
    for title, where in sections.items():
        stem, _, part = title.partition(": ")
        origin = written[stem][part] if part else written[stem]
        current = origin.get("hardware") == figures.named(text)
        assert where.startswith(
            f"<details><summary>{'Current' if current else 'Of earlier hardware'}, by <code>nox -s "
        )
        assert origin["commit"][:12] in where
        seen += 1
    assert seen == sum(1 if "commit" in origins else len(origins) for origins in written.values()) > 0


def test_figures_of_any_hardware(tmp_path):
    origin = {"command": "x", "commit": "c" * 40, "config": "tiny", "clock_hz": 1, "memory_part": "y", "seed": 0,
              "tools": {}}  # fmt: skip
    for name, more in (("new", {"hardware": "aa"}), ("old", {"hardware": "bb"}), ("without", {})):
        results.write_results(tmp_path / f"{name}.json", {"figure": 1}, {}, {**origin, **more})
    results.merge_results(tmp_path / "several.json", "one", {"one": 1}, {}, {**origin, "hardware": "aa"})
    results.merge_results(tmp_path / "several.json", "two", {"two": 2}, {}, {**origin, "hardware": "cc"})
    assert figures.earlier("aa", tmp_path) == ["old", "several: two", "without"]
    assert figures.earlier("bb", tmp_path) == ["new", "several: one", "several: two", "without"]
    text = figures.figures("aa", tmp_path)
    assert figures.named(text) == "aa"
    assert (text.count("<summary>Current,"), text.count("<summary>Of earlier hardware,")) == (2, 3)
    with pytest.raises(ValueError, match="name no hardware"):
        figures.named("# Figures")


def test_figures_of_designs_and_methods_stand_side_by_side(tmp_path):
    origin = {"command": "x", "commit": "c" * 40, "config": "tiny", "clock_hz": 1, "memory_part": "y", "seed": 0,
              "tools": {}}  # fmt: skip
    found = {"cycles_gp_low": 7, "limit": 3, "cycles_gp_baseline": 1234, "accuracy_bp_fewer": 0.5, "sd_bp_fewer": 0.1,
             "accuracy_max": 0.25, "cost_without_sd": 9}  # fmt: skip
    results.write_results(tmp_path / "new.json", found, {}, origin)
    text = figures.figures("aa", tmp_path)
    rows = [line for line in text.splitlines() if line.startswith("|") and "---" not in line]
    assert rows == [
        "| figure | baseline | low | efficient | max |", "| `cycles_gp` | 1,234 | 7 |  |  |",
        "| `accuracy` |  |  |  | 0.25 |",
        "| method | accuracy | sd | cost |", "| `bp_fewer` | 0.5 | 0.1 |  |",
        "| figure | value |", "| `limit` | 3 |", "| `cost_without_sd` | 9 |",
    ]  # fmt: skip


def test_figures_are_checked(tmp_path, capsys):
    path = tmp_path / "figures.md"
    figures.main([str(path)])
    assert figures.named(path.read_text()) == hardware_digest.HARDWARE
    with pytest.raises(SystemExit) if figures.earlier(hardware_digest.HARDWARE) else nullcontext():
        figures.main([str(path), "--check"])
    assert "not up to date" not in capsys.readouterr().out
    path.write_text(figures.figures("aa"))
    with pytest.raises(SystemExit):
        figures.main([str(path), "--check"])
    assert "not up to date" in capsys.readouterr().out


def test_hardware_is_what_verilog_is_made_from(tmp_path):
    for name in ("spec/a.py", "rtl/b.py", "gen/verilog.py", "evaluation/report/figures.py", "host/c.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    found = hardware_digest.digest(tmp_path)
    for name, changes in (
        ("spec/a.py", True), ("rtl/b.py", True), ("gen/verilog.py", True), ("evaluation/report/figures.py", False),
        ("host/c.py", False),
    ):  # fmt: skip
        (tmp_path / name).write_text("x = 2\n")
        assert (hardware_digest.digest(tmp_path) != found) == changes
        found = hardware_digest.digest(tmp_path)
    (tmp_path / "rtl" / "b.py").rename(tmp_path / "rtl" / "d.py")
    assert hardware_digest.digest(tmp_path) != found


def test_no_verilog_is_made_from_documents():
    code = "import sys, adagp.gen.verilog, adagp.rtl.top; print(*(name for name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "adagp.rtl.top" in loaded
    assert not {f"adagp.gen.{name.removesuffix('.py')}" for name in hardware_digest.DOCUMENTS} & set(loaded)


def test_reference_is_up_to_date():
    assert PATH.read_text() == reference(), "run python -m adagp.evaluation.report.reference"
