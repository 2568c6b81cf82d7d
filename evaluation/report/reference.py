"""``docs/reference.md``: the register map, command layout, error codes and host link as tables.

``python -m adagp.evaluation.report.reference [PATH]`` writes the file.
"""

import sys
from pathlib import Path

from ...gen.description import member_docs
from ...spec.commands import COMMAND_BYTES, COMMAND_WORDS, FIELDS, Adam, CMode, Opcode, Phase, Source
from ...spec.config import VERSION
from ...spec.errors import ErrorCode
from ...spec.link import ANSWER, IDENTITY, LINK_VERSION, REQUEST, Kind, Outcome, Part
from ...spec.registers import COUNTERS, REGISTERS, Control, Status
from ..checkout import require_checkout

__all__ = ["PATH", "reference", "table"]

PATH = Path(__file__).parents[2] / "docs" / "reference.md"
"""The committed copy."""


def table(head, rows) -> str:
    """A table in Markdown."""
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in (head, ["---"] * len(head), *rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _enum(enum):
    docs = member_docs(enum)
    rows = [(int(member), f"`{name}`", docs[name]) for name, member in enum.__members__.items()]
    return table(("value", "name", "meaning"), rows)


def _bits(field):
    top = field.lsb + field.width - 1
    return str(field.lsb) if field.width == 1 else f"{top}:{field.lsb}"


def _registers():
    rows = [
        (f"`0x{r.offset:03x}`", f"`{r.name}`" + "*" * r.predicts, r.access.name, r.width, r.doc) for r in REGISTERS
    ]  # fmt: skip
    return table(("offset", "name", "access", "width", "meaning"), rows)


def _meaning(field):
    return field.doc + (" (two's complement)" if field.signed else "")


def _register_fields():
    rows = [(f"`{r.name}`", _bits(f), f"`{f.name}`", _meaning(f)) for r in REGISTERS for f in r.fields]
    return table(("register", "bits", "field", "meaning"), rows)


def _fields():
    rows = [(f.word, _bits(f), f"`{f.name}`", _meaning(f)) for f in FIELDS]
    return table(("word", "bits", "field", "meaning"), rows)


def _counters():
    return table(("number", "name", "counts"), [(i, f"`{name}`", doc) for i, (name, doc) in enumerate(COUNTERS)])


def _parts(parts: tuple[Part, ...]):
    return table(("part", "bytes", "meaning"), [(f"`{p.name}`", p.size or "any", p.doc) for p in parts])


def _link():
    """Sections of the protocol between a host and a board."""
    return (
        ("Host link", f"Version {LINK_VERSION}; see [link.md](link.md). Bodies of frames, without flags and CRC;"
         f" numbers are little endian.\n\nA request:\n\n{_parts(REQUEST)}\n\nAn answer:\n\n{_parts(ANSWER)}\n\n"
         f"The identity that answers HELLO:\n\n{_parts(IDENTITY)}"),
        ("Host link: kinds of requests", _enum(Kind)),
        ("Host link: outcomes", f"Bits of an answer's last byte.\n\n{_enum(Outcome)}"),
    )  # fmt: skip


def reference() -> str:
    """Text of the reference, in Markdown."""
    sections = (
        ("Reference", "Written by `python -m adagp.evaluation.report.reference` from `spec/`; edit that. "
         f"Contract version `0x{VERSION:08x}`."),
        ("Registers", "32 bits each, at byte offsets of the AXI4-Lite port; the low `width` bits are used. "
         "RO: read only, RW: read and write, WO: a write acts, reads give 0. *: only in variants that predict "
         f"gradients.\n\n{_registers()}"),
        ("Register fields", "Bits of the registers that hold more than one number. Fields in the same bits are "
         f"alternatives.\n\n{_register_fields()}"),
        ("CONTROL bits", _enum(Control)),
        ("STATUS bits", _enum(Status)),
        ("Error codes", _enum(ErrorCode)),
        ("Performance counters", f"64 bits, a set per phase; see `COUNTER`.\n\n{_counters()}"),
        ("Command fields", f"A command is {COMMAND_WORDS} little endian words of 32 bits ({COMMAND_BYTES} bytes). "
         f"Bits not listed are 0.\n\n{_fields()}"),
        ("Opcodes", _enum(Opcode)),
        ("Phase mask", _enum(Phase)),
        ("C modes", _enum(CMode)),
        ("Sources of an UPDATE", _enum(Source)),
        ("Hyper-parameters of ADAM", f"By place from `hyper` on.\n\n{_enum(Adam)}"),
        *_link(),
    )  # fmt: skip
    levels = ["#"] + ["##"] * (len(sections) - 1)
    return "\n\n".join(f"{mark} {title}\n\n{text}" for mark, (title, text) in zip(levels, sections, strict=True)) + "\n"


if __name__ == "__main__":
    require_checkout()
    (Path(sys.argv[1]) if len(sys.argv) > 1 else PATH).write_text(reference())
