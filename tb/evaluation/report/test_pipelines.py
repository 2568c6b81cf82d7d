"""The page of pipelines: its section is what the schedules give, and it shows the images that are drawn."""

import re

from adagp.evaluation.report import pipelines

SECTION = re.compile(f"{re.escape(pipelines.BEGIN)}\n\n(.*?)\n\n{re.escape(pipelines.END)}", re.DOTALL)


def test_the_committed_page_is_as_counted():
    text = pipelines.PATH.read_text()
    assert text == pipelines.document(text), "run python -m adagp.evaluation.report.pipelines"
    shown = re.findall(r"\(images/(pipelines_\w+)\.png\)", text)
    assert shown == list(pipelines.IMAGES)
    assert all((pipelines.PATH.parent / "images" / f"{name}.png").exists() for name in shown)


def test_the_section_has_the_papers_figures():
    (section,) = SECTION.findall(pipelines.PATH.read_text())
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if "|" in line]
    found = {row[0]: row for row in rows}
    steps = [found[name][1] for name in ("GPipe", "1F1B (DAPPLE)", "Chimera")]
    assert steps == ["21 / 4 / 25", "21 / 4 / 25", "16 / 4 / 20"]
    assert [found[name][-1] for name in ("GPipe", "1F1B (DAPPLE)", "Chimera", "ZB-H1")] == [
        "1.654",
        "1.654",
        "1.575",
        "",
    ]
    assert "a share of GP batches of 0.501, and steps that are 1.7 % longer" in section.replace("\n", " ")
