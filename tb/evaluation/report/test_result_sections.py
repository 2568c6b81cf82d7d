"""Sections of one result each: as committed, and where they go."""

import json

import pytest
from adagp.evaluation.report.estimator import ROOT
from adagp.evaluation.report.result_sections import SECTIONS, document


@pytest.mark.parametrize("name", SECTIONS)
def test_the_committed_page(name):
    results = json.loads((ROOT / "results" / f"{name}.json").read_text())
    text = SECTIONS[name][0].read_text()
    assert document(text, name, results) == text
    with pytest.raises(ValueError, match=f"the section goes between the lines <!-- {name} by"):
        document("no marks", name, results)
