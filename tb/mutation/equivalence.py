"""Proofs that a mutant can't matter, by :mod:`.sequential`, within its module or one around it.

A module is tried with its submodules cut out, then with everything inside it; if it isn't enough, because what
surrounds a module decides what its inputs can be, the one around it, up to its block. Then with what is assumed of
the accelerator around (:mod:`.invariants`); whether anything in the whole accelerator reads what is broken; at last
with larger memories made of registers.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from adagp.rtl.lib.clock_gate import CELL

from .choice import Mutant
from .invariants import given, within
from .sequential import MEMORIES, UNREAD

__all__ = ["SOURCES", "TOP", "attempts", "prove"]

SECONDS, PATIENT_SECONDS = 60, 300
"""For one attempt: usually, and for one of those tried last."""

ROOTS = {"Array": "Compute"}
"""Blocks within blocks, by their modules."""
TOP = "adagp"
WHOLE = ("", TOP, f"{TOP}.accelerator")
"""Modules that aren't tried for what is inside them."""

SOURCES = [Path(__file__).with_name(f"{name}.py") for name in ("equivalence", "sequential")]
"""Sources of the proof itself."""


def scopes(module: str) -> Iterator[str]:
    """The modules around ``module``, itself first, up to its block; the accelerator as a whole is too much for ABC."""
    yield module
    while (module := module.rpartition(".")[0] or ROOTS.get(module, "")) not in WHOLE:
        yield module


def attempts(mutant: Mutant) -> Iterator[tuple[str, ...]]:
    """Attempts, the fastest first: the module, and how (see :func:`.sequential.prove`)."""
    instance = mutant.kind.startswith("\\") and mutant.kind != f"\\{CELL}"
    alone = mutant.module, "alone", *([mutant.kind[1:]] if instance else [])
    yield alone
    if mutant.block == "clock_gate":
        yield *alone, "wide"
    for scope in scopes(mutant.module):
        yield (scope,)
    if known := given(mutant.module, inside=False):
        yield mutant.module, "alone", *within(mutant.module), "given", *known
    for scope in scopes(mutant.module):
        if known := given(scope):
            yield scope, "given", *known
    yield TOP, UNREAD
    yield mutant.module, MEMORIES


def prove(netlist: str, command: str, scope: str, *how: str, seconds: float | None = None) -> dict:
    """The proof that a mutant is equivalent within module ``scope``: ``proved``, or what made the attempt end."""
    seconds = seconds or (PATIENT_SECONDS if {MEMORIES, UNREAD} & {*how} else SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "netlist.il"
        path.write_text(netlist)
        # Unbuffered: what Yosys writes comes before the answer, and isn't lost where an error ends the process.
        prover = [sys.executable, "-u", "-m", f"{__package__}.sequential", str(path), scope, command, *how]
        try:
            result = subprocess.run(prover, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return {"proved": False, "end": f"no answer in {seconds:g} s"}
    if result.returncode:
        return {"proved": False, "end": (result.stderr + result.stdout).strip()[-200:]}
    return {"module": scope, "how": " ".join(how), **json.loads(result.stdout.splitlines()[-1])}
