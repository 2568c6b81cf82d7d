"""Digests of definitions see what a name leads to, and nothing else."""

import pytest
from formal.definitions import Definitions

FILES = {
    "rtl/block.py": '"""A block."""\nfrom amaranth import Signal\nfrom ..spec import sizes\nWIDTH = 3\n'
    "class Inner:\n    pass\nclass Block(Inner):\n    def elaborate(self):\n        from .late import late\n"
    "        return Signal(sizes.SIZE), late\nclass Other:\n    pass\n",
    "rtl/late.py": "late = 1\nunused = 2\n",
    "spec/sizes.py": "SIZE = 1\n",
    "tb/rules.py": "from adagp.rtl.block import WIDTH, Block\nTABLE = {}\nJOBS = {1: Block}\n"
    "def narrow(h):\n    return WIDTH\ndef whole(h):\n    return Block()\ndef listed(h):\n    return TABLE\n"
    "for number, made in JOBS.items():\n    TABLE[number] = made\n",
}
NAMES = ("narrow", "whole", "listed")


@pytest.fixture
def digests(tmp_path):
    """Digests of the three rules, after a file's text is replaced by another."""

    def made(file=None, old="", new=""):
        for path, text in FILES.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            assert path != file or old in text
            (tmp_path / path).write_text(text.replace(old, new) if path == file else text)
        return [Definitions(tmp_path).digest([(tmp_path / "tb" / "rules.py", name)]) for name in NAMES]

    return made


@pytest.mark.parametrize(("file", "old", "new", "touched"), [
    ("rtl/block.py", "WIDTH = 3", "WIDTH = 4", ["narrow"]),
    ("rtl/block.py", "WIDTH = 3", "WIDTH =  3  # wide", []),
    ("rtl/block.py", '"""A block."""', '"""One."""', []),
    ("rtl/block.py", "class Inner:\n    pass", "class Inner:\n    more = 1", ["whole", "listed"]),
    ("rtl/block.py", "class Other:\n    pass", "class Other:\n    more = 1", []),
    ("rtl/block.py", "from amaranth import", "from amaranth.hdl import", ["whole", "listed"]),
    ("rtl/late.py", "late = 1", "late = 3", ["whole", "listed"]),
    ("rtl/late.py", "unused = 2", "unused = 3", []),
    ("spec/sizes.py", "SIZE = 1", "SIZE = 2", ["whole", "listed"]),
    ("tb/rules.py", "return WIDTH", "return WIDTH + 1", ["narrow"]),
    ("tb/rules.py", "TABLE[number] = made", "TABLE[number] = None", ["listed"]),
    ("tb/rules.py", "{1: Block}", "{2: Block}", ["listed"]),
])  # fmt: skip
def test_a_change_touches_what_leads_to_it(digests, file, old, new, touched):
    before, after = digests(), digests(file, old, new)
    assert [name for name, one, other in zip(NAMES, before, after, strict=True) if one != other] == touched
