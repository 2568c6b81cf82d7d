"""Choice of mutants: Yosys chooses a number of them for every file of rtl/, from a seed."""

import math
import re
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from adagp.rtl.lib.clock_gate import CELL

from . import yosys

__all__ = ["Mutant", "blocks", "choose", "files", "shares"]

LEAST = 3
"""Mutants of the smallest block."""

_MODULE = re.compile(r"module \\(\S+)")
_CELL = re.compile(r"  cell (\S+) (\S+)")
_SOURCE = re.compile(r'\s*attribute \\src "(.*)"')
_FILE = re.compile(r"/rtl/((?:\w+/)*\w+)\.py:(\d+)")
_CLOCK = re.compile(r"(?:^|_)clk$", re.IGNORECASE)
_OPTION = re.compile(r"-(\w+) (\S+)")


@dataclass(frozen=True)
class Mutant:
    """One mutant: the options of Yosys' ``mutate``, and the place of its cell.

    ``block`` is the file of rtl/ that the cell comes from, ``update.control`` for update/control.py; ``line`` is its
    line there (0: the whole block), ``kind`` the cell's type.
    """

    number: int
    block: str
    line: int
    module: str
    cell: str
    kind: str
    port: str
    portbit: int
    mode: str
    ctrlbit: int | None = None

    @property
    def command(self) -> str:
        """Options of ``mutate``."""
        other = "" if self.ctrlbit is None else f" -ctrlbit {self.ctrlbit}"
        place = f"-module {self.module} -cell {self.cell} -port {self.port} -portbit {self.portbit}"
        return f"-mode {self.mode} {place}{other}"

    def to_dict(self) -> dict:
        return asdict(self)


def _dotted(place: re.Match) -> str:
    """The file's path in rtl/, with dots, which neither file names nor Yosys' selections take for anything else."""
    return place[1].replace("/", ".")


def _owner(modules: dict[str, str], name: str) -> str:
    """The block that a module belongs to: its own file, or that of the module around it where it is a library's."""
    while name:
        if found := _FILE.search(modules.get(name, "")):
            return _dotted(found)
        name = name.rpartition(".")[0]
    return ""


def blocks(netlist: str) -> tuple[str, dict[tuple[str, str], tuple[str, int, str]]]:
    """RTLIL with an attribute ``block`` on every cell of rtl/; (block, line, type) by module and cell."""
    modules, places, lines = {}, {}, []
    source = ""
    text = netlist.splitlines()
    for line in text:  # a module's source comes before it, and modules in no order
        if found := _SOURCE.match(line):
            source = found[1]
        elif found := _MODULE.match(line):
            modules[found[1]] = source
            source = ""
        elif not line.lstrip().startswith("attribute"):
            source = ""
    for line in text:
        if found := _SOURCE.match(line):
            source = found[1]
        elif found := _MODULE.match(line):
            module = found[1]
        elif found := _CELL.match(line):
            place = _FILE.search(source)
            block = _dotted(place) if place else _owner(modules, module)
            if block:
                places[module, found[2].removeprefix("\\")] = block, int(place[2]) if place else 0, found[1]
                lines.append(f'  attribute \\block "{block}"')
        if not line.lstrip().startswith("attribute"):
            source = ""
        lines.append(line)
    return "\n".join(lines) + "\n", places


def files(netlist: str) -> set[str]:
    """The files of rtl/ that the cells of a netlist come from."""
    return {block for block, *_ in blocks(netlist)[1].values()}


def _clock(port: str, kind: str) -> bool:
    """True if a cell's port is a clock: clocks are left alone, but not the signals that open their gates."""
    return _CLOCK.search(port) is not None or (kind == f"\\{CELL}" and port != "open")


def shares(sizes: dict[str, int], count: int) -> dict[str, int]:
    """Numbers of mutants of the blocks: by the square root of its cells, at least LEAST, ``count`` or more in all."""
    scale = 0.0
    while True:
        scale += 0.05
        given = {block: max(LEAST, math.ceil(scale * math.sqrt(cells))) for block, cells in sorted(sizes.items())}
        if sum(given.values()) >= count:
            return given


def choose(netlist: str, count: int, seed: int, only: set[str] | None = None) -> list[Mutant]:
    """At least ``count`` mutants over all blocks of a netlist, or ``only`` these.

    Clocks are left alone: their faults aren't the RTL's.
    """
    marked, places = blocks(netlist)
    cells = Counter(block for block, *_ in places.values() if only is None or block in only)
    wanted = shares(cells, count)
    mutants = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "marked.il"
        path.write_text(marked)
        lists = {block: Path(folder) / block for block in wanted}
        # Some of a list may be clocks.
        listed = [
            f"mutate -list {2 * number + 8} -seed {seed} -o {lists[block]} a:block={block}"
            for block, number in wanted.items()
        ]
        yosys.run("\n".join([f"read_rtlil {path}", *listed]))
        for block, number in wanted.items():
            options = [dict(_OPTION.findall(line)) for line in lists[block].read_text().splitlines()]
            usable = [
                option for option in options if not _clock(option["port"], places[option["module"], option["cell"]][2])
            ]
            step = len(usable) / number
            for option in (usable[int(i * step)] for i in range(min(number, len(usable)))):
                _, line, kind = places[option["module"], option["cell"]]
                ctrlbit = int(option["ctrlbit"]) if "ctrlbit" in option else None
                mutants.append(Mutant(
                    len(mutants) + 1, block, line, option["module"], option["cell"], kind, option["port"],
                    int(option["portbit"]), option["mode"], ctrlbit,
                ))  # fmt: skip
    return mutants
