"""``docs/decisions/index.md``: the decisions by subject, from their files.

``python -m adagp.evaluation.report.decisions`` writes the page. A decision's file begins with its title and a line with
date, subject and status.
"""

from dataclasses import dataclass
from pathlib import Path

from ..checkout import require_checkout

__all__ = ["FOLDER", "PATH", "SUBJECTS", "Decision", "decisions", "index"]

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
PATH = FOLDER / "index.md"
"""The committed copy."""
SUBJECTS = {
    "machine": "Machine: commands, tiles, arithmetic units",
    "numerics": "Numerics",
    "prediction": "Gradient prediction in hardware",
    "host": "Host: compiling a network",
    "verilog": "Generated Verilog and its simulation",
    "timing": "Clock: registers, resets, paths",
    "synthesis": "Synthesis, place and route, power",
    "boards": "Boards and host link",
    "verification": "Verification",
    "measurements": "Measurements",
    "library": "PyTorch library and experiments",
    "project": "Project",
}
"""Titles of the index's sections."""
HEAD = """# Decisions

Each page says what was decided, why, and what was measured. A decision that no longer holds stays, with a link to the
one that replaces it. Written by `python -m adagp.evaluation.report.decisions` from the pages themselves."""


@dataclass(frozen=True)
class Decision:
    """A page of ``docs/decisions``: its file's name, title, date, subject and status."""

    name: str
    title: str
    date: str
    subject: str
    status: str

    @classmethod
    def read(cls, path: Path) -> "Decision":
        """The head of a decision's file; raises ValueError, naming the file, if it isn't one."""
        lines = path.read_text().splitlines()
        facts = lines[2].split(" · ") if len(lines) > 2 else []
        if not lines[:1] or not lines[0].startswith("# ") or len(facts) != 3 or facts[1] not in SUBJECTS:
            raise ValueError(
                f"{path.name} must begin with a title and a line 'DATE · SUBJECT · STATUS', the subject being one of"
                f" {', '.join(SUBJECTS)}"
            )
        return cls(path.name, lines[0].removeprefix("# "), *facts)


def decisions(folder: Path = FOLDER) -> dict[str, list[Decision]]:
    """All decisions by subject, the oldest first."""
    found = [Decision.read(path) for path in sorted(folder.glob("*.md")) if path.name != PATH.name]
    by_date = sorted(found, key=lambda decision: decision.date)
    return {subject: [one for one in by_date if one.subject == subject] for subject in SUBJECTS}


def index(folder: Path = FOLDER) -> str:
    """Text of the page, in Markdown."""
    sections = [HEAD]
    for subject, found in decisions(folder).items():
        lines = (
            f"- [{one.title}]({one.name}), {one.date}" + ("" if one.status == "in force" else "; replaced")
            for one in found
        )
        sections.append(f"## {SUBJECTS[subject]}\n\n" + "\n".join(lines))
    return "\n\n".join(sections) + "\n"


if __name__ == "__main__":
    require_checkout()
    PATH.write_text(index())
