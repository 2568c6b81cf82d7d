"""Mutants of blocks that a change touches: a few are broken again, on their blocks' benches alone.

A row of ``results/robustness.json`` is touched if its bench and its block's netlist have another digest now. Netlists
of single blocks take seconds, the accelerator's takes minutes with all digests. Benches in ``QUICK`` are built and run
in seconds too. From the touched rows that such a bench caught, a sample is taken: in the order of their present
digests, which every change shuffles, from as many blocks as there are. A mutant's cell must still be of the same
kind and from the same file. If there is none, mutants are chosen anew.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from adagp.gen.description import MODULE

from . import equivalence
from .blocks import BENCHES
from .campaign import Campaign
from .choice import Mutant, blocks, choose
from .netlist import assemble, read, verilog
from .parts import PARTS
from .sequential import MEMORIES
from .yosys import YosysError

__all__ = ["MOST", "QUICK", "BlockCampaign", "Touched", "mutant_of", "rows_by_bench", "run", "spread"]

MOST = 2
"""Mutants of a sample."""
SEED, N_OTHERS = 1, 20
"""Those of mutants that are chosen anew."""
QUICK = {
    "mutation": ("Csr", "Drain", "Fill"),
    "mutation_predicting": ("AdamLane", "AdamRate", "Cosine", "Gate", "PhaseControl", "QualitySums"),
    "mutation_switched": ("ChannelConstants", "Dropout"),
}
"""Benches that are built and run in less than 15 seconds, by parts of the campaign."""


class BlockCampaign(Campaign):
    """The campaign on the bench ``name`` alone, whose netlist is that of the block without the accelerator.

    Digests are those of the campaign on the accelerator, as its blocks are the same. Only quick proofs are tried.
    """

    def __init__(self, name: str, part: str, work: Path):
        self._open(work / name, work, PARTS[part])
        self.name, self.mutants = name, []
        whole, texts = assemble(BENCHES[name].design(), self.part.blocks)
        modules = [read(whole), *(read(texts[block]) for block in sorted(texts))]
        (self.folder / "netlist.il").write_text("".join(modules))

    def _design(self, name: str) -> str:
        return self.netlist

    def asked(self, mutant: Mutant) -> list[str]:
        return [self.name]

    def attempts(self, mutant: Mutant) -> Iterator[tuple[str, ...]]:
        for scope, *how in equivalence.attempts(mutant):
            if scope != equivalence.TOP and MEMORIES not in how:
                yield scope, *how

    @cached_property
    def _known_sources(self) -> dict[str, str]:
        return {self.name: self._sources(self.name)}

    @cached_property
    def _places(self) -> dict[tuple[str, str], tuple[str, int, str]]:
        return blocks(self.netlist)[1]

    def here(self, mutant: Mutant) -> Mutant | None:
        """A mutant with its cell's present place; None if there is no such cell, or it is of another kind or file."""
        block, line, kind = self._places.get((mutant.module, mutant.cell), ("", 0, ""))
        if (_file(block), kind) != (_file(mutant.block), mutant.kind):
            return None
        try:
            verilog(self.netlist, [mutant])
        except YosysError:  # the cell has fewer bits now
            return None
        return replace(mutant, block=block, line=line)

    def others(self) -> list[Mutant]:
        """Mutants of the present netlist."""
        return [mutant for mutant in choose(self.netlist, N_OTHERS, SEED) if not mutant.module.startswith(MODULE)]

    def answer(self, mutants: list[Mutant]) -> list[dict]:
        """Rows of mutants that are run anew; who survives the bench and quick proofs meets the accelerator's bench."""
        self.mutants = [replace(mutant, number=number) for number, mutant in enumerate(mutants, 1)]
        self.run(self.mutants)
        rows = [self.finding(mutant).row() for mutant in self.mutants]
        if survivors := [mutant for mutant, row in zip(mutants, rows, strict=True) if row["result"] == "survived"]:
            whole = Campaign(self.part.count, SEED, self.folder, self.part)
            whole.mutants = [replace(mutant, number=number) for number, mutant in enumerate(survivors, 1)]
            whole.run(whole.mutants)
            rows = [row for row in rows if row["result"] != "survived"]
            rows += [whole.finding(mutant).row() for mutant in whole.mutants]
        return rows


@dataclass
class Touched:
    """Touched and other blocks by their benches, and the rows of a sample."""

    blocks: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    rows: list[dict] = field(default_factory=list)

    @property
    def survivors(self) -> list[str]:
        """Mutants of the sample that nothing noticed, and that nobody has shown to be harmless."""
        return [_text(row) for row in self.rows if row["result"] == "survived"]

    def __str__(self):
        found = ", ".join(_text(row) for row in self.rows) or "none"
        return (
            f"mutation: of the blocks with quick benches, touched: {', '.join(self.blocks) or 'none'}; "
            f"mutants run: {found}; all others are left for nox -s mutate"
        )


def _file(block: str) -> str:
    """The name of a block's file, whose folder may have changed."""
    return block.rpartition(".")[2]


def _text(row: Mapping) -> str:
    place = f"rtl/{row['block'].replace('.', '/')}.py:{row['line']}"
    return f"{place}, {mutant_of(row).command}: {row['result']}"


def mutant_of(row: Mapping) -> Mutant:
    """The mutant of a row."""
    return Mutant(**{name: row[name] for name in Mutant.__dataclass_fields__})


def rows_by_bench(details: Mapping[str, Mapping]) -> dict[str, list[dict]]:
    """Rows of the results' parts that a quick bench caught, by that bench."""
    found: dict[str, list[dict]] = {name: [] for names in QUICK.values() for name in names}
    for part in QUICK.keys() & details.keys():
        for row in details[part]["details"]["mutants"]:
            if row["result"] == "block" and row["by"] in QUICK[part]:
                found[row["by"]].append(row)
    return found


def spread(candidates: Mapping[str, list[tuple[str, Mutant]]]) -> list[tuple[str, Mutant]]:
    """Mutants with their benches: of each bench one, then of each a second one, and so on, in the order of digests."""
    ranks = [
        (rank, mutants[0][0], name, mutant)
        for name, mutants in candidates.items()
        for rank, (_, mutant) in enumerate(sorted(mutants, key=lambda pair: pair[0]))
    ]
    return [(name, mutant) for _, _, name, mutant in sorted(ranks, key=lambda one: one[:3])]


def run(details: Mapping[str, Mapping], work: Path, most: int = MOST) -> Touched:
    """Find the touched blocks, and run at most ``most`` of their mutants."""
    found = Touched()
    campaigns, candidates = {}, {}
    for name, rows in rows_by_bench(details).items():
        campaign = BlockCampaign(name, next(part for part, names in QUICK.items() if name in names), work)
        known = [(campaign.question(name, mutant), mutant) for mutant in map(mutant_of, rows)]
        if any(digest != row["digests"][name] for (digest, _), row in zip(known, rows, strict=True)):
            found.blocks.append(name)
            campaigns[name], candidates[name] = campaign, known
        else:
            found.others.append(name)
    chosen = _present(spread(candidates), campaigns, most)
    if not any(chosen.values()):
        others = {
            name: [(campaign.question(name, mutant), mutant) for mutant in campaign.others()]
            for name, campaign in campaigns.items()
        }
        chosen = _present(spread(others), campaigns, most)
    for name, mutants in chosen.items():
        found.rows += campaigns[name].answer(mutants)
    return found


def _present(
    ordered: list[tuple[str, Mutant]], campaigns: Mapping[str, BlockCampaign], most: int
) -> dict[str, list[Mutant]]:
    """The first ``most`` mutants that are in the present netlists, by their benches."""
    chosen: dict[str, list[Mutant]] = {}
    for name, recorded in ordered:
        if sum(map(len, chosen.values())) == most:
            break
        if mutant := campaigns[name].here(recorded):
            chosen.setdefault(name, []).append(mutant)
    return chosen
