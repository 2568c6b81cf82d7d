"""Results files: form, provenance, what is refused."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from adagp.evaluation.instruments import results
from adagp.gen import provenance as origins
from adagp.spec.presets import preset

ROOT = Path(__file__).parents[3]
PROVENANCE = {
    "commit", "hardware", "command", "config", "config_hash", "clock_hz", "memory_part", "seed", "tools", "processor",
}  # fmt: skip


def test_provenance_says_what_ran():
    config = preset("ecp5")
    found = origins.provenance("a command", config, [0, 1], "abc")
    assert set(found) == PROVENANCE
    assert (found["config"], found["clock_hz"], found["memory_part"]) == ("ecp5", 100_000_000, "ddr3-800-x16")
    assert (found["command"], found["seed"], found["commit"]) == ("a command", [0, 1], "abc")
    assert found["hardware"] == "0123ecp5" and found["processor"]
    assert re.match(r"\d+\.\d+", found["tools"]["torch"]) and re.match(r"\d+\.\d+", found["tools"]["python"])


def test_provenance_of_the_library_names_no_hardware():
    found = origins.provenance("a command", None, 0, "abc", "library")
    assert set(found) == PROVENANCE - {"hardware", "config", "config_hash", "clock_hz", "memory_part"} | {"code"}
    assert found["code"] == {"library": origins.code_digest("library")}
    assert re.fullmatch(r"[0-9a-f]{16}", found["code"]["library"])


def test_commit_is_that_of_the_checkout():
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", origins.commit())


def test_a_commit_is_dirty_once_sources_differ(tmp_path, monkeypatch):
    def git(*words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tmp_path, check=True)

    source, result = tmp_path / "gen" / "provenance.py", tmp_path / "results" / "train.json"
    for file in (source, result):
        file.parent.mkdir()
        file.write_text("first\n")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "first")):
        git(*words)
    monkeypatch.setattr(origins, "__file__", str(source))
    clean = origins.commit()
    assert re.fullmatch("[0-9a-f]{40}", clean)
    result.write_text("second\n")
    (result.parent / "new.json").write_text("{}\n")
    assert origins.commit() == clean
    source.write_text("second\n")
    assert origins.commit() == clean + "-dirty"


def test_commit_without_git(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert origins.commit() == "unknown"


def test_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "results" / "x.json"
    figures = {"accuracy": 0.5, "cycles": 7, "equal": True}
    results.write_results(path, figures, {"runs": [1, 2]}, {"seed": 0})
    written = json.loads(path.read_text())
    assert written == {"figures": figures, "details": {"runs": [1, 2]}, "provenance": {"seed": 0}}
    assert written["figures"]["equal"] is True
    with pytest.raises(TypeError):
        results.write_results(path, figures, object(), {})
    assert json.loads(path.read_text()) == written
    assert [file.name for file in path.parent.iterdir()] == ["x.json"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "0.5", None, [1]])
def test_a_figure_is_a_number(tmp_path, value):
    with pytest.raises(ValueError, match=r"^the figure loss must be a finite number, true or false, not"):
        results.write_results(tmp_path / "x.json", {"loss": value}, {}, {})
    assert not (tmp_path / "x.json").exists()


@pytest.mark.parametrize("path", sorted((ROOT / "results").glob("*.json")), ids=lambda path: path.stem)
def test_committed_results_have_the_form(path):
    written = json.loads(path.read_text())
    assert set(written) == {"figures", "details", "provenance"}
    assert written["figures"]
    assert all(isinstance(value, bool | int | float) for value in written["figures"].values())
    origins = [written["provenance"]] if "commit" in written["provenance"] else list(written["provenance"].values())
    always = {"commit", "command", "seed", "tools"}
    assert origins and all(set(origin) >= always for origin in origins)
    known = PROVENANCE - {"hardware", "processor"}
    assert all(set(origin) >= known or "config" not in origin for origin in origins)
    assert not re.search(r"/(work|home|root|tmp|opt)/", path.read_text())


def test_parts_of_a_file_are_replaced_one_by_one(tmp_path):
    path = tmp_path / "x.json"
    results.merge_results(path, "first", {"a": 1, "old": 2}, ["x"], {"seed": 1})
    results.merge_results(path, "second", {"b": 3}, [], {"seed": 2})
    results.merge_results(path, "first", {"a": 4}, ["y"], {"seed": 3})
    written = json.loads(path.read_text())
    assert written["figures"] == {"a": 4, "b": 3}
    assert written["details"]["first"] == {"figures": ["a"], "details": ["y"]}
    assert written["provenance"] == {"first": {"seed": 3}, "second": {"seed": 2}}
    with pytest.raises(ValueError, match=r"\['b'\] belong to another part than first"):
        results.merge_results(path, "first", {"b": 1}, [], {})
    assert json.loads(path.read_text()) == written
