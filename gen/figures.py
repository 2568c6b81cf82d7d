"""``docs/figures.md``: every measured figure of ``results/*.json`` with where it came from.

``python -m adagp.gen.figures [PATH]`` writes the file.
"""

import json
import sys
from pathlib import Path

from .tables import table

__all__ = ["PATH", "figures"]

ROOT = Path(__file__).parents[1]
PATH = ROOT / "docs" / "figures.md"
"""The committed copy."""

HEAD = """# Figures

Written by `python -m adagp.gen.figures` from `results/`; edit nothing here.
The results hold the details of each run."""


def _value(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def _part(title, origin, figures):
    tools = ", ".join(f"{name} {version}" for name, version in origin["tools"].items())
    where = (
        f"By `{origin['command']}` at commit `{origin['commit'][:12]}`; preset `{origin['config']}` at"
        f" {origin['clock_hz'] / 1e6:g} MHz with {origin['memory_part']}; seed {origin['seed']}; {tools}."
    )
    rows = [(f"`{name}`", _value(value)) for name, value in figures.items()]
    return f"## {title}\n\n{where}\n\n{table(('figure', 'value'), rows)}"


def _section(path):
    written = json.loads(path.read_text())
    if "commit" in written["provenance"]:
        return _part(path.stem, written["provenance"], written["figures"])
    return "\n\n".join(  # a file of several commands
        _part(
            f"{path.stem}: {part}",
            origin,
            {name: written["figures"][name] for name in written["details"][part]["figures"]},
        )
        for part, origin in written["provenance"].items()
    )


def figures() -> str:
    """Text of the figures, in Markdown."""
    return "\n\n".join([HEAD, *map(_section, sorted((ROOT / "results").glob("*.json")))]) + "\n"


if __name__ == "__main__":
    (Path(sys.argv[1]) if len(sys.argv) > 1 else PATH).write_text(figures())
