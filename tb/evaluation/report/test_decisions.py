"""The index of decisions: every page is in it, with a date and a status that there are."""

import re

import pytest
from adagp.evaluation.report import decisions


def test_the_index_is_up_to_date():
    assert decisions.PATH.read_text() == decisions.index(), "run nox -s docs"


def test_every_decision_is_in_the_index_once():
    text = decisions.PATH.read_text()
    names = [path.name for path in decisions.FOLDER.glob("*.md") if path != decisions.PATH]
    assert len(names) > 80
    assert sorted(re.findall(r"\((\S+\.md)\)", text)) == sorted(names)


def test_dates_and_statuses():
    seen = 0
    for found in decisions.decisions().values():
        assert found, "a subject without decisions"
        for one in found:
            assert re.fullmatch(r"20\d\d-\d\d-\d\d", one.date), one.name
            replacement = re.fullmatch(r"replaced by \[.+\]\((\S+\.md)\)", one.status)
            assert one.status == "in force" or (decisions.FOLDER / replacement[1]).exists(), one.name
            seen += 1
    assert seen > 80


@pytest.mark.parametrize(
    "text", ["", "Title\n\n2026-01-01 · machine · in force\n", "# Title\n\n2026-01-01 · cats · in force\n"]
)
def test_a_page_without_a_head_is_refused(tmp_path, text):
    (tmp_path / "some.md").write_text(text)
    with pytest.raises(ValueError, match=r"^some\.md must begin with a title and a line 'DATE · SUBJECT · STATUS'"):
        decisions.index(tmp_path)
