"""``docs/figures.md``: every measured figure of ``results/*.json`` with where it came from.

``python -m adagp.evaluation.report.figures [PATH]`` writes the file and names the parts that other hardware was
measured for;
``--check`` only says whether the committed copy is up to date and everything in it of the hardware as it is.
"""

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ...gen.provenance import NOW, hardware_of
from ...spec.config import VARIANTS
from ..checkout import require_checkout
from .provenance import details, fold, session
from .reference import table

__all__ = [
    "AS_OF", "CURRENT", "PATH", "RESULTS", "age", "command", "earlier", "figures", "listed", "named", "parts", "where",
]  # fmt: skip

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
"""Folder of measured figures."""
PATH = ROOT / "docs" / "figures.md"
"""The committed copy."""
IMAGES = PATH.parent / "images"
"""Plots by the title of what they show."""
CURRENT = "Current"
FORMATS = ("int16", "int8", "bf16")
"""Number formats: ends of the names of figures that exist for each."""
OF_ALL = ("accuracy", "sd", "cost")
OF_METHODS = (*OF_ALL, "cycles", "above", "error")
"""Beginnings of the names of a training method's figures. ``OF_ALL``: columns that always exist."""

AS_OF = """Digests when this was written: {now}.
A preset's digest is one of its generated Verilog; the others are digests of code: of the PyTorch library, of the host
link and boards, of the PEs, and of all that the generator's switches can build. Figures measured on these are
*current*, others are *of earlier hardware*, *of an earlier library* and so on. `python -m {module} --check` fails
unless these digests are those of the sources at hand and all figures are current."""
"""The statement of a document of figures about its age."""
HEAD = f"""# Figures

Written by `python -m {{module}}` from `results/`; edit nothing here.
The results hold the details of each run.

{AS_OF}"""
MODULE = "adagp.evaluation.report.figures"
_NAMED = re.compile(r"^Digests when this was written: (.*)\.$", re.MULTILINE)


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


def earlier(now: Mapping[str, str], folder: Path = RESULTS) -> list[str]:
    """Titles of the parts that were measured on anything else than ``now`` names, or on what is not recorded."""
    return [title for title, origin, _ in parts(folder) if age(origin, now) != CURRENT]


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


def age(origin: dict, now: Mapping[str, str], flow: str | None = None) -> str:
    """The age of figures: ``CURRENT`` or the first thing that has changed since, as of ``now`` and ``flow`` if given.

    ``now``: digests of the presets' hardware and of the library, by name.
    """
    for name, known in origin.get("code", {}).items():
        if known != now[name]:
            return f"Of an earlier {name}" if name in ("library", "link") else f"Of earlier {name}"
    hardware = hardware_of(origin["config"], now) if "config" in origin else None
    if origin.get("hardware") != hardware or hardware == "":
        return "Of earlier hardware"
    return CURRENT if flow in (None, origin.get("flow")) else "Of an earlier flow"


def where(origin: dict, now: Mapping[str, str], flow: str | None = None, name: str = "") -> str:
    """A fold that says how figures are measured, their :func:`age` and, opened, by which run.

    ``name``: the result's, where several stand together.
    """
    summary = f"{name and name + ': '}{age(origin, now, flow)}, by <code>{session(origin['command'])}</code>"
    setting = ""
    if "config" in origin:
        clock = f"{origin['clock_hz'] / 1e6:g} MHz with {origin['memory_part']}"
        setting = f"Preset <code>{origin['config']}</code> at {clock}. "
    return fold(summary, f"{setting}{details(origin)}")


def _part(title, origin, figures, now):
    plot = f"![{title}](images/{title}.png)\n\n" if (IMAGES / f"{title}.png").exists() else ""
    return f"## {title}\n\n{where(origin, now)}\n\n{plot}{_tables(figures)}"


def figures(now: Mapping[str, str] = NOW, folder: Path = RESULTS) -> str:
    """Text of the figures, in Markdown, as of ``now``."""
    text = [_part(title, origin, found, now) for title, origin, found in parts(folder)]
    return "\n\n".join([HEAD.format(now=listed(now), module=MODULE), *text]) + "\n"


def listed(digests: Mapping[str, str]) -> str:
    """Names with their digests, as :func:`named` reads them."""
    return ", ".join(f"{name} `{digest}`" for name, digest in digests.items())


def named(text: str) -> dict[str, str]:
    """The digests that a text of figures takes for current, by name; raises ValueError if it names none."""
    found = _NAMED.search(text)
    if found is None:
        raise ValueError("the figures name no hardware: run python -m adagp.evaluation.report.figures")
    return dict(re.findall(r"(\w+) `(\w+)`", found[1]))


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
    print(f"{listed(NOW)}; not current: {', '.join(others) or 'none'}")
    if not fits:
        print(f"{arguments.path} is not up to date: run python -m {module}")
    if arguments.check and (others or not fits):
        raise SystemExit(1)


def main(argv: Sequence[str] | None = None) -> None:
    """Write the figures, or check them; exits with 1 if the check fails."""
    command(MODULE, __doc__, PATH, figures(NOW), earlier(NOW), argv)


if __name__ == "__main__":
    require_checkout()
    main()
