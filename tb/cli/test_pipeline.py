"""``adagp pipeline``: drawings, data, the comparison, and what it says about mistakes."""

import json

import pytest


def test_draw(adagp, tmp_path):
    png, svg, data = (tmp_path / name for name in ("a.png", "a.svg", "a.json"))
    options = ("--schedule", "chimera", "--batches", "gp,bp", "--png", png, "--svg", svg, "--json", data)
    code, out, err = adagp("pipeline", "draw", *options)
    assert (code, err) == (0, "")
    rows = [line for line in out.splitlines() if line.startswith("device ")]
    assert len(rows) == 4 and rows[0].startswith("device 0 f0af1aF0af2b") and "20 steps, 20.0 % idle" in out
    assert png.read_bytes().startswith(b"\x89PNG") and "<svg" in svg.read_text()
    shown = json.loads(data.read_text())
    assert (shown["steps"], shown["batches"], len(shown["lists"])) == (20, ["gp", "bp"], 4)


def test_draw_with_a_link_and_other_durations(adagp):
    code, out, _ = adagp("pipeline", "draw", "--devices", "2", "--micro-batches", "1", "--latency", "0.5",
                         "--backward", "3")  # fmt: skip
    assert code == 0 and "9 steps" in out  # 1 + 1/2 + 1, 3 + 1/2 + 3


def test_compare(adagp, tmp_path):
    code, out, err = adagp("pipeline", "compare", "--json", tmp_path / "a.json")
    assert code == 0 and "without stale-registers: devices = 4 must be odd" in err
    found = {row["name"]: row for row in json.loads((tmp_path / "a.json").read_text())["schedules"]}
    assert [found[name]["bp"] for name in ("gpipe", "1f1b", "chimera", "zb-h1")] == [21, 21, 16, 15]
    assert [found[name]["gp_bp"] for name in ("gpipe", "1f1b", "chimera", "zb-h1")] == [25, 25, 20, 19]
    for title in ("GPipe", "1F1B (DAPPLE)", "Chimera", "ZB-H1", "interleaved 1F1B", "stale weights, 1F1B"):
        assert title in out


@pytest.mark.parametrize("command", ["draw", "compare"])
def test_help_teaches(adagp, command):
    code, out, _ = adagp("pipeline", command, "--help")
    assert code == 0 and f"Example: adagp pipeline {command}" in out


@pytest.mark.parametrize(("arguments", "message"), [
    (("--schedule", "none"), "schedule = 'none' must be one of gpipe, "),
    (("--schedule", "chimera", "--devices", "3"), "chimera: devices = 3 must be even"),
    (("--batches", "bp,eval"), "batches = 'bp,eval' must be bp and gp with commas between them, not 'eval'"),
    (("--backward", "nan"), "backward = nan must be a number up to 1000"),
    (("--latency", "-1"), "latency = -1 must be at least 0"),
    (("--png", "a.svg"), "--png = a.svg must end in .png"),
    (("--png", "/dev/null/a.png"), "--png: /dev/null/a.png can't be written"),
])  # fmt: skip
def test_a_mistake_gets_one_line(adagp, arguments, message):
    code, out, err = adagp("pipeline", "draw", *arguments)
    assert (code, out) == (2, "") and err.startswith("error: ") and err.count("\n") == 1 and message in err
