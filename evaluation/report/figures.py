"""``docs/figures.md``: every measured figure of ``results/*.json`` with where it came from.

``python -m adagp.evaluation.report.figures [PATH]`` writes the file and names the parts that other hardware was
measured for;
``--check`` only says whether the committed copy is up to date and everything in it of the hardware as it is.
"""

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...gen.hardware_digest import HARDWARE
from ...spec.config import VARIANTS
from .provenance import details, fold, session
from .reference import table

__all__ = ["AS_OF", "PATH", "RESULTS", "age", "command", "earlier", "figures", "named", "parts", "where"]

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
"""Where measured figures are."""
PATH = ROOT / "docs" / "figures.md"
"""The committed copy."""
IMAGES = PATH.parent / "images"
"""Plots by the title of what they show."""
FORMATS = ("int16", "int8", "bf16")
"""Of numbers: the ends of figures' names where each has one."""
OF_ALL = ("accuracy", "sd", "cost")
OF_METHODS = (*OF_ALL, "cycles", "above", "error")
"""What is known of a method of training: beginnings of figures' names. ``OF_ALL``: columns that there always are."""

AS_OF = """Hardware when this was written: `{hardware}`, a digest of the sources that Verilog is made from.
Figures are *current* if they were measured on that, and otherwise *of earlier hardware*;
`python -m {module} --check` fails unless it is that of the sources at hand and all figures are current."""
"""What a document of figures says of its age."""
HEAD = f"""# Figures

Written by `python -m {{module}}` from `results/`; edit nothing here.
The results hold the details of each run.

{AS_OF}"""
MODULE = "adagp.evaluation.report.figures"
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
    rows_by_kind = _rows(figures)
    known = [what for what in OF_METHODS if what in OF_ALL or any(what in row for row in rows_by_kind[2].values())]
    columns = (("figure", VARIANTS), ("figure", FORMATS), ("method", known), ("figure", ("value",)))
    kinds = zip(rows_by_kind, columns, strict=True)
    return "\n\n".join(
        table((head, *columns), [
            (f"`{name}`", *(_value(values[column]) if column in values else "" for column in columns))
            for name, values in rows.items()
        ])
        for rows, (head, columns) in kinds if rows
    )  # fmt: skip


def age(origin: dict, hardware: str, flow: str | None = None) -> str:
    """Whether figures are "Current", as of ``hardware``, and of ``flow`` if given, or of what earlier."""
    if origin.get("hardware") != hardware:
        return "Of earlier hardware"
    return "Current" if flow in (None, origin.get("flow")) else "Of an earlier flow"


def where(origin: dict, hardware: str, flow: str | None = None, name: str = "") -> str:
    """A fold that says how figures are measured, for which hardware (:func:`age`) and, opened, by which run.

    ``name``: the result's, where several stand together.
    """
    summary = f"{name and name + ': '}{age(origin, hardware, flow)}, by <code>{session(origin['command'])}</code>"
    setting = f"Preset <code>{origin['config']}</code> at {origin['clock_hz'] / 1e6:g} MHz with {origin['memory_part']}"
    return fold(summary, f"{setting}. {details(origin)}")


def _part(title, origin, figures, hardware):
    plot = f"![{title}](images/{title}.png)\n\n" if (IMAGES / f"{title}.png").exists() else ""
    return f"## {title}\n\n{where(origin, hardware)}\n\n{plot}{_tables(figures)}"


def figures(hardware: str = HARDWARE, folder: Path = RESULTS) -> str:
    """Text of the figures, in Markdown, as of ``hardware``."""
    text = [_part(title, origin, found, hardware) for title, origin, found in parts(folder)]
    return "\n\n".join([HEAD.format(hardware=hardware, module=MODULE), *text]) + "\n"


def named(text: str) -> str:
    """The hardware that a text of figures takes for current; raises ValueError if it names none."""
    found = _NAMED.search(text)
    if found is None:
        raise ValueError("the figures name no hardware: run python -m adagp.evaluation.report.figures")
    return found[1]


def command(
    module: str, about: str | None, path: Path, text: str, others: Sequence[str], argv: Sequence[str] | None
) -> None:
    """Write a document of figures to ``path`` or where ``argv`` says, or check it; exits with 1 if the check fails.

    ``others``: what in it isn't current.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path, nargs="?", default=path, help=f"default: docs/{path.name}")
    parser.add_argument("--check", action="store_true", help="write nothing")
    arguments = parser.parse_args(argv)
    fits = True
    if arguments.check:
        fits = arguments.path.read_text() == text
    else:
        arguments.path.write_text(text)
    print(f"hardware {HARDWARE}; not current: {', '.join(others) or 'none'}")
    if not fits:
        print(f"{arguments.path} is not up to date: run python -m {module}")
    if arguments.check and (others or not fits):
        raise SystemExit(1)


def main(argv: Sequence[str] | None = None) -> None:
    """Write the figures, or check them; exits with 1 if the check fails."""
    command(MODULE, __doc__, PATH, figures(), earlier(HARDWARE), argv)


if __name__ == "__main__":
    main()
