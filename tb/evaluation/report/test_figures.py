"""``docs/figures.md``: its tables, which figures are current, whether the committed copy is up to date."""

import json

import pytest
from adagp.evaluation.instruments import results
from adagp.evaluation.report import figures
from adagp.gen.provenance import CODE, code_digest
from digests import AA, BB


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
        age = figures.age(origin, figures.named(text))
        assert where.startswith(f"<details><summary>{age}, by <code>nox -s ")
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
    assert figures.earlier(AA, tmp_path) == ["old", "several: two", "without"]
    assert figures.earlier(BB, tmp_path) == ["new", "several: one", "several: two", "without"]
    text = figures.figures(AA, tmp_path)
    assert figures.named(text) == AA
    assert (text.count("<summary>Current,"), text.count("<summary>Of earlier hardware,")) == (2, 3)
    with pytest.raises(ValueError, match="name no hardware"):
        figures.named("# Figures")


def test_figures_of_designs_and_methods_stand_side_by_side(tmp_path):
    origin = {"command": "x", "commit": "c" * 40, "config": "tiny", "clock_hz": 1, "memory_part": "y", "seed": 0,
              "tools": {}}  # fmt: skip
    found = {"cycles_gp_low": 7, "limit": 3, "cycles_gp_baseline": 1234, "accuracy_bp_fewer": 0.5, "sd_bp_fewer": 0.1,
             "accuracy_max": 0.25, "cost_without_sd": 9}  # fmt: skip
    results.write_results(tmp_path / "new.json", found, {}, origin)
    text = figures.figures(AA, tmp_path)
    rows = [line for line in text.splitlines() if line.startswith("|") and "---" not in line]
    assert rows == [
        "| figure | baseline | low | efficient | max |", "| `cycles_gp` | 1,234 | 7 |  |  |",
        "| `accuracy` |  |  |  | 0.25 |",
        "| method | accuracy | sd | cost |", "| `bp_fewer` | 0.5 | 0.1 |  |",
        "| figure | value |", "| `limit` | 3 |", "| `cost_without_sd` | 9 |",
    ]  # fmt: skip


def test_figures_are_checked(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(figures, "NOW", AA)
    path = tmp_path / "figures.md"
    figures.main([str(path)])
    assert figures.named(path.read_text()) == AA
    assert len(figures.earlier(AA)) > 10  # no result is of this hardware
    with pytest.raises(SystemExit):
        figures.main([str(path), "--check"])
    out = capsys.readouterr().out
    assert "not up to date" not in out and f"{figures.listed(AA)}; not current: {figures.earlier(AA)[0]}, " in out
    path.write_text(figures.figures(BB))
    with pytest.raises(SystemExit):
        figures.main([str(path), "--check"])
    assert "not up to date" in capsys.readouterr().out


@pytest.mark.parametrize(("origin", "age"), [
    ({"config": "tiny", "hardware": "aa"}, "Current"),
    ({"config": "tiny", "hardware": "bb"}, "Of earlier hardware"),
    ({"config": "tiny"}, "Of earlier hardware"),
    ({"config": "tiny max, wide max, ecp5", "hardware": "aa, aa"}, "Current"),
    ({"config": "tiny max, ecp5", "hardware": "aa"}, "Of earlier hardware"),
    ({"code": {"library": "aa"}}, "Current"),
    ({"code": {"library": "bb"}}, "Of an earlier library"),
    ({"code": {"library": "aa"}, "config": "ecp5", "hardware": "bb"}, "Of earlier hardware"),
    ({"code": {"library": "bb"}, "config": "ecp5", "hardware": "aa"}, "Of an earlier library"),
    ({"code": {"PEs": "bb"}, "config": "ecp5", "hardware": "aa"}, "Of earlier PEs"),
    ({"config": "wide", "hardware": ""}, "Of earlier hardware"),
    ({"config": "tiny", "hardware": "aa", "flow": "f"}, "Of an earlier flow"),
])  # fmt: skip
def test_age(origin, age):
    assert figures.age(origin, AA, "g" if "flow" in origin else None) == age


def test_documents_name_the_code_at_hand():
    """A change of the library, the link or the PEs makes their figures old, which the documents must say."""
    paths = [path for path in figures.PATH.parent.glob("*.md") if "Digests when this was written" in path.read_text()]
    assert len(paths) >= 4
    for path in paths:
        named = figures.named(path.read_text())
        assert {name: named.get(name) for name in CODE} == {name: code_digest(name) for name in CODE}, (
            f"{path.name}: run nox -s docs"
        )
