"""The campaign: makes netlists with mutants once, and keeps the answers about each mutant on file."""

import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cached_property
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

from adagp.gen.files import write_atomically
from adagp.rtl.top import Top
from adagp.sim.build import library
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from . import equivalence
from .bench import Bench
from .blocks import BENCHES, bench_sources, benches
from .choice import Mutant, choose, files
from .finding import Finding
from .netlist import assemble, netlists, read, under, verilog
from .observations import CONFIG
from .parts import PARTS, Part
from .records import Records
from .sources import ROOT, digest, sources

__all__ = ["WORK", "Campaign", "SourcesChangedError"]

WORK = Path("build/mutation")
HERE = Path(__file__).parent
TOP = "top"
MAKERS = [HERE / f"{name}.py" for name in ("netlist", "choice")]
"""Sources that make netlists and mutants, besides rtl/."""

_bench: Bench | None = None


class SourcesChangedError(RuntimeError):
    """Sources changed while the campaign ran, so its answers belong to neither version."""


class Campaign:
    """At least ``count`` mutants by ``seed``. ``records`` holds all answers, by the digests of their questions.

    ``part`` says where the mutants are, and the stages of the top's bench.

    A question's digest covers its netlist (a block's own, for the block's bench), the mutant, and the sources of the
    bench or prover that answers. An answer that is found is therefore current, and only missing answers are sought.
    """

    def __init__(self, count: int, seed: int, work: Path = WORK, part: Part = PARTS["mutation"]):
        made_of = self._hardware()
        folder = work / digest(made_of, count, seed, version("pyosys"), *filter(None, [part.figures[:-1]]))
        self._open(folder, work, part)
        if not (self.folder / "mutants.json").exists():
            top, blocks = netlists(Top(part.config), part.blocks)
            baseline = set() if part.everywhere else files("".join(netlists(Top(CONFIG))))
            only = files(top + blocks) - baseline | part.others
            (self.folder / "netlist.il").write_text(top + blocks)
            (self.folder / "blocks.il").write_text(blocks)
            chosen = [mutant.to_dict() for mutant in choose(top + blocks, count, seed, only)]
            if self._hardware() != made_of:
                raise SourcesChangedError("rtl/ changed while its netlist was made: begin again")
            write_atomically(self.folder / "mutants.json", json.dumps(chosen, indent=1).encode())
        self.mutants = [Mutant(**fields) for fields in json.loads((self.folder / "mutants.json").read_text())]

    def _open(self, folder: Path, work: Path, part: Part) -> None:
        """Have netlists in ``folder``, answers in ``work``."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.part = folder, part
        self.records = Records(work / "records.jsonl")
        self._parts: dict[tuple[str, str], str] = {}

    @staticmethod
    def _hardware():
        return sources([*(ROOT / "rtl").rglob("*.py"), *MAKERS])

    # --- netlists ---------------------------------------------------------------------------------

    @cached_property
    def netlist(self) -> str:
        """RTLIL of the intact accelerator."""
        return (self.folder / "netlist.il").read_text()

    def _design(self, name: str) -> str:
        """RTLIL of a bench's design."""
        if name == TOP:
            return self.netlist
        path = self.folder / f"{name}.il"
        if not path.exists():
            write_atomically(path, read(assemble(BENCHES[name].design(), self.part.blocks)[0]).encode())
        return path.read_text() + (self.folder / "blocks.il").read_text()

    def _verilog(self, name: str) -> Path:
        """Verilog of a bench's design with its mutants; made when missing."""
        path = self.folder / f"{name}.v"
        if not path.exists():
            inside = [mutant for mutant in self.mutants if name in self.asked(mutant)]
            write_atomically(path, verilog(self._design(name), inside).encode())
        return path

    # --- questions --------------------------------------------------------------------------------

    def attempts(self, mutant: Mutant) -> Iterator[tuple[str, ...]]:
        """Attempts at a proof, in order."""
        return equivalence.attempts(mutant)

    def asked(self, mutant: Mutant) -> list[str]:
        """Names of the benches that test a mutant, in order: its block's, then the top's."""
        return [*(bench.block for bench in benches(mutant)), TOP]

    def _sources(self, name: str) -> str:
        if name == TOP:
            return sources([HERE / f"{name}.py" for name in ("bench", self.part.bench)])
        return bench_sources(BENCHES[name])

    @cached_property
    def _known_sources(self) -> dict[str, str]:
        return {name: self._sources(name) for name in (*BENCHES, TOP)}

    @cached_property
    def _prover(self) -> str:
        return sources(equivalence.SOURCES)

    def _part(self, name: str, module: str) -> str:
        """Digest of a module of a bench's design, with the modules inside it."""
        if (name, module) not in self._parts:
            self._parts[name, module] = digest(under(self._design(name), module))
        return self._parts[name, module]

    def question(self, name: str, mutant: Mutant | None = None) -> str:
        """Digest of all that a bench's verdict depends on: on a mutant, or on the intact netlist."""
        command = "" if mutant is None else mutant.command
        return digest(name, self._part(name, equivalence.TOP), command, self._known_sources[name])

    def attempt(self, mutant: Mutant, scope: str, *how: str) -> str:
        """Digest of all that the outcome of an attempt at a proof depends on."""
        return digest(self._part(TOP, scope), mutant.command, self._prover, scope, how)

    def finding(self, mutant: Mutant) -> Finding:
        """Everything that is known of a mutant."""
        finding = Finding(mutant, self._part(TOP, mutant.module))
        for name in self.asked(mutant):
            finding.asked(name, self.question(name, mutant), self.records)
            if finding.caught or not finding.complete:
                return finding
        for scope, *how in self.attempts(mutant):
            finding.tried(self.attempt(mutant, scope, *how), self.records)
            if finding.proof or not finding.complete:
                break
        return finding

    # --- answers ----------------------------------------------------------------------------------

    def _answer(self, name: str, number: int) -> dict:
        """A bench's verdict on a mutant; the bench must pass on the intact netlist first."""
        if name == TOP:
            answer = self._top().apart(number)
        else:
            seconds = self.records[self.question(name)]["seconds"]
            answer = BENCHES[name].difference(self._verilog(name), number, seconds)
        if self._sources(name) != self._known_sources[name]:
            raise SourcesChangedError(f"the sources of bench {name} changed while it ran: begin again")
        return answer

    def _top(self) -> Bench:
        global _bench
        top = self._verilog(TOP)
        if _bench is None or _bench.top != top:
            library(self.part.config, top=top)
            _bench = Bench(top, self.part.stages)
        return _bench

    def _ready(self, names: set[str]) -> None:
        """Build the benches' designs, and check that the benches pass on the intact netlist."""
        for name in sorted(names & BENCHES.keys()):
            if self.question(name) not in self.records:
                self.records.add(self.question(name), {"seconds": BENCHES[name].seconds(self._verilog(name))})

    def alone(self, number: int) -> dict[str, dict]:
        """Answers about a mutant that aren't in the records, up to the first that settles it."""
        mutant, answers = self.mutants[number - 1], {}
        for name in self.asked(mutant):
            if (question := self.question(name, mutant)) not in self.records:
                answers[question] = self._answer(name, number)
            if {**self.records, **answers}[question]["found"] is not None:
                return answers
        for scope, *how in self.attempts(mutant):
            if (question := self.attempt(mutant, scope, *how)) not in self.records:
                answers[question] = equivalence.prove(self.netlist, mutant.command, scope, *how)
            if {**self.records, **answers}[question]["proved"]:
                break
        return answers

    def run(self, mutants: list[Mutant], jobs: int = 1) -> None:
        """Find the missing answers on ``mutants``. Answers found so far stay when the run is stopped."""
        todo = [mutant for mutant in mutants if not self.finding(mutant).complete]
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TimeRemainingColumn(),
        )  # fmt: skip
        with Progress(*columns) as progress:
            task = progress.add_task("mutants", total=len(mutants), completed=len(mutants) - len(todo))
            self._ready({name for mutant in todo for name in self.asked(mutant)})
            if todo and jobs > 1:
                self._top()  # once, for all processes
            for number, answers in self._answers([mutant.number for mutant in todo], jobs):
                for question, answer in answers.items():
                    self.records.add(question, answer)
                progress.advance(task)
                if self.finding(self.mutants[number - 1]).result == "survived":
                    progress.print(f"survived: {self.mutants[number - 1]}", markup=False)

    def _answers(self, numbers, jobs) -> Iterator[tuple[int, dict[str, dict]]]:
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
