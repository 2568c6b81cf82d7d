"""The campaign: netlists with mutants, made once; what became of each mutant, kept on file."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

from adagp.host.run_folder import write_atomically
from adagp.rtl.top import Top
from adagp.sim.build import library
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from . import equivalence
from .bench import Bench
from .blocks import BENCHES, BlockBench, benches
from .choice import Mutant, choose
from .netlist import assemble, netlists, read, verilog
from .seen import CONFIG

__all__ = ["ORDER", "WORK", "Campaign"]

WORK = Path("build/mutation")
ORDER = ("block", "top")
"""A block's bench, then the top's."""
ROOT = Path(__file__).parents[2]
HARDWARE = ("spec", "rtl", "gen")
MAKERS = ("netlist.py", "choice.py", "yosys.py")
"""What netlists and mutants are made by, besides the sources in HARDWARE."""
BENCH_SOURCES = ("golden", "host", "sim", "tb", "tb/cocotb", "tb/mutation")


def _digest(folders: Iterable[str], *more: object) -> str:
    digest = hashlib.sha256(repr(more).encode())
    for path in sorted(path for folder in folders for path in (ROOT / folder).glob("*.py")):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:24]


_bench: Bench | None = None


class Campaign:
    """At least ``count`` mutants by ``seed``; everything is kept in a folder of ``work`` named after the hardware.

    ``order``: the benches, of "block" and "top".
    """

    def __init__(self, count: int, seed: int, work: Path = WORK, *, order: Sequence[str] = ORDER):
        self.order = tuple(order)
        makers = [(Path(__file__).parent / name).read_bytes() for name in MAKERS]
        self.folder = work / _digest(HARDWARE, count, seed, version("pyosys"), makers)
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / "mutants.json").exists():
            top, blocks = netlists(Top(CONFIG))
            (self.folder / "top.il").write_text(top)
            (self.folder / "blocks.il").write_text(blocks)
            chosen = [mutant.to_dict() for mutant in choose(top + blocks, count, seed)]
            write_atomically(self.folder / "mutants.json", json.dumps(chosen, indent=1).encode())
        self.mutants = [Mutant(**fields) for fields in json.loads((self.folder / "mutants.json").read_text())]

    # --- netlists ---------------------------------------------------------------------------------

    @property
    def netlist(self) -> str:
        """RTLIL of the intact accelerator."""
        return (self.folder / "top.il").read_text() + (self.folder / "blocks.il").read_text()

    def _verilog(self, name: str) -> Path:
        """Verilog of the accelerator ("top") or of a block's bench design, with its mutants; made when missing."""
        path = self.folder / f"{name}.v"
        if not path.exists():
            if name == "top":
                text = verilog(self.netlist, self.mutants)
            else:
                design = read([assemble(BENCHES[name].design())[0]])
                inside = [mutant for mutant in self.mutants if BENCHES[name] in benches(mutant)]
                text = verilog(design + (self.folder / "blocks.il").read_text(), inside)
            write_atomically(path, text.encode())
        return path

    # --- running ----------------------------------------------------------------------------------

    def alone(self, number: int) -> dict:
        """What becomes of one mutant."""
        top = self._top()
        blocks = [(bench.block, partial(self._block, bench, number)) for bench in benches(self.mutants[number - 1])]
        steps = {"block": blocks, "top": [("top", partial(top.apart, number))]}
        for name, difference in (step for kind in self.order for step in steps[kind]):
            if (found := difference()) is not None:
                return {"by": name, "found": found}
        return {"by": None, "found": None}

    def _top(self) -> Bench:
        global _bench
        if _bench is None:
            library(CONFIG, top=self._verilog("top"))
            _bench = Bench(self._verilog("top"))
        return _bench

    def _block(self, bench: BlockBench, number: int) -> str | None:
        """What a block's bench says, once it has been seen to pass on the intact netlist."""
        path, known = self._verilog(bench.block), self.folder / f"{bench.block}-{_digest(BENCH_SOURCES)}.seconds"
        if not known.exists():
            write_atomically(known, str(bench.seconds(path)).encode())
        return bench.difference(path, number, int(known.read_text()))

    def run(self, mutants: list[Mutant], jobs: int = 1, keep: bool = False) -> dict[int, dict]:
        """What becomes of ``mutants``, by number; ``keep``: believe in what other benches caught."""
        path, findings = self._load(keep)
        missing = [mutant for mutant in mutants if mutant.number not in findings]
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TimeRemainingColumn(),
        )  # fmt: skip
        with open(path, "a") as file, Progress(*columns) as progress:
            task = progress.add_task("mutants", total=len(mutants), completed=len(mutants) - len(missing))
            if missing:
                self._top()
            for number, finding in self._findings([mutant.number for mutant in missing], jobs):
                findings[number] = finding
                file.write(json.dumps([number, finding]) + "\n")
                file.flush()
                progress.advance(task)
                if finding["by"] is None:
                    progress.print(f"not caught: {self.mutants[number - 1]}", markup=False)
        return findings

    def _findings(self, numbers, jobs):
        if jobs == 1:
            yield from ((number, self.alone(number)) for number in numbers)
            return
        with ProcessPoolExecutor(jobs, get_context("fork")) as pool:  # each with the bench that is open
            futures = {pool.submit(self.alone, number): number for number in numbers}
            try:
                for future in as_completed(futures):
                    yield futures[future], future.result()
            finally:
                pool.shutdown(cancel_futures=True)

    def _load(self, keep):
        """The file of findings, ready to append to, and what is on it."""
        path = self.folder / "findings.jsonl"
        head = {"benches": _digest(BENCH_SOURCES), "order": list(self.order)}
        lines = (
            [json.loads(line) for line in path.read_text().splitlines() if line.endswith(("}", "]"))]
            if path.exists()
            else []
        )
        findings = dict(lines[1:])
        if lines and lines[0] != head:
            findings = {number: finding for number, finding in findings.items() if keep and finding["by"]}
        kept = [json.dumps(line) + "\n" for line in (head, *findings.items())]
        write_atomically(path, "".join(kept).encode())
        return path, findings

    # --- proofs -----------------------------------------------------------------------------------

    def prove(self, mutants: Iterable[Mutant], findings: dict[int, dict]) -> None:
        """Try to prove equivalent what no bench caught; adds ``proof`` to findings. Proofs are kept too."""
        path = self.folder / "proofs.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        for mutant in mutants:
            if findings[mutant.number]["by"] is not None:
                continue
            if str(mutant.number) not in known:
                known[str(mutant.number)] = equivalence.prove(self.netlist, mutant)
                write_atomically(path, json.dumps(known, indent=1).encode())
            findings[mutant.number]["proof"] = known[str(mutant.number)]
