"""Which figures of ``docs/implementation.md`` are current, and whether the committed copy is up to date."""

import json
import re
from contextlib import nullcontext

import pytest
from adagp.evaluation.instruments.results import write_results
from adagp.evaluation.report import figures, implementation
from digests import AA, BB

ORIGIN = {
    "commit": "c" * 40, "hardware": "aa", "command": "make it", "config": "tiny", "clock_hz": 50_000_000,
    "memory_part": "y", "seed": [1], "tools": {},
}  # fmt: skip
TIMING = {"fmax_mhz": {"1": 50.0}, "fmax_median_mhz": 50.0, "fmax_best_mhz": 50.0, "best_seed": 1}


def write(folder, name, more, **origin):
    """Results of a baseline on an FPGA."""
    sizes = dict.fromkeys(("lut", "ff", "ebr", "multiplier", "ramb36", "ramb18", "dsp48"), 1)
    design = {"variant": "baseline", "blocks": {}, "resources": sizes, "available": sizes, "luts_estimated": 1, **more}
    write_results(folder / f"{name}.json", {}, {"designs": [design]}, ORIGIN | origin)


def ages(text, name):
    """The ages of a result, as its folds have them."""
    return set(re.findall(rf"^(?:<details><summary>)?{name}: (.*?)[,;]", text, re.MULTILINE))


@pytest.mark.parametrize(("recorded", "age"), [("f2", "Current"), ("f1", "Of an earlier flow"), (None, None)])
def test_figures_of_another_flow_are_not_current(tmp_path, recorded, age):
    """One that is recorded nowhere is another."""
    write(tmp_path, "xilinx", {}, **({"flow": recorded} if recorded else {}))
    write(tmp_path, "ecp5", {}, hardware="bb", flow="f1")
    write_results(tmp_path / "pe_formats.json", {}, {}, ORIGIN)
    text = implementation.implementation(AA, tmp_path, {"xilinx": "f2", "ecp5": "f3"})
    assert implementation.flows_named(text) == {"xilinx": "f2", "ecp5": "f3"}
    assert ages(text, "xilinx") == {age or "Of an earlier flow"}
    assert ages(text, "ecp5") == {"Of earlier hardware"}  # which says more
    assert ages(text, "pe_formats") == {"Current"}  # its flow is unknown


@pytest.mark.parametrize(("more", "row"), [
    ({}, "| baseline | not recorded | not recorded | 50 | not recorded | 50.0 | 50.0 | 1: 50.0 |"),
    ({"part": "P", "speed": "6", "freq_mhz": 55.1}, "| baseline | P | 6 | 50 | 55.1 | 50.0 | 50.0 | 1: 50.0 |"),
])  # fmt: skip
def test_clocks_are_of_a_part(tmp_path, more, row):
    write(tmp_path, "ecp5", {**TIMING, "late": {}, "critical_paths": {"1": []}, **more})
    assert row in implementation.implementation(AA, tmp_path).splitlines()


def test_artix7(tmp_path):
    """Clocks by seed, also of a design without one; the larger preset has rows where it is measured."""
    assert "\n\nartix7: not measured yet; `nox -s bench_artix7`" in implementation.implementation(AA, tmp_path)
    write(tmp_path, "artix7", {**TIMING, "part": "P", "unrouted": ["2"]})
    write(tmp_path, "artix7_xc7a100t", {}, config="xc7a100t")
    text = implementation.implementation(AA, tmp_path)
    rows = text[text.index("## Artix-7") :].splitlines()
    assert "| `tiny` | baseline | P | 1 | 1 | 1 | 1 | 1 | 1: 50.0; 2: no route |" in rows
    assert "| `xc7a100t` | baseline | not recorded | 1 | 1 | 1 | 1 | 1 | none |" in rows


def test_paired_luts_are_said_to_have_memories_too(tmp_path):
    text = " ".join(implementation.implementation(AA, tmp_path).split())
    assert "plus the inverters, distributed RAM and shift registers that *LUT* counts" in text


def test_the_document_is_up_to_date():
    text = (
        implementation.PATH.read_text()
    )  # as of the hardware and flows that it names, which needn't be those of the sources
    as_of = implementation.implementation(figures.named(text), flows=implementation.flows_named(text))
    assert text == as_of, "run python -m adagp.evaluation.report.implementation"


def test_the_document_says_which_figures_are_current():
    text = implementation.PATH.read_text()
    flows = implementation.flows_named(text)
    assert flows == implementation.FLOWS, "run nox -s docs"
    for name in implementation.SHOWN:
        path = figures.RESULTS / f"{name}.json"
        age = "not measured yet"
        if path.exists():
            origin = json.loads(path.read_text())["provenance"]
            age = figures.age(origin, figures.named(text), flows.get(name))
        shown = name in implementation.SOURCES or path.exists()
        assert ages(text, name) == ({age} if shown else set())


def test_the_document_is_checked(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(implementation, "NOW", AA)
    monkeypatch.setattr(figures, "NOW", AA)
    path = tmp_path / "implementation.md"
    implementation.main([str(path)])
    assert figures.named(path.read_text()) == AA
    assert implementation.flows_named(path.read_text()) == implementation.FLOWS
    others = {name for name in implementation.SHOWN if any("Of " in age for age in ages(path.read_text(), name))}
    with pytest.raises(SystemExit) if others else nullcontext():
        implementation.main([str(path), "--check"])
    out = capsys.readouterr().out
    assert "not up to date" not in out
    assert set(out.splitlines()[-1].partition("not current: ")[2].split(", ")) == (others or {"none"})
    path.write_text(implementation.implementation(BB))
    with pytest.raises(SystemExit):
        implementation.main([str(path), "--check"])
    out = capsys.readouterr().out
    assert f"{path} is not up to date: run python -m adagp.evaluation.report.implementation" in out
