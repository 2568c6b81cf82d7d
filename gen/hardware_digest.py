"""Which hardware this is: a digest of the sources of the generated Verilog."""

import hashlib
from pathlib import Path

__all__ = ["HARDWARE", "digest"]

DOCUMENTS = ("cache.py", "figures.py", "tables.py")
"""Files of gen/ that have no part in Verilog."""


def digest(root: Path) -> str:
    """Of the files of ``spec``, ``rtl`` and ``gen`` in ``root`` that Verilog is made from: names and contents."""
    files = sorted(file for package in ("spec", "rtl", "gen") for file in (root / package).rglob("*.py"))
    found = hashlib.sha256()
    for file in files:
        name = file.relative_to(root).as_posix()
        if name in {f"gen/{document}" for document in DOCUMENTS}:
            continue
        for part in (name.encode(), file.read_bytes()):
            found.update(len(part).to_bytes(8, "little") + part)
    return found.hexdigest()[:16]


HARDWARE = digest(Path(__file__).parents[1])
"""The digest of the sources as the process began; they may change while it runs, but what it has imported doesn't."""
