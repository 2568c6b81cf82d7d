"""Memory, tables and counters of the accelerator: everything that its commands read and write."""

import numpy as np

from ..spec.commands import Command, Phase
from ..spec.config import Config
from ..spec.errors import ErrorCode
from ..spec.opcodes import UPDATES
from ..spec.operands import Operand, in_place, operands, outputs
from ..spec.registers import N_REGIONS
from ..spec.schedule import Schedule, State
from .adam import Powers
from .exponents import Exponents
from .operands import load
from .quality import Quality
from .update import Hyper

__all__ = ["COUNTED", "MachineState", "Stop"]

COUNTED = ("macs", "predictor_macs", "saturations", "commands")
"""Performance counters that don't depend on time."""

_ADDRESS_MASK = (1 << 32) - 1


class Stop(Exception):
    """A command can't be executed."""

    def __init__(self, code: ErrorCode):
        super().__init__(code.name)
        self.code = code


class MachineState:
    """State that outlasts a command; settings and tables are plain attributes.

    ``memory`` (uint8) is shared with the caller. ``regions`` are pairs of addresses. ``ring_*`` describe the input
    ring. ``seed`` is that of random signs and of dropout, ``powers`` are Adam's. ``position`` is the place in the
    ``schedule``. ``gate_open`` becomes false when a prediction's squared cosine is below ``threshold``; None: never.
    ``quality`` is that of the last UPDATE that asked for it, by layer. ``counters[phase]`` has COUNTED.
    """

    def __init__(self, config: Config, memory: np.ndarray):
        self.config = config
        self.memory = memory
        self.exponents = Exponents(config)
        self.hyper = [Hyper(0, 0)] * config.n_hyper
        self.regions = [(0, 0)] * N_REGIONS
        self.ring_base = self.ring_stride = self.ring_count = self.ring_index = 0
        self.batch = self.seed = self.phase = 0
        self.sums = np.zeros(4 * config.n_filters, np.int64)
        self.quality: dict[int, Quality] = {}
        self.powers = Powers()
        self.schedule, self.position = Schedule(0, 1), State()
        self.threshold: tuple[int, int] | None = None
        self.gate_open = True
        self.reset_counters()
        self.begin_batch()

    def begin_batch(self) -> None:
        """Forget what COMMIT would have made of the batch so far."""
        self.stepped: Powers | None = None  # ``powers`` after the commit
        self.judged: list[Quality] = []

    def reset_counters(self) -> None:
        """Set the counters of all phases to zero."""
        self.counters = [dict.fromkeys(COUNTED, 0) for _ in Phase]

    def set_exponents(self, tensor: int, cur: int, next: int | None = None) -> None:
        """Set a tensor's exponents; with ``next`` it is persistent (weights, momentum)."""
        self.exponents.cur[tensor] = cur
        self.exponents.next[tensor] = 0 if next is None else next
        self.exponents.has_next[tensor] = next is not None
        self.exponents.is_scale[tensor] = False

    def get_exponents(self, tensor: int) -> tuple[int, int | None]:
        """A tensor's current and, if it is persistent, next exponent."""
        table = self.exponents
        return int(table.cur[tensor]), int(table.next[tensor]) if table.has_next[tensor] else None

    def set_hyper(self, index: int, mantissa: int, exponent: int) -> None:
        """Set a hyper-parameter to ``mantissa * 2^exponent``."""
        self.hyper[index] = Hyper(mantissa, exponent)

    def load(self, operand: Operand, kind: str = "i") -> np.ndarray:
        """An operand as an array that shares the memory; raises Stop if it isn't all in memory."""
        try:
            return load(operand, self.memory, kind)
        except IndexError:
            raise Stop(ErrorCode.READ_FAULT) from None

    def _target(self, operand: Operand) -> np.ndarray:
        """The array to write to, if the write regions allow it."""
        end = operand.address + operand.n_bytes
        if not any(start <= operand.address and end <= stop for start, stop in self.regions):
            raise Stop(ErrorCode.WRITE_REGION)
        try:
            return load(operand, self.memory)
        except IndexError:
            raise Stop(ErrorCode.WRITE_FAULT) from None

    def operands(self, command: Command, dry: bool) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Arrays that the command reads, and (unless dry) those that it writes, by name; a MAXPOOL doesn't read b.

        An UPDATE takes no operand from the ring, and its regions are checked before anything is read, even if dry.
        """
        update = command.opcode in UPDATES
        ring = (self.ring_base + self.ring_index * self.ring_stride + command.a_addr) & _ADDRESS_MASK
        places = operands(command, self.config, ring if command.ring and not update else None)
        written = outputs(command)
        if update:
            targets = {name: self._target(places[name]) for name in written}
            return {name: self.load(place) for name, place in places.items()}, {} if dry else targets
        unread = set(written) - set(in_place(command))
        sources = {name: self.load(place) for name, place in places.items() if name not in unread}
        return sources, {} if dry else {name: self._target(places[name]) for name in written}

    def scale(self, command: Command) -> int:
        """The exponent of the command's layer's scale."""
        return int(self.exponents.cur[command.scale_id]) if command.scale_id and self.config.predicts else 0
