"""``docs/figures.md``: every measured figure of ``results/*.json`` with where it came from.

``python -m adagp.gen.figures [PATH]`` writes the file and names the parts that other hardware was measured for;
``--check`` only says whether the committed copy is up to date and everything in it of the hardware as it is.
"""

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path

from ..spec.config import VARIANTS
from .sources import HARDWARE
from .tables import table

__all__ = ["PATH", "earlier", "figures", "named", "parts"]

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PATH = ROOT / "docs" / "figures.md"
"""The committed copy."""
IMAGES = PATH.parent / "images"
"""Plots by the title of what they show."""
FORMATS = ("int16", "int8", "bf16")
"""Of numbers: the ends of figures' names where each has one."""
OF_METHODS = ("accuracy", "sd", "cost")
"""What is known of a method of training: beginnings of figures' names."""

HEAD = """# Figures

Written by `python -m adagp.gen.figures` from `results/`; edit nothing here.
The results hold the details of each run.

Hardware when this was written: `{hardware}`, a digest of the sources that Verilog is made from.
Figures are *current* if they were measured on that, and otherwise *of earlier hardware*;
`python -m adagp.gen.figures --check` fails unless it is that of the sources at hand and all figures are current."""
_NAMED = re.compile(r"^Hardware when this was written: `(\w+)`", re.MULTILINE)


def _value(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def parts(folder: Path = RESULTS) -> Iterator[tuple[str, dict, dict]]:
    """Title, provenance and figures of what each command measured; files of several commands hold several."""
    for path in sorted(folder.glob("*.json")):
        written = json.loads(path.read_text())
        figures, origins = written["figures"], written["provenance"]
        if "commit" in origins:
            yield path.stem, origins, figures
            continue
        for part, origin in origins.items():
            yield f"{path.stem}: {part}", origin, {name: figures[name] for name in written["details"][part]["figures"]}


def earlier(hardware: str, folder: Path = RESULTS) -> list[str]:
    """Titles of the parts that were measured on other hardware than this, or on hardware not recorded."""
    return [title for title, origin, _ in parts(folder) if origin.get("hardware") != hardware]


def _rows(figures: dict) -> tuple[dict, dict, dict, dict]:
    """Figures by design, by format, by method of training, and others: each a row with its values by column."""
    designs: dict[str, dict] = {}
    formats: dict[str, dict] = {}
    methods: dict[str, dict] = {}
    others = {}
    for name, value in figures.items():
        stem, _, design = name.rpartition("_")
        what, _, method = name.partition("_")
        if design in VARIANTS and stem:
            designs.setdefault(stem, {})[design] = value
        elif design in FORMATS and stem:
            formats.setdefault(stem, {})[design] = value
        elif what in OF_METHODS and f"sd_{method}" in figures:
            methods.setdefault(method, {})[what] = value
        else:
            others[name] = {"value": value}
    return designs, formats, methods, others


def _tables(figures: dict) -> str:
    columns = (("figure", VARIANTS), ("figure", FORMATS), ("method", OF_METHODS), ("figure", ("value",)))
    kinds = zip(_rows(figures), columns, strict=True)
    return "\n\n".join(
        table((head, *columns), [
            (f"`{name}`", *(_value(values[column]) if column in values else "" for column in columns))
            for name, values in rows.items()
        ])
        for rows, (head, columns) in kinds if rows
    )  # fmt: skip


def _part(title, origin, figures, age):
    tools = ", ".join(f"{name} {version}" for name, version in origin["tools"].items())
    where = (
        f"*{age}*: by `{origin['command']}` at commit `{origin['commit'][:12]}`; preset `{origin['config']}` at"
        f" {origin['clock_hz'] / 1e6:g} MHz with {origin['memory_part']}; seed {origin['seed']}; {tools}."
    )
    plot = f"![{title}](images/{title}.png)\n\n" if (IMAGES / f"{title}.png").exists() else ""
    return f"## {title}\n\n{where}\n\n{plot}{_tables(figures)}"


def figures(hardware: str = HARDWARE, folder: Path = RESULTS) -> str:
    """Text of the figures, in Markdown, as of ``hardware``."""
    others = earlier(hardware, folder)
    ages = {title: "Of earlier hardware" if title in others else "Current" for title, *_ in parts(folder)}
    text = [_part(title, origin, found, ages[title]) for title, origin, found in parts(folder)]
    return "\n\n".join([HEAD.format(hardware=hardware), *text]) + "\n"


def named(text: str) -> str:
    """The hardware that a text of figures takes for current; raises ValueError if it names none."""
    found = _NAMED.search(text)
    if found is None:
        raise ValueError("the figures name no hardware: run python -m adagp.gen.figures")
    return found[1]


def main(argv: list[str] | None = None) -> None:
    """Write the figures, or check them; exits with 1 if the check fails."""
    parser = argparse.ArgumentParser(
        prog="python -m adagp.gen.figures", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path, nargs="?", default=PATH, help="default: docs/figures.md")
    parser.add_argument("--check", action="store_true", help="write nothing")
    arguments = parser.parse_args(argv)
    others, fits = earlier(HARDWARE), True
    if arguments.check:
        fits = arguments.path.read_text() == figures()
    else:
        arguments.path.write_text(figures())
    print(f"hardware {HARDWARE}; of earlier hardware: {', '.join(others) or 'none'}")
    if not fits:
        print(f"{arguments.path} is not up to date: run python -m adagp.gen.figures")
    if arguments.check and (others or not fits):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
