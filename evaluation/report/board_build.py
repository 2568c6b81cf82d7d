"""The report of a real build in ``docs/boards.md``: its share of the device, and the rates that its clocks reach.

``python -m adagp.evaluation.report.board_build [PATH]`` writes that section from ``results/board_build.json``.
``--check`` only says whether the committed copy is up to date and of the present hardware.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...gen.provenance import NOW
from ..checkout import require_checkout
from . import figures
from .reference import table

__all__ = ["PATH", "SOURCE", "document", "main", "section"]

MODULE = "adagp.evaluation.report.board_build"
PATH = Path(__file__).parents[2] / "docs" / "boards.md"
"""The committed copy."""
SOURCE = "board_build"
"""The result that the section is made of; :mod:`adagp.evaluation.benches.board_build` measures it."""
BEGIN, END = f"<!-- Written by python -m {MODULE}: -->", "<!-- until here -->"


def section(found: dict, now: Mapping[str, str]) -> str:
    """The report of a result, in Markdown, as of ``now``: see :func:`.figures.age`."""
    report, origin = found["details"], found["provenance"]
    used = [
        (f"`{name}`", f"{n['used']:,}", f"{n['available']:,}", f"{100 * n['used'] / n['available']:.1f} %")
        for kind in ("resources", "places") for name, n in report[kind].items()
    ]  # fmt: skip
    clocks = [
        (f"`{name}`", f"{mhz['needed']:,.1f}", f"{mhz['reached']:,.1f}") for name, mhz in report["clocks_mhz"].items()
    ]
    return "\n\n".join((
        f"Preset `{origin['config']}`, design {report['variant']}, on {report['title']} ({report['part']}).",
        figures.AS_OF.format(now=figures.listed(now), module=MODULE), figures.where(origin, now),
        table(("resource", "used", "there are", "share"), used),
        table(("clock", "needed, MHz", "reached, MHz"), clocks),
    ))  # fmt: skip


def document(text: str, now: Mapping[str, str] = NOW, folder: Path = figures.RESULTS) -> str:
    """``text`` with its section written anew; raises ValueError where it has no marks for it."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the section goes between the lines {BEGIN} and {END}")
    found = json.loads((folder / f"{SOURCE}.json").read_text())
    return f"{before}{BEGIN}\n\n{section(found, now)}\n\n{END}{after}"


def main(argv: Sequence[str] | None = None) -> None:
    """Write the section, or check it; exits with 1 if the check fails."""
    others = [title for title in figures.earlier(NOW) if title == SOURCE]
    figures.command(MODULE, __doc__, PATH, document(PATH.read_text(), NOW), others, argv)


if __name__ == "__main__":
    require_checkout()
    main()
