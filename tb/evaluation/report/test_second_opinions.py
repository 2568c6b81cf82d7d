"""Sections of the estimator's page from other people's figures: as committed, and where they go."""

import json

import pytest
from adagp.evaluation.report import second_opinions
from adagp.evaluation.report.estimator import PATH, ROOT


def test_the_committed_page():
    results = {name: json.loads((ROOT / "results" / f"{name}.json").read_text()) for name in second_opinions.SECTIONS}
    assert second_opinions.document(PATH.read_text(), results) == PATH.read_text()
    with pytest.raises(ValueError, match="the section goes between the lines <!-- zigzag by"):
        second_opinions.document("no marks", results)
