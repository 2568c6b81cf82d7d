"""Proofs that a mutant can't matter, by :mod:`.sequential`, within its module or one around it.

Attempts are made in this order, until one succeeds:

- the module alone, with its submodules cut out
- the module with its submodules, then each module around it up to its block, since they limit its inputs
- the same with invariants of the surrounding accelerator as conditions (:mod:`.invariants`)
- the whole accelerator, to show that the broken logic is dead
- the module with larger memories made of registers
"""

import json
import os
import signal
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
"""Time limits of an attempt: the usual one, and that of the last, slow ones."""

ROOTS = {"Array": "Compute", "ChannelConstants": "Norm"}
"""Blocks within blocks, by their modules."""
TOP = "adagp"
WHOLE = ("", TOP, f"{TOP}.accelerator")
"""Modules that are too large to be tried as a whole."""

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
    if mutant.block == "lib.clock_gate":
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
    """Try to prove a mutant equivalent within module ``scope``; returns ``proved``, or why the attempt ended."""
    seconds = seconds or (PATIENT_SECONDS if {MEMORIES, UNREAD} & {*how} else SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "netlist.il"
        path.write_text(netlist)
        # Unbuffered: Yosys' output comes before the answer, and isn't lost if an error ends the process.
        prover = [sys.executable, "-u", "-m", f"{__package__}.sequential", str(path), scope, command, *how]
        pipe = subprocess.PIPE
        with subprocess.Popen(prover, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
            try:
                out, errors = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # ABC too, which would go on for hours
                return {"proved": False, "end": f"no answer in {seconds:g} s"}
    if process.returncode:
        return {"proved": False, "end": (errors + out).strip()[-200:]}
    return {"module": scope, "how": " ".join(how), **json.loads(out.splitlines()[-1])}
