"""Lines on where figures come from, and the widths of the committed tables."""

import json
import re
from pathlib import Path

import pytest
from adagp.evaluation.report import provenance

ROOT = Path(__file__).parents[3]
ORIGIN = {"command": "x", "commit": "c0ffee" * 6, "seed": [1, 2], "tools": {"yosys": "1.0", "c++": "g++ <12>"}}


@pytest.mark.parametrize("command, session", [
    ("python -m adagp.host.bench_train", "nox -s bench_train"),
    ("python -m adagp.evaluation.benches.train", "nox -s bench_train"),
    ("python -m adagp.host.bench_controls --data-dir FOLDER", "nox -s bench_controls -- --data-dir FOLDER"),
    ("python -m tb.mutation --count 250 --seed 1", "nox -s mutate -- --count 250 --seed 1"),
    ("python -m tb.formal.sby", "nox -s formal_sby"),
    ("python -m adagp.boards.bench_build", "nox -s bench_board_build"),
    ("make it", "make it"),
])  # fmt: skip
def test_a_command_is_named_by_its_session(command, session):
    assert provenance.session(command) == session


def test_each_result_has_a_session_that_exists():
    sessions = set(re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text(), re.MULTILINE))
    seen = 0
    for path in (ROOT / "results").glob("*.json"):
        origins = json.loads(path.read_text())["provenance"]
        for origin in [origins] if "commit" in origins else origins.values():
            assert provenance.session(origin["command"]).split()[2] in sessions, (path.name, origin["command"])
            seen += 1
    assert seen > 20


def test_details_are_html():
    text = "Commit <code>c0ffeec0ffee</code>; seed [1, 2]; yosys 1.0, c++ g++ &lt;12&gt;."
    assert provenance.details(ORIGIN) == text
    assert provenance.fold("short", text) == f"<details><summary>short</summary>{text}</details>"


def test_tables_are_as_wide_as_a_screen_at_most():
    seen = 0
    for path in sorted((ROOT / "docs").glob("*.md")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.startswith("|"):
                columns = re.sub(r"`[^`]*`", "", line).replace("\\|", "").count("|") - 1
                assert columns <= 9, f"{path.name}:{number} has {columns} columns"
                seen += 1
    assert seen > 100
