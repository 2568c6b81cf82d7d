"""Proofs by ABC that a mutant can't matter: signal correspondence, then reachability, from reset on.

The intact and the broken module run side by side on the same inputs: registers are kept, and those behind a clock gate
keep their value while it is closed. Memories are cut out: what they give becomes an input that both share, as long as
both ask and write the same where they are enabled. A mutant is equivalent if outputs, gates and what memories are
given are always the same. This knows what registers can hold, but not for large modules. A module can be tried alone,
its submodules cut out like memories.

Mutants of the gates' own logic need only open them whenever the intact logic does, and change nothing where clocks just
go on: nothing depends on a gate's being closed, see :mod:`adagp.rtl.lib.clock_gate`.

Invariants of the intact side may be given: it is only looked for sides that differ while these have always held.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pyosys

from .dead_logic import unread
from .miter import JOINT, How, product, run

__all__ = ["MEMORIES", "UNREAD", "prove"]

SECONDS, PATIENT_SECONDS = 10, 120
"""For ABC's reachability, on one module: usually, and with memories made of registers."""
MOST_LATCHES = 4000
"""That correspondence is looked for in, usually."""
ALONE, WIDE, MEMORIES, GIVEN, UNREAD = "alone", "wide", "memories", "given", "unread"
WORDS = 64
"""Memories of so many are made of registers where that is asked for."""
_ABC = Path(pyosys.__file__).parent / "yosys-abc"


def _how(words: tuple[str, ...]) -> How:
    end = words.index(GIVEN) if GIVEN in words else len(words)
    names = tuple(word for word in words[:end] if word not in (ALONE, WIDE, MEMORIES))
    how = How(names if ALONE in words else None, WIDE in words, words[end + 1 :])
    return replace(how, words=WORDS) if MEMORIES in words else how


def prove(path: str, scope: str, command: str, *how: str) -> dict:
    """True if ABC proves that a module with a mutant never differs from the intact one.

    ``how``: "alone", without its submodules but those whose names follow; "wide", if gates may be open more often;
    "memories", with those of up to WORDS words made of registers, which takes minutes; "given", with the invariants
    that follow (see :mod:`.invariants`). "unread": by :mod:`.unread`, without ABC.
    """
    patient = MEMORIES in how
    with tempfile.TemporaryDirectory() as folder:
        if UNREAD in how:
            return {"proved": unread(path, scope, command, folder)}
        design = product(path, scope, command, folder, _how(how))
        run(
            design, f"hierarchy -top {JOINT}", "flatten", "opt_expr", "opt_merge -share_all", "opt_expr",
            "opt_merge -share_all", "opt_clean", "dffunmap", "techmap", "simplemap", "setundef -undriven -anyseq",
            "opt_expr", "opt_merge -share_all", "aigmap", "opt_clean", f"write_aiger -zinit {folder}/{JOINT}.aig",
        )  # fmt: skip
        latches = int((Path(folder) / f"{JOINT}.aig").read_bytes().split(b"\n", 1)[0].split()[3])
        reduce = "scorr; scleanup; " if patient or latches <= MOST_LATCHES else ""
        seconds = PATIENT_SECONDS if patient else SECONDS
        script = f"read_aiger {folder}/{JOINT}.aig; strash; scleanup; {reduce}pdr -T {seconds}; sat"
        result = subprocess.run([_ABC, "-c", script], capture_output=True, text=True)
    # What is left of a network without a state is for ``sat``.
    proved = any(phrase in result.stdout for phrase in ("Property proved", "UNSATISFIABLE"))
    return {"proved": proved, "latches": latches}


if __name__ == "__main__":
    print(json.dumps(prove(*sys.argv[1:])))
