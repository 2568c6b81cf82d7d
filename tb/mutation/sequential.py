"""Proofs by ABC that a mutant can't matter: signal correspondence, then reachability, from reset on.

The intact and the broken module run side by side on the same inputs. Registers with a gated clock keep their value
while the gate is closed. Memories are cut out: their read data become inputs that both sides share, as long as both
sides send them the same addresses and write data where enabled. A mutant is equivalent if outputs, gates and inputs of
memories are always the same. The proofs take into account which states registers can reach, but not for large modules.
A module can be tried alone, with its submodules cut out like memories.

A mutant in a clock gate's own logic may open the gate more often. It must open the gate whenever the intact logic does,
and change nothing else: no logic depends on a closed gate, see :mod:`adagp.rtl.lib.clock_gate`.

Invariants of the intact side may be given. The sides must then be equal only while the invariants have always held.
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
"""Time limits of ABC's reachability on one module: the usual one, and that with memories made of registers."""
MOST_LATCHES = 4000
"""Most latches with which signal correspondence is tried, except in the slow attempts."""
ALONE, WIDE, MEMORIES, GIVEN, UNREAD = "alone", "wide", "memories", "given", "unread"
WORDS = 64
"""Memories of up to this many words are made of registers in the attempt "memories"."""
_ABC = Path(pyosys.__file__).parent / "yosys-abc"


def _how(words: tuple[str, ...]) -> How:
    end = words.index(GIVEN) if GIVEN in words else len(words)
    names = tuple(word for word in words[:end] if word not in (ALONE, WIDE, MEMORIES))
    how = How(names if ALONE in words else None, WIDE in words, words[end + 1 :])
    return replace(how, words=WORDS) if MEMORIES in words else how


def prove(path: str, scope: str, command: str, *how: str) -> dict:
    """True if ABC proves that a module with a mutant never differs from the intact one.

    ``how`` is a list of words. "alone": without submodules, except those whose names follow. "wide": gates may be open
    more often. "memories": memories of up to WORDS words are made of registers, which takes minutes. "given": with the
    invariants that follow (see :mod:`.invariants`). "unread": by :mod:`.dead_logic`, without ABC.
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
    # A network that has no state left is proved by ``sat``.
    proved = any(phrase in result.stdout for phrase in ("Property proved", "UNSATISFIABLE"))
    return {"proved": proved, "latches": latches}


if __name__ == "__main__":
    print(json.dumps(prove(*sys.argv[1:])))
