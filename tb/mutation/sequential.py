"""Proofs by ABC that a mutant can't matter: signal correspondence, then reachability, from reset on.

The intact and the broken module run side by side on the same inputs: registers are kept, and those behind a clock gate
keep their value while it is closed. Memories are cut out: what they give becomes an input that both share, as long as
both ask and write the same where they are enabled. A mutant is equivalent if outputs, gates and what memories are
given are always the same. This knows what registers can hold, but not for large modules. A module can be tried alone,
its submodules cut out like memories.

Mutants of the gates' own logic need only open them whenever the intact logic does, and change nothing where clocks just
go on: nothing depends on a gate's being closed, see :mod:`adagp.rtl.clock_gate`.

Invariants of the intact side may be given: it is only looked for sides that differ while these have always held.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pyosys

from .product import JOINT, product, run

__all__ = ["prove"]

SECONDS = 10
"""For ABC, on one module."""
MOST_LATCHES = 4000
"""That correspondence is looked for in."""
GIVEN_WORD = "given"
_ABC = Path(pyosys.__file__).parent / "yosys-abc"


def prove(path: str, scope: str, command: str, *how: str) -> dict:
    """Whether ABC proves that a module with a mutant is never apart from the intact one.

    ``how``: "alone", without its submodules but those whose names follow; "wide", if gates may be open more often;
    "given", with the invariants that follow (see :mod:`.invariants`).
    """
    how, invariants = (
        (how[: how.index(GIVEN_WORD)], how[how.index(GIVEN_WORD) + 1 :]) if GIVEN_WORD in how else (how, ())
    )
    with tempfile.TemporaryDirectory() as folder:
        within = tuple(word for word in how if word not in ("alone", "wide")) if "alone" in how else None
        design = product(path, scope, command, folder, within, "wide" in how, invariants)
        run(
            design, f"hierarchy -top {JOINT}", "flatten", "opt_expr", "opt_merge -share_all", "opt_expr",
            "opt_merge -share_all", "opt_clean", "dffunmap", "techmap", "simplemap", "setundef -undriven -zero",
            "opt_expr", "opt_merge -share_all", "aigmap", "opt_clean", f"write_aiger -zinit {folder}/{JOINT}.aig",
        )  # fmt: skip
        latches = int((Path(folder) / f"{JOINT}.aig").read_bytes().split(b"\n", 1)[0].split()[3])
        reduce = "scorr; scleanup; " if latches <= MOST_LATCHES else ""
        script = f"read_aiger {folder}/{JOINT}.aig; strash; scleanup; {reduce}pdr -T {SECONDS}; sat"
        result = subprocess.run([_ABC, "-c", script], capture_output=True, text=True)
    # What is left of a network without a state is for ``sat``.
    proved = any(phrase in result.stdout for phrase in ("Property proved", "UNSATISFIABLE"))
    return {"proved": proved, "latches": latches}


if __name__ == "__main__":
    print(json.dumps(prove(*sys.argv[1:])))
