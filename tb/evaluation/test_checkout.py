"""Without a checkout documents aren't written."""

import subprocess
import sys
from pathlib import Path

import pytest
from adagp.evaluation import checkout
from adagp.evaluation.report import figures

REPORTS = Path(figures.__file__).parent
MODULES = [
    ".".join(path.relative_to(REPORTS).with_suffix("").parts)
    for path in sorted(REPORTS.rglob("*.py")) if "\nif __name__ ==" in path.read_text()
]  # fmt: skip


def test_a_checkout_is_known_by_its_project_file(monkeypatch, tmp_path):
    checkout.require_checkout()
    monkeypatch.setattr(checkout, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match=rf"adagp: {tmp_path} isn't a checkout: documents are written from"):
        checkout.require_checkout()


@pytest.mark.parametrize("module", MODULES)
def test_no_document_is_written_beside_an_installed_package(module, tmp_path):
    code = (
        "import runpy, pathlib; from adagp.evaluation import checkout;"
        f" checkout.ROOT = pathlib.Path({str(tmp_path)!r});"
        f" runpy.run_module('adagp.evaluation.report.{module}', run_name='__main__')"
    )
    before = figures.PATH.read_bytes()
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == 1 and "isn't a checkout" in ended.stderr.splitlines()[-1]
    assert figures.PATH.read_bytes() == before and not list(tmp_path.iterdir())
