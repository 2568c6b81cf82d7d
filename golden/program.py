"""The whole accelerator at the level of layers: runs programs from DRAM, command by command."""

from collections.abc import Callable

import numpy as np

from ..spec.commands import COMMAND_BYTES, COMMAND_WORDS, Command, Opcode, command_field
from ..spec.config import VERSION, Config
from ..spec.errors import ErrorCode
from ..spec.operands import WAITS, Operand, counted
from ..spec.registers import Status
from ..spec.schedule import following
from .quality import votes
from .state import MachineState, Stop
from .validate import validate
from .work import execute, tracked

__all__ = ["GoldenMachine"]

_FETCHED = command_field("opcode"), command_field("phase_mask")
"""Fields that decide before a command is decoded."""


class GoldenMachine(MachineState):
    """Executes programs on ``memory`` (uint8), which it shares with the caller, in program order.

    ``start`` and ``resume`` only get ready; ``step`` executes one command, ``run`` goes on until the
    machine waits at HOST, ends or fails (see ``status``, ``error``, ``error_index``).
    ``on_command(index, command)`` is called after every command that was executed. Tiles matter only to a MAC count
    (:func:`.operands.macs`) and as sizes that must not be 0; they aren't checked to fit the scratchpads.
    """

    def __init__(self, config: Config, memory: np.ndarray):
        super().__init__(config, memory)
        self._decoded: dict[bytes, Command] = {}
        self.on_command: Callable[[int, Command], None] | None = None
        self.clear()

    # --- what the registers do ---------------------------------------------------------------

    def clear(self) -> None:
        """Forget an error and stop."""
        self.status = Status(0)
        self.error, self.error_index = ErrorCode.NONE, 0
        self._index = 0  # of the next command

    def start(self, program: int, phase: int | None = 0, batches: int = 1, calibrate: bool = False) -> None:
        """Get ready for ``batches`` runs of the program at byte address ``program``.

        ``phase``: 0..3; None: as scheduled.
        """
        self.clear()
        self.exponents.shadow.clear()
        self.status = Status.BUSY
        self.program, self.batches, self.calibrating = program, batches, calibrate
        self.phase, self.scheduled = phase or 0, phase is None
        self._begin()

    def resume(self) -> None:
        """Leave a HOST command."""
        self.status &= ~Status.HOST

    # --- running -----------------------------------------------------------------------------

    def run(self) -> Status:
        """Execute commands until the machine waits, ends or fails."""
        while self.status == Status.BUSY:
            self.step()
        return self.status

    def step(self) -> int | None:
        """Execute the next command of this phase and return its index, None if it failed.

        Only while ``status`` is BUSY.
        """
        assert self.status == Status.BUSY, f"the machine isn't running: {self.status!r}"
        try:
            command = self._fetch()
            index, phase = self._index, self.phase
            self._execute(command)
        except Stop as stop:
            self.status, self.error, self.error_index = Status.ERROR, stop.code, self._index
            return None
        self.counters[phase]["commands"] += 1
        self._index = 0 if command.opcode == Opcode.END else index + 1
        if self.on_command:
            self.on_command(index, command)
        return index

    def _begin(self) -> None:
        """Begin a batch at its first command."""
        self._index = 0
        self._given = dict.fromkeys(WAITS, 0)
        self.begin_batch()
        if self.scheduled:
            phase, self.position = following(self.position, self.schedule, self.gate_open)
            self.phase = phase.bit_length() - 1

    def _fetch(self) -> Command:
        """The next command whose phase mask holds the current phase."""
        while True:
            words = self.load(Operand(self.program + self._index * COMMAND_BYTES, (COMMAND_WORDS,), 4), "u")
            opcode, mask = (f.decode(int(words[f.word])) for f in _FETCHED)
            if self._index == 0 and opcode != Opcode.HEADER:
                raise Stop(ErrorCode.NO_HEADER)
            if self._index == 0 or mask >> self.phase & 1:
                return self._decode(words)
            self._index += 1

    def _decode(self, words: np.ndarray) -> Command:
        """The command in ``words``; programs repeat themselves, so decoded commands are kept."""
        key = words.tobytes()
        if key not in self._decoded:
            try:
                self._decoded[key] = Command.decode(words.tolist())
            except ValueError:
                raise Stop(ErrorCode.BAD_OPCODE) from None
        return self._decoded[key]

    def _execute(self, command: Command) -> None:
        if command.opcode == Opcode.HEADER:
            if (command.config_hash, command.version) != (self.config.config_hash, VERSION):
                raise Stop(ErrorCode.CONFIG_MISMATCH)
        elif command.opcode == Opcode.COMMIT:
            if command.out_id >= self.config.n_tensors:
                raise Stop(ErrorCode.BAD_TENSOR)
            self.exponents.commit(command.out_id)
            self.powers, self.stepped = self.stepped or self.powers, None
            if self.judged and self.threshold is not None:
                self.gate_open = votes(self.judged, self.threshold)
        elif command.opcode == Opcode.HOST:
            self.status |= Status.HOST
        elif command.opcode == Opcode.END:
            self._end()
        else:
            self._work(command)

    def _end(self) -> None:
        self.batch += 1
        self.ring_index = 0 if self.ring_index + 1 >= self.ring_count else self.ring_index + 1
        self.batches -= 1
        if self.batches > 0:
            self._begin()
        else:
            self.status = Status.DONE

    def _work(self, command: Command) -> None:
        """Execute a compute or UPDATE command; while calibrating, try it first to find its exponents."""
        code = validate(command, self.config, self._given)
        if code != ErrorCode.NONE:
            raise Stop(code)
        if self.calibrating:
            execute(self, command, dry=True)
            self.exponents.calibrate(tracked(command))
        execute(self, command, dry=False)
        self._given[counted(command)] += 1
