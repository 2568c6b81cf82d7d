"""Findings on one mutant, and the result that follows."""

from collections.abc import Mapping

from .choice import Mutant
from .waivers import ARGUED, PREDICTING_ARGUED, SWITCHED_ARGUED

__all__ = ["Finding"]

TOP = "top"


class Finding:
    """Verdicts of benches by name, proofs tried, and the digests of what all of them depend on, as found in records.

    ``netlist`` is the digest of the module with the mutant, which an argument must have been made for.

    ``complete``: no answer is missing. ``caught``: the first bench that noticed the mutant; ``proof``: how it was
    proved equivalent.
    """

    def __init__(self, mutant: Mutant, netlist: str):
        self.mutant, self.netlist = mutant, netlist
        self.verdicts: dict[str, dict] = {}
        self.digests: dict[str, str] = {}
        self.complete = True
        self.caught: str | None = None
        self.proof: dict | None = None

    def asked(self, name: str, digest: str, records: Mapping[str, dict]) -> None:
        """A bench's verdict, if there is one."""
        self.digests[name] = digest
        if digest not in records:
            self.complete = False
            return
        self.verdicts[name] = records[digest]
        if records[digest]["found"] is not None:
            self.caught = name

    def tried(self, digest: str, records: Mapping[str, dict]) -> None:
        """The outcome of the attempts to prove it, if known."""
        self.digests["proof"] = digest
        if digest not in records:
            self.complete = False
        elif records[digest]["proved"]:
            self.proof = {name: value for name, value in records[digest].items() if name != "proved"}

    @property
    def reason(self) -> str | None:
        """Why it can't matter, if that is only argued."""
        netlist, reason = (ARGUED | PREDICTING_ARGUED | SWITCHED_ARGUED).get(self.mutant.command, ("", None))
        return None if self.caught or self.proof or netlist != self.netlist else reason

    @property
    def result(self) -> str:
        """Its result: a column of the table."""
        if self.caught:
            return TOP if self.caught == TOP else "block"
        return "equivalent" if self.proof else "argued" if self.reason else "survived"

    @property
    def block_bench(self) -> str:
        """The verdict of its block's bench."""
        said = [verdict["found"] for name, verdict in self.verdicts.items() if name != TOP]
        return "none" if not said else "survived" if said == [None] * len(said) else "caught"

    def row(self) -> dict:
        """As a row of the results; digests tell whether it is current."""
        verdict = self.verdicts.get(self.caught or "", {"found": None, "kind": None})
        return {
            **self.mutant.to_dict(), "result": self.result, "block_bench": self.block_bench, "by": self.caught,
            "found": verdict["found"], "caught_by": verdict["kind"], "proof": self.proof, "reason": self.reason,
            "digests": self.digests,
        }  # fmt: skip
