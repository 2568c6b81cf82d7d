"""Invariants of the intact accelerator, assumed in proofs that need them: inputs and states that a module never has.

Some mutants are equivalent only because of them. These are proved with the invariants as conditions of the intact
module (see :mod:`.sequential`). This is sound if the invariants hold on the intact accelerator: as long as nothing
differs outside the module, its inputs are the same as there. The results list the invariants, and count the mutants
that were proved with them.
"""

from dataclasses import dataclass

from adagp.rtl.memory.axi import OUTSTANDING
from adagp.spec.errors import ErrorCode

__all__ = ["INVARIANTS", "Invariant", "given", "within"]


@dataclass(frozen=True)
class Invariant:
    """A condition that holds in each cycle, in Verilog, about wires in braces (wire or submodule.wire), and why.

    ``within``: submodules to keep when the module is tried alone. ``job``: the job of tb/formal that proves the
    invariant. Without a job, a mutant proved with the invariant counts as unproved.
    """

    module: str
    condition: str
    why: str
    within: tuple[str, ...] = ()
    job: str = ""

    def __str__(self):
        return f"{self.module}: {self.condition}"


_CONTROL = "adagp.accelerator.control"
_CODES = (
    "each of the accelerator's error ports is driven with codes of spec/errors.py: constants, or what ERROR "
    "instructions of the tile program name"
)

INVARIANTS = (
    *(Invariant(_CONTROL, f"{{errors[{n}].code}} <= {max(ErrorCode)}", _CODES, (f"{_CONTROL}.supervisor",))
      for n in range(5)),
    Invariant(
        "Compute.fetch_a.offsets.odometer", "{span2} < 2048",
        "the neighbours k2 are distinct operands of a tile of A, and half of A has room for 2048 (tiny); the tile "
        "program refuses others with A_OVERFLOW",
    ),
    Invariant(
        "adagp.accelerator.writes",
        f"{{order.level}} <= {{grants.outstanding}} && {{grants.outstanding}} <= {OUTSTANDING}",
        "answers come to bursts only, and when their beats have been taken (AXI's rules for the memory); under that "
        "assumption proved",
        job="write_arbiter",
    ),
)  # fmt: skip


def given(scope: str, inside: bool = True) -> list[str]:
    """Invariants of a module, and of the modules ``inside`` it, as :func:`.sequential.prove` takes them."""
    return [str(one) for one in INVARIANTS
            if one.module == scope or (inside and one.module.startswith(f"{scope}."))]  # fmt: skip


def within(module: str) -> list[str]:
    """Submodules that the invariants of a module need to be looked into."""
    return list(dict.fromkeys(name for one in INVARIANTS if one.module == module for name in one.within))
