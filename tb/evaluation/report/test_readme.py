"""README.md: its section of figures is that of the results, and the page is short and has no dead links."""

import json
import re
import shutil
from pathlib import Path

import pytest
from adagp.evaluation.report import figures, readme

ROOT = Path(__file__).parents[3]
NOW = figures.named(figures.PATH.read_text())


def test_the_section_is_up_to_date():
    text = readme.PATH.read_text()
    assert text == readme.document(text), "run python -m adagp.evaluation.report.readme"


def test_what_is_left_of_speedups_at_their_own_clocks():
    """Worked out from the results by hand: cycles of the digits CNN, times the clock over the baseline's."""
    read = {
        name: json.loads((figures.RESULTS / f"{name}.json").read_text())["figures"]
        for name in ("variants_digits", "ecp5")
    }
    left = read["variants_digits"]["speedup_max"] * read["ecp5"]["fmax_median_mhz_max"]
    left /= read["ecp5"]["fmax_median_mhz_baseline"]
    [row] = [line for line in readme.section(figures.RESULTS, NOW).splitlines() if "own clock on ECP5" in line]
    assert row.split(" | ")[-2] == f"**{left:.2f}**" and 0.5 < left < 1.5
    origins = [json.loads((figures.RESULTS / f"{name}.json").read_text())["provenance"] for name in read]
    assert all(figures.age(origin, NOW) in row for origin in origins)


def test_proofs_of_earlier_hardware_say_so(tmp_path):
    shutil.copy(figures.RESULTS / "robustness.json", tmp_path)
    read = json.loads((tmp_path / "robustness.json").read_text())
    read["provenance"]["coverage"] = read["provenance"]["resets"]
    read["provenance"]["formal"] = {**read["provenance"]["formal"], "hardware": "0" * 16}
    (tmp_path / "robustness.json").write_text(json.dumps(read))
    ages = dict(re.findall(r"^\| ([\w ]+).*\| (.+?) \|$", readme.proofs(tmp_path, NOW), re.MULTILINE))
    assert ages["formal proofs "] == "Of earlier hardware"
    assert ages["coverage of the Verilog "] == figures.age(read["provenance"]["resets"], NOW)


def test_the_page_needs_its_marks():
    with pytest.raises(ValueError, match=r"^the section goes between the lines <!-- Written by "):
        readme.document("# adagp\n")


def test_the_page_is_short_and_its_links_lead_somewhere():
    text = readme.PATH.read_text()
    assert len(text.splitlines()) <= 120
    links = re.findall(r"\]\(([^)#]+)", text)
    assert len(links) > 15
    for link in links:
        assert link.startswith("https://") or (ROOT / link).exists(), link
    for heading in ("## Two commands", "./adagp train ", "./adagp test "):
        assert heading in text
