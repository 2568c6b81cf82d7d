"""The whole accelerator at the level of layers: runs programs from DRAM, command by command."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..spec.commands import COMMAND_BYTES, COMMAND_WORDS, Adam, CMode, Command, Opcode, Phase, Source
from ..spec.config import VERSION, Config
from ..spec.errors import ErrorCode
from ..spec.numerics import unpredicted
from ..spec.operands import COMPUTE, UPDATES, WAITS, Operand, counted, macs, operands, outputs
from ..spec.registers import N_REGIONS, Status
from ..spec.schedule import Schedule, State, following
from . import layer
from .adam import AdamExponents, Powers, adam, step_rate
from .exponents import Exponents
from .operands import load
from .quality import Quality, quality_sums, rms_exponent, votes
from .random_signs import random_signs
from .reorganise import reorganise
from .update import Hyper, UpdateExponents, update
from .validate import validate

__all__ = ["COUNTED", "GoldenMachine"]

COUNTED = ("macs", "predictor_macs", "saturations", "commands")
"""Performance counters that don't depend on time."""

_ADDRESS_MASK = (1 << 32) - 1


class _Stop(Exception):
    """A command can't be executed."""

    def __init__(self, code: ErrorCode):
        super().__init__(code.name)
        self.code = code


class GoldenMachine:
    """Executes programs on ``memory`` (uint8), which it shares with the caller, in program order.

    ``start`` and ``resume`` only get ready; ``step`` executes one command, ``run`` goes on until the
    machine waits at HOST, ends or fails (see ``status``, ``error``, ``error_index``). Tables and
    settings are plain attributes: ``exponents``, ``hyper``, ``regions`` (pairs of addresses), ``ring_*``,
    ``batch``, ``seed`` (of random signs), ``powers`` (Adam's), ``schedule`` and the ``position`` in it, ``threshold``
    of a prediction's squared cosine below which ``gate_open`` gets false (None: never), ``quality`` (by layer, as of
    its last UPDATE that asked for it) and ``counters[phase]``, of which this machine knows COUNTED.
    ``on_command(index, command)`` is called after every command that was executed. Tiles matter only to a MAC count
    (:func:`.operands.macs`) and as sizes that must not be 0: whether one fits isn't checked.
    """

    def __init__(self, config: Config, memory: np.ndarray):
        self.config = config
        self.memory = memory
        self.exponents = Exponents(config)
        self.hyper = [Hyper(0, 0)] * config.n_hyper
        self.regions = [(0, 0)] * N_REGIONS
        self.ring_base = self.ring_stride = self.ring_count = self.ring_index = 0
        self.batch = self.seed = 0
        self.sums = np.zeros(4 * config.n_filters, np.int64)
        self.quality: dict[int, Quality] = {}
        self.powers = Powers()
        self.schedule, self.position = Schedule(0, 1), State()
        self.threshold: tuple[int, int] | None = None
        self.gate_open = True
        self._decoded: dict[bytes, Command] = {}
        self.on_command: Callable[[int, Command], None] | None = None
        self.reset_counters()
        self.clear()

    # --- what the registers do ---------------------------------------------------------------

    def reset_counters(self) -> None:
        """Set the counters of all phases to zero."""
        self.counters = [dict.fromkeys(COUNTED, 0) for _ in Phase]

    def clear(self) -> None:
        """Forget an error and stop."""
        self.status = Status(0)
        self.error, self.error_index = ErrorCode.NONE, 0
        self._index = 0  # of the next command

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
        except _Stop as stop:
            self.status, self.error, self.error_index = Status.ERROR, stop.code, self._index
            return None
        self.counters[phase]["commands"] += 1
        self._index = 0 if command.opcode == Opcode.END else index + 1
        if self.on_command:
            self.on_command(index, command)
        return index

    def _begin(self) -> None:
        """The state at the first command of a batch."""
        self._index = 0
        self._given = dict.fromkeys(WAITS, 0)
        self._stepped: Powers | None = None  # what the commit makes of ``powers``
        self._judged: list[Quality] = []
        if self.scheduled:
            phase, self.position = following(self.position, self.schedule, self.gate_open)
            self.phase = phase.bit_length() - 1

    def _fetch(self) -> Command:
        """The next command whose phase mask holds the current phase."""
        while True:
            words = self._load(Operand(self.program + self._index * COMMAND_BYTES, (COMMAND_WORDS,), 4), "u")
            opcode, mask = int(words[0]) & 0xFF, (int(words[0]) >> 8) & 0xFF
            if self._index == 0 and opcode != Opcode.HEADER:
                raise _Stop(ErrorCode.NO_HEADER)
            if self._index == 0 or mask >> self.phase & 1:
                return self._decode(words)
            self._index += 1

    def _decode(self, words: np.ndarray) -> Command:
        """The command that ``words`` are; programs repeat themselves, so those decoded are kept."""
        key = words.tobytes()
        if key not in self._decoded:
            try:
                self._decoded[key] = Command.decode(words.tolist())
            except ValueError:
                raise _Stop(ErrorCode.BAD_OPCODE) from None
        return self._decoded[key]

    def _execute(self, command: Command) -> None:
        if command.opcode == Opcode.HEADER:
            if (command.config_hash, command.version) != (self.config.config_hash, VERSION):
                raise _Stop(ErrorCode.CONFIG_MISMATCH)
        elif command.opcode == Opcode.COMMIT:
            self.exponents.commit()
            self.powers, self._stepped = self._stepped or self.powers, None
            if self._judged and self.threshold is not None:
                self.gate_open = votes(self._judged, self.threshold)
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
        """A compute or UPDATE command, in calibration twice."""
        code = validate(command, self.config, self._given)
        if code != ErrorCode.NONE:
            raise _Stop(code)
        update = self._adam if command.opcode == Opcode.ADAM else self._update
        one_pass = self._compute if command.opcode in COMPUTE else update
        if self.calibrating:
            one_pass(command, dry=True)
            self.exponents.calibrate(self._tracked(command))
        one_pass(command, dry=False)
        self._given[counted(command)] += 1

    def _tracked(self, command: Command) -> list[int]:
        """Tensors whose maximum the command reports."""
        if command.opcode == Opcode.ADAM:
            return [command.out_id, command.b_id, command.d_id]
        if command.opcode == Opcode.UPDATE:
            return [command.out_id, command.b_id, *[command.scale_id] * command.quality]
        return [command.out_id] if command.track else []

    # --- memory ------------------------------------------------------------------------------

    def _load(self, operand: Operand, kind: str = "i") -> np.ndarray:
        try:
            return load(operand, self.memory, kind)
        except IndexError:
            raise _Stop(ErrorCode.READ_FAULT) from None

    def _target(self, operand: Operand) -> np.ndarray:
        """The array to write to, if the write regions allow it."""
        end = operand.address + operand.n_bytes
        if not any(start <= operand.address and end <= stop for start, stop in self.regions):
            raise _Stop(ErrorCode.WRITE_REGION)
        try:
            return load(operand, self.memory)
        except IndexError:
            raise _Stop(ErrorCode.WRITE_FAULT) from None

    def _operands(self, command: Command, dry: bool) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """What the command reads and (unless dry) what it writes, by name; a MAXPOOL doesn't read b.

        An UPDATE takes no operand from the ring, and its regions are checked before anything is read, even if dry.
        """
        update = command.opcode in UPDATES
        ring = (self.ring_base + self.ring_index * self.ring_stride + command.a_addr) & _ADDRESS_MASK
        places = operands(command, self.config, ring if command.ring and not update else None)
        written = outputs(command)
        if update:
            targets = {name: self._target(places[name]) for name in written}
            return {name: self._load(place) for name, place in places.items()}, {} if dry else targets
        sources = {name: self._load(place) for name, place in places.items() if name not in written}
        return sources, {} if dry else {name: self._target(places[name]) for name in written}

    # --- the two kinds of work ---------------------------------------------------------------

    def _compute(self, command: Command, dry: bool) -> None:
        sources, targets = self._operands(command, dry)
        cur = self.exponents.cur
        exps = layer.LayerExponents(*(int(cur[getattr(command, f"{name}_id")]) for name in ("a", "b", "c", "out")))
        if self.config.predicts and self.exponents.has_next[command.out_id]:
            exps = replace(exps, out=int(self.exponents.next[command.out_id]))
        if command.c_mode == CMode.SUB:
            exps = replace(exps, c=exps.c - self._scale(command))
        if command.opcode == Opcode.REORGANISE:
            sources["sums"] = self.sums[: command.c]
        result, index = layer.compute(command, sources, exps, self.config, dry)
        if command.track:
            self.exponents.track(command.out_id, result.top)
        if command.opcode == Opcode.FORWARD and command.reorganise:
            sums = reorganise(result.out).ravel()
            self.sums[: sums.size] = sums
        counters = self.counters[self.phase]
        apart = command.predictor and self.config.variant == "max"
        counters["predictor_macs" if apart else "macs"] += macs(command)
        if dry:
            return
        counters["saturations"] += result.saturations
        targets["out"][..., : result.out.shape[-1]] = result.out
        if index is not None:
            targets["b"][...] = index

    def _scale(self, command: Command) -> int:
        """The exponent of the command's layer's scale."""
        return int(self.exponents.cur[command.scale_id]) if command.scale_id and self.config.predicts else 0

    def _update(self, command: Command, dry: bool) -> None:
        sources, targets = self._operands(command, dry)
        table = self.exponents
        g, w, v = command.a_id, command.b_id, command.out_id
        rate, momentum, decay = self.hyper[command.hyper : command.hyper + 3]
        g_exp = int(table.cur[g]) + (0 if command.quality else self._scale(command))
        exps = UpdateExponents(g_exp, *map(int, (table.cur[w], table.next[w], table.cur[v], table.next[v])))
        gradient = self._gradient(command, sources)
        result = update(
            gradient, sources["b"], sources["c"], sources["out"], exps.dry() if dry else exps,
            (rate, momentum, decay), self.config.operand_width,
        )  # fmt: skip
        table.track(v, result.top_v)
        table.track(w, result.top_w)
        if command.quality:
            sums = quality_sums(sources["d"], gradient, self.config.operand_width)
            table.track(command.scale_id, rms_exponent(sums, g_exp) if sums.tt else None)
        if dry:
            return
        if command.quality:
            quality = Quality(sums, int(table.cur[command.d_id]), g_exp - self._scale(command))
            self.quality[command.layer] = quality
            self._judged.append(quality)
        self.counters[self.phase]["saturations"] += result.saturations
        targets["b"][...], targets["c"][...], targets["out"][...] = result.hi, result.lo, result.v

    def _gradient(self, command: Command, sources: dict[str, np.ndarray]) -> np.ndarray:
        """What an UPDATE takes for the gradient, marks of what has none included."""
        if command.source == Source.ZERO:
            return np.zeros(command.count, np.int16)
        given = sources["a"]
        if command.source == Source.GIVEN:
            return given
        flipped = random_signs(command.count, command.layer, self.seed, self.position.batch)
        return np.where(flipped & (given != unpredicted(self.config.operand_width)), -given, given)

    def _adam(self, command: Command, dry: bool) -> None:
        sources, targets = self._operands(command, dry)
        table, hyper = self.exponents, self.hyper[command.hyper : command.hyper + len(Adam)]
        kept = [(int(table.cur[i]), int(table.next[i])) for i in (command.b_id, command.out_id, command.d_id)]
        exps = AdamExponents(int(table.cur[command.a_id]), *(exponent for pair in kept for exponent in pair))
        powers = self.powers.after(hyper[Adam.BETA1], hyper[Adam.BETA2])
        g, hi, lo, m, s = (sources[name] for name in ("a", "b", "c", "out", "d"))
        result = adam(
            g, hi, lo, m, s, exps.dry() if dry else exps,
            step_rate(hyper[Adam.RATE], powers), (hyper[Adam.BETA1], hyper[Adam.BETA2]),
            (hyper[Adam.REST1], hyper[Adam.REST2]), hyper[Adam.EPSILON].mantissa, self.config.operand_width,
        )  # fmt: skip
        for tensor, top in ((command.b_id, result.top_w), (command.out_id, result.top_m), (command.d_id, result.top_s)):
            table.track(tensor, top)
        if dry:
            return
        self._stepped = powers
        self.counters[self.phase]["saturations"] += result.saturations
        targets["b"][...], targets["c"][...] = result.hi, result.lo
        targets["out"][...], targets["d"][...] = result.m, result.s
