"""Pages that are made when the site is built: links, sessions, the Python API."""

import importlib.util
import re
from pathlib import Path

from adagp.evaluation.report import site

ROOT = Path(__file__).parents[3]


def test_links_of_a_page_from_the_root():
    text = (
        '[a](docs/a.md#b) ![c](docs/images/c.svg) [d](CONTRIBUTING.md) [e](https://x.org/docs/e) <img src="docs/f.svg">'
    )
    wanted = '[a](a.md#b) ![c](images/c.svg) [d](contributing.md) [e](https://x.org/docs/e) <img src="f.svg">'
    assert site.relocated(text) == wanted


def test_each_session_is_in_the_table_with_its_text():
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", site.sessions_page(), re.MULTILINE)
    names = re.findall(r"^@nox\.session.*\ndef (\w+)\(", (ROOT / "noxfile.py").read_text(), re.MULTILINE)
    assert [name for name, _ in rows] == names and len(names) > 20
    assert all(text.strip() for _, text in rows)


def test_each_module_has_its_place_in_the_api(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("noxfile_of_the_project", ROOT / "noxfile.py")
    noxfile = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(noxfile)
    monkeypatch.chdir(ROOT)
    noxfile.link_tree()
    pages = site.folders()
    assert "adagp.rtl.compute.array" in pages["adagp.rtl.compute"] and pages["adagp.rtl"][0] == "adagp.rtl"
    modules = {module for found in pages.values() for module in found}
    for part in noxfile.PARTS:
        for path in (ROOT / part).rglob("*.py"):
            name = ".".join(("adagp", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
            assert path.name == "__main__.py" or name in modules, path
    assert "::: adagp.spec.errors\n" in site.api_page("adagp.spec", pages["adagp.spec"])


def test_roles_of_docstrings_are_shown_as_names():
    assert site.on_page_content("see :func:<code>.figures.age</code>!") == "see <code>figures.age</code>!"
    assert site.on_page_content(":class:<code>~adagp.A</code>") == "<code>adagp.A</code>"


def test_ports_are_a_list():
    head = "<summary>Members</summary>\n  "
    text = "<p>i, o : In(1)\n    the <code>x</code>\n    and more\nlast\n    the end</p><p>next</p>"
    assert site.on_page_content(head + text) == (
        f"{head}<dl><dt><code>i, o</code> : In(1)</dt><dd>the <code>x</code> and more</dd>"
        "<dt><code>last</code></dt><dd>the end</dd></dl><p>next</p>"
    )
    assert site.on_page_content("<summary>Timing</summary><p>a\n    b</p>").endswith("<p>a\n    b</p>")
