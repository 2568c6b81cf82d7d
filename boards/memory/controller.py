"""A board's DRAM controller as its host sees it: registers, PHY, first commands. Written beside a bitstream."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["COMMANDS", "CONTROLS", "ControllerError", "DramController", "InitStep"]

CONTROLS = {"sel": 1, "cke": 2, "odt": 4, "reset_n": 8}
"""Bits of the register that says who drives the memory's pins: ``sel`` the controller, else the host."""

COMMANDS = {"cs": 1, "we": 2, "cas": 4, "ras": 8, "wrdata": 16, "rddata": 32}
"""Bits of a phase's command: pins to assert, and whether data are driven or taken."""


class ControllerError(ValueError):
    """A description of a DRAM controller that can't be used; the message says why."""


@dataclass(frozen=True)
class InitStep:
    """One step after power-up: a write of ``value`` to the control register, or a command; then wait ``cycles``."""

    comment: str
    address: int
    bank: int
    control: bool
    value: int
    cycles: int


@dataclass(frozen=True)
class DramController:
    """A LiteDRAM core as the host sees it.

    ``lanes``: groups of ``data_bits / lanes`` data pins with a strobe each. A clock of the controller moves a burst of
    ``phases`` times ``phase_bits``; reads and writes are commanded in ``read_phase`` and ``write_phase``. A lane has
    ``delays`` steps of its read delay and ``bitslips`` places at which its words can begin. ``registers``: byte offset
    and number of 32-bit words by name, the word of the most significant bits first.
    """

    phy: str
    clock_hz: int
    data_bits: int
    lanes: int
    phases: int
    phase_bits: int
    read_phase: int
    write_phase: int
    delays: int
    bitslips: int
    memory_bytes: int
    init: tuple[InitStep, ...]
    registers: dict[str, tuple[int, int]]

    @property
    def lane_bits(self) -> int:
        """Data pins of a lane."""
        return self.data_bits // self.lanes

    @property
    def transfers_per_second(self) -> int:
        """Words of ``data_bits`` that the memory moves in a second at best: two a clock of its own."""
        return 2 * self.phases * self.clock_hz

    def pins(self, lane: int) -> str:
        """A lane, for people."""
        first = lane * self.lane_bits
        return f"lane {lane} (DQ{first} to DQ{first + self.lane_bits - 1})"

    def register(self, name: str) -> tuple[int, int]:
        """Offset and words of a register; raises ControllerError if there is none of that name."""
        try:
            return self.registers[name]
        except KeyError:
            raise ControllerError(f"the DRAM controller ({self.phy}) has no register {name!r}") from None

    def save(self, path: Path) -> None:
        """Write the description as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def load(cls, path: Path) -> "DramController":
        """Read what :meth:`save` wrote; raises ControllerError for anything else."""
        try:
            values = json.loads(path.read_text())
            values["init"] = tuple(InitStep(**step) for step in values["init"])
            values["registers"] = {name: (offset, words) for name, (offset, words) in values["registers"].items()}
            return cls(**values)
        except (ValueError, TypeError, KeyError) as error:
            raise ControllerError(f"{path} isn't the description of a DRAM controller: {error}") from None
