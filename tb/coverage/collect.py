"""Runs pieces and benches on simulators with coverage, and keeps the counts of each in a file of its own."""

import gc
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from adagp.gen.files import write_atomically
from adagp.gen.generated import generated
from adagp.gen.verilog import Flat, Gated
from adagp.host.devices import simulated
from adagp.rtl.top import Top
from adagp.sim import coverage
from adagp.sim.build import library
from adagp.sim.coverage import LINE, TOGGLE
from adagp.sim.simulation import Simulation
from amaranth.hdl import Fragment
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..mutation.observations import CONFIG
from ..robustness import conditions
from .benches import BENCHES, Bench
from .workloads import PIECES, Piece

__all__ = ["ALL", "WORK", "Collection"]

ALL = [*PIECES, *BENCHES]
"""Everything that runs for coverage."""

KINDS = (LINE, TOGGLE)
WORK = Path("build/coverage")
ROOT = Path(__file__).parents[2]
SOURCES = (
    "golden", "host", "sim", "spec", "tb/support", "tb/cocotb", "tb/host", "tb/mutation", "tb/robustness", "tb/unit",
)  # fmt: skip
"""Folders whose sources affect workloads and benches, besides the files of OWN."""
OWN = ("benches.py", "statements.py", "workloads.py")


def _digest() -> str:
    digest = hashlib.sha256()
    own = [Path(__file__).parent / name for name in OWN]
    for path in sorted([*own, *(path for folder in SOURCES for path in (ROOT / folder).rglob("*.py"))]):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:24]


def _blocks() -> dict[str, str]:
    """The file of rtl/ of each module, by the module's name. A library's module has the file of the block around it."""
    found = {}

    def walk(fragment, path, owner):
        for origin in fragment.origins or ():
            module = type(origin).__module__
            owner = module.removeprefix("adagp.rtl.") if module.startswith("adagp.rtl.") else owner
        found[".".join(path)] = owner
        for index, (inner, name, *_) in enumerate(fragment.subfragments):
            walk(inner, (*path, name or f"U${index}"), owner)

    walk(Fragment.get(Flat(Top(CONFIG)), Gated()), ("adagp",), "top")
    return found


class Collection:
    """Coverage in ``work``: a folder for each simulator, a file for each piece of workloads and each bench.

    ``keep``: files stay good when workloads have changed.
    """

    def __init__(self, work: Path = WORK, *, keep: bool = False):
        self.keep, self.digest = keep, _digest()
        self.simulator = library(CONFIG, coverage=KINDS)
        self.points = coverage.load(self.simulator.with_suffix(".json"))
        self.n_counters = coverage.n_counters(self.simulator.with_suffix(".json"))
        self.text = generated(CONFIG).read_text().splitlines()
        self.folder = work / self.simulator.stem
        self.folder.mkdir(parents=True, exist_ok=True)

    def blocks(self) -> dict[str, str]:
        """The file of rtl/ of every module with points."""
        path = self.folder / "blocks.json"
        if not path.exists():
            write_atomically(path, json.dumps(_blocks()).encode())
        blocks = json.loads(path.read_text()) | {"adagp_clock_gate": "clock_gate"}
        # The second use of a name within a module ends with a number.
        return {name: blocks[name if name in blocks else re.sub(r"\$\d+", "", name)]
                for name in {point.module for point in self.points}}  # fmt: skip

    def _path(self, piece: Piece | Bench) -> Path:
        return self.folder / f"{piece.name.replace(' ', '-')}.npz"

    def known(self, piece: Piece | Bench) -> np.ndarray | None:
        """Counts of a piece, if they are on file."""
        path = self._path(piece)
        if not path.exists():
            return None
        with np.load(path) as file:
            return file["counts"] if self.keep or str(file["digest"]) == self.digest else None

    def found(self, bench: Bench) -> dict[str, int]:
        """Numbers of a bench's own points and of those that are the accelerator's too; it has run."""
        with np.load(self._path(bench)) as file:
            return json.loads(str(file["found"]))

    def collect(self, piece: Piece | Bench) -> np.ndarray:
        """Run a piece; returns its counts, which are then on file."""
        found: dict[str, int] = {}
        if isinstance(piece, Bench):
            counts, found = piece.run(self.points, self.text)
        else:
            counts = self._simulate(piece)
        with open(self._path(piece).with_suffix(".part"), "wb") as file:
            np.savez_compressed(file, counts=counts, digest=self.digest, found=json.dumps(found))
        self._path(piece).with_suffix(".part").replace(self._path(piece))
        return counts

    def _simulate(self, piece: Piece) -> np.ndarray:
        torch.set_num_threads(1)
        counts = np.zeros(self.n_counters, np.uint64)
        counting = partial(Simulation, coverage=(KINDS, counts))
        # Verilog without clock gates has other counters.
        with patch.object(simulated, "Simulation", counting), patch.object(conditions, "UNGATED", 0):
            piece.run()
            gc.collect()  # a simulation adds its counts when it is closed
        return counts

    def run(self, pieces: Iterable[Piece | Bench] = ALL, jobs: int = 1) -> dict[str, np.ndarray]:
        """Run those of ``pieces`` that aren't on file; returns the sums of all counts, by source."""
        pieces = list(pieces)
        total = np.zeros(self.n_counters, np.uint64)
        sums: dict[str, np.ndarray] = {}
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("{task.fields[share]:.2%} of all counters"),
        )  # fmt: skip
        with Progress(*columns) as progress:
            task = progress.add_task("coverage", total=len(pieces), share=0.0)
            for piece, counts in self._counts(pieces, jobs):
                new = int(((counts > 0) & (total == 0)).sum())
                total += counts
                sums[piece.source] = sums.get(piece.source, 0) + counts
                progress.update(task, advance=1, share=(total > 0).mean())
                progress.print(f"{piece.name}: {(counts > 0).sum()} counters, {new} of them new", markup=False)
        return sums

    def _counts(self, pieces: list[Piece | Bench], jobs: int) -> Iterator[tuple[Piece | Bench, np.ndarray]]:
        missing = []
        for piece in pieces:
            if (counts := self.known(piece)) is None:
                missing.append(piece)
            else:
                yield piece, counts
        if jobs == 1:
            yield from ((piece, self.collect(piece)) for piece in missing)
            return
        with ProcessPoolExecutor(jobs, get_context("fork")) as pool:
            running = {pool.submit(_collect, self, ALL.index(piece)): piece for piece in missing}
            try:
                for future in as_completed(running):
                    yield running[future], future.result()
            finally:
                pool.shutdown(cancel_futures=True)


def _collect(collection: Collection, index: int) -> np.ndarray:
    return collection.collect(ALL[index])
