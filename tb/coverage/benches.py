"""The cocotb benches as sources of coverage: points of a block that they cover count for the block in the accelerator.

Only the benches' cases with preset tiny count. The unit benches run in Amaranth's own simulator, which has no Verilog,
so they don't count.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from adagp.sim.coverage import LINE, TOGGLE, Point, plain

from .statements import Statements, pair

__all__ = ["BENCHES", "Bench"]

ROOT = Path(__file__).parents[2]
FOLDER = "ADAGP_COVERAGE"
"""The environment variable that tells the benches' runner where to leave coverage: its ``COVERAGE``."""

_BIT = re.compile(r"(.*?)(?:\[(\d+)\])?:([01])->[01]")


def read(path: Path) -> tuple[list[Point], Counter]:
    """The points of a file that Verilator's coverage has written, and the count of each point's counters.

    They are in the order of :class:`adagp.sim.coverage.Point`, whose own numbers of counters are not set.
    """
    counts: Counter = Counter()
    last: dict[tuple, int] = defaultdict(int)
    for record in path.read_text().splitlines():
        if not record.startswith("C "):
            continue
        text, _, count = record[3:].rpartition("' ")
        fields = dict(field.split("\x02") for field in text.split("\x01")[1:])
        kind, name, number = LINE, fields["o"], 0
        if fields["t"] == TOGGLE:
            name, bit, before = _BIT.fullmatch(name).groups()
            kind, number = TOGGLE, 2 * int(bit or 0) + (before == "0")
        key = kind, plain(fields["page"].partition("/")[2]), int(fields["l"]), int(fields["n"]), plain(name)
        last[key] = max(last[key], number)
        counts[key, number] += int(count)
    points = [Point(*key, -1, number // 2 + 1) for key, number in last.items()]
    return points, Counter({
        (point, number): counts[key, number]
        for point, key in zip(points, last, strict=True) for number in range(point.n_counters)
    })  # fmt: skip


@dataclass(frozen=True)
class Bench:
    """A cocotb bench: its test with preset tiny, the module of its Verilog that it tests, and that in the accelerator.

    ``source`` is its name among the sources of coverage.
    """

    test: str
    block: str
    place: str

    @property
    def name(self) -> str:
        return f"cocotb {self.test.partition('::')[0].removeprefix('test_')}"

    source = name

    def run(self, points: Sequence[Point], text: Sequence[str]) -> tuple[np.ndarray, dict[str, int]]:
        """Run the bench; returns counts of the accelerator's ``points`` in its Verilog ``text``.

        The second result is the number of the block's own points, by kind, that are points of the accelerator too.
        Raises RuntimeError if the bench fails.
        """
        module, _, test = self.test.partition("::")
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "pytest", "-q", f"tb/cocotb/{module}.py::{test}"]
            result = subprocess.run(
                command, env={**os.environ, FOLDER: folder}, cwd=ROOT, capture_output=True, text=True
            )
            if result.returncode:
                raise RuntimeError(f"{self.test} fails:\n{result.stdout[-4000:]}")
            own, seen = read(Path(folder, f"{module}.dat"))
            statements = Statements(Path(folder, f"{module}.v").read_text().splitlines())
        return self.transfer(own, seen, statements, points, Statements(text))

    def transfer(
        self, own: Iterable[Point], seen: Counter, statements: Statements, points: Sequence[Point], ours: Statements
    ) -> tuple[np.ndarray, dict[str, int]]:
        """Counts of the accelerator's ``points`` from the bench's ``own`` points, ``seen`` so often; as :meth:`run`."""
        by_module = defaultdict(list)
        for point in points:
            by_module[point.module].append(point)
        own_by_module = defaultdict(list)
        for point in own:
            own_by_module[point.module].append(point)
        counts = np.zeros(max(point.counter + point.n_counters for point in points), np.uint64)
        numbers: Counter = Counter()
        for module, theirs in own_by_module.items():
            if not f"{module}.".startswith(f"{self.block}."):
                continue
            for point in theirs:
                numbers[point.kind] += point.n_counters
            for point, same in pair(statements, theirs, ours, by_module[self.place + module.removeprefix(self.block)]):
                numbers[f"{point.kind}_found"] += point.n_counters
                for number in range(point.n_counters):
                    counts[same.counter + number] += np.uint64(seen[point, number])
        return counts, dict(numbers)


_TOP = "adagp.accelerator"


def _alone(test: str, place: str, block: str = "") -> Bench:
    return Bench(test, f"{_TOP}.{block}".rstrip("."), f"{_TOP}.{place}")


BENCHES = [
    _alone("test_array::test_array[tiny-verilator]", "compute.array"),
    _alone("test_compute::test_compute[verilator]", "compute"),
    _alone("test_csr::test_csr[tiny-baseline-verilator]", "control.csr"),
    _alone("test_drain::test_drain[verilator]", "drain"),
    _alone("test_scratchpad::test_scratchpad[tiny-verilator]", "pad_a"),
    _alone("test_sequencer::test_sequencer[tiny-verilator]", "sequencer"),
    _alone("test_fill::test_fill[tiny-verilator]", "fill", "block"),
    _alone("test_store::test_store[tiny-verilator]", "store", "block.store"),
    _alone("test_update::test_update[tiny-verilator]", "update", "block"),
    Bench("test_faults::test_faults[verilator]", "adagp", "adagp"),
    Bench("test_top::test_training_batches[verilator]", "adagp", "adagp"),
]
