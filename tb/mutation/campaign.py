"""The campaign: netlists with mutants, made once; what became of each mutant, kept on file."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

from adagp.host.run_folder import write_atomically
from adagp.rtl.top import Top
from adagp.sim.build import library
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from . import equivalence, sequential
from .bench import Bench
from .blocks import BENCHES, ORDER, BlockBench, benches, names
from .choice import Mutant, choose
from .netlist import assemble, netlists, read, verilog
from .seen import CONFIG

__all__ = ["ORDER", "WORK", "Campaign"]

WORK = Path("build/mutation")
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


PROVER = hashlib.sha256(b"".join(Path(m.__file__).read_bytes() for m in (equivalence, sequential))).hexdigest()[:24]

_bench: Bench | None = None


class Campaign:
    """At least ``count`` mutants by ``seed``; everything is kept in a folder of ``work`` named after the hardware.

    ``order``: the benches, of "block" and "top".
    """

    def __init__(self, count: int, seed: int, work: Path = WORK, *, order: Sequence[str] = ORDER):
        self.order, self.benches = tuple(order), _digest(BENCH_SOURCES)
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

    def alone(self, number: int, known: Mapping[str, str | None] | None = None) -> dict[str, str | None]:
        """What benches say of a mutant, by their names, up to the first that notices; None: nothing.

        What is ``known`` of a bench is not asked again.
        """
        mutant, said = self.mutants[number - 1], dict(known or {})
        for name in names(mutant, self.order):
            if name not in said:
                said[name] = self._top().apart(number) if name == "top" else self._block(BENCHES[name], number)
            if said[name] is not None:
                break
        return said

    def _top(self) -> Bench:
        global _bench
        if _bench is None:
            library(CONFIG, top=self._verilog("top"))
            _bench = Bench(self._verilog("top"))
        return _bench

    def _block(self, bench: BlockBench, number: int) -> str | None:
        """What a block's bench says, once it has been seen to pass on the intact netlist."""
        path, known = self._verilog(bench.block), self.folder / f"{bench.block}-{self.benches}.seconds"
        if not known.exists():
            write_atomically(known, str(bench.seconds(path)).encode())
        return bench.difference(path, number, int(known.read_text()))

    def run(self, mutants: list[Mutant], jobs: int = 1, keep: bool = False) -> dict[int, dict]:
        """What benches say of ``mutants``, by number; ``keep``: believe in what other benches caught.

        Those with a proof, from earlier runs, need no bench.
        """
        path, findings = self._load(keep)
        todo = [mutant for mutant in mutants if not self.proofs.get(mutant.number) and self._open(mutant, findings)]
        missing = {mutant.number: findings[mutant.number] for mutant in todo}
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TimeRemainingColumn(),
        )  # fmt: skip
        with open(path, "a") as file, Progress(*columns) as progress:
            task = progress.add_task("mutants", total=len(mutants), completed=len(mutants) - len(missing))
            if missing and "top" in self.order and jobs > 1:
                self._top()
            for number, said in self._findings(missing, jobs):
                findings[number] = said
                file.write(json.dumps([number, said]) + "\n")
                file.flush()
                progress.advance(task)
                if not any(said.values()):
                    progress.print(f"not caught: {self.mutants[number - 1]}", markup=False)
        return findings

    def _open(self, mutant, findings):
        """Whether a bench is yet to be asked about a mutant: not if any has caught it, in whatever order."""
        said = findings[mutant.number]
        return not any(said.values()) and any(name not in said for name in names(mutant, self.order))

    def _findings(self, known, jobs):
        if jobs == 1:
            yield from ((number, self.alone(number, said)) for number, said in known.items())
            return
        with ProcessPoolExecutor(jobs, get_context("fork")) as pool:  # each with the bench that is open
            futures = {pool.submit(self.alone, number, said): number for number, said in known.items()}
            try:
                for future in as_completed(futures):
                    yield futures[future], future.result()
            finally:
                pool.shutdown(cancel_futures=True)

    def _load(self, keep):
        """The file of findings, ready to append to, and what is on it."""
        path = self.folder / "findings.jsonl"
        head = {"benches": self.benches}
        findings: dict[int, dict] = defaultdict(dict)
        lines = path.read_text().splitlines() if path.exists() else []
        same = lines and json.loads(lines[0]) == head
        for line in lines[1:]:
            if line.endswith("]"):  # else it was being written
                number, said = json.loads(line)
                findings[number] = {name: found for name, found in said.items() if same or (keep and found is not None)}
        kept = [json.dumps(line) + "\n" for line in (head, *findings.items())]
        write_atomically(path, "".join(kept).encode())
        return path, findings

    # --- proofs -----------------------------------------------------------------------------------

    @property
    def proofs(self) -> dict[int, dict | None]:
        """Proofs that mutants are equivalent, by number; None: this prover found none."""
        if not self._proofs.exists():
            return {}
        kept = json.loads(self._proofs.read_text())
        known = {int(number): proof for number, proof in kept["proofs"].items()}
        return {number: proof for number, proof in known.items() if proof or kept["prover"] == PROVER}

    @property
    def _proofs(self):
        return self.folder / "proofs.json"

    def prove(self, mutants: Iterable[Mutant], findings: Mapping[int, Mapping]) -> dict[int, dict | None]:
        """:attr:`proofs`, after trying to find one for each of ``mutants`` that no bench caught."""
        proofs = self.proofs
        for mutant in mutants:
            if mutant.number not in proofs and not any(findings[mutant.number].values()):
                proofs[mutant.number] = equivalence.prove(self.netlist, mutant)
                kept = {"prover": PROVER, "proofs": proofs}
                write_atomically(self._proofs, json.dumps(kept, indent=1).encode())
        return proofs
