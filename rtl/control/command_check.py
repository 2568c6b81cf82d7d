"""Checks of fetched commands: refuse, skip or accept."""

from amaranth import Cat, Const, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...spec.commands import Adam, CMode, Opcode, Source
from ...spec.config import VERSION, Config
from ...spec.errors import ErrorCode
from ...spec.opcodes import COMPUTE, GEMMS, UPDATES, built
from ...spec.registers import N_PHASES
from ..lib.delay import delayed
from ..lib.interfaces import HYPER_PER_UPDATE
from .dispatch import WaitLayout
from .prefetch import FetchedLayout

__all__ = ["CommandCheck", "is_update", "is_work"]


def is_compute(opcode):
    """True for the opcode of a compute command."""
    return (opcode >= min(COMPUTE)) & (opcode <= max(COMPUTE))


def is_work(opcode):
    """True for the opcode of a compute, UPDATE or ADAM command."""
    return (opcode >= min(COMPUTE)) & (opcode <= max(UPDATES))


def is_update(opcode):
    """True for the opcode of a command of the update unit."""
    return opcode.matches(*UPDATES)


class CommandCheck(wiring.Component):
    """Judges a fetched command: ``skip`` it in this phase, or refuse it with ``code``.

    The first command of a program is executed in every phase.

    Members
    -------
    fetched : In(FetchedLayout)
        the command
    phase : In(range(N_PHASES))
        phase of the batch
    given : In(WaitLayout)
        commands handed out since the batch began
    skip : Out(1)
        the command isn't executed in this phase
    code : Out(ErrorCode)
        reason to refuse the command; NONE for none

    Timing
    ------
    ``skip`` and ``code`` are those of the inputs a cycle before.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__({
            "fetched": In(FetchedLayout), "phase": In(range(N_PHASES)), "given": In(WaitLayout),
            "skip": Out(1), "code": Out(ErrorCode),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self.config
        command = self.fetched.command
        header = command.opcode == Opcode.HEADER
        first = self.fetched.index == 0
        unknown = (command.opcode > max(Opcode)) | self._unknown(command)
        mismatch = header & ((command.config_hash != config.config_hash) | (command.version != VERSION))
        codes = (
            (ErrorCode.READ_FAULT, self.fetched.fault), (ErrorCode.NO_HEADER, first & ~header),
            (ErrorCode.BAD_OPCODE, unknown), (ErrorCode.CONFIG_MISMATCH, mismatch), *self._references(command),
        )  # fmt: skip
        m.d.sync += self.skip.eq(~first & ~command.phase_mask.bit_select(self.phase, 1) & ~self.fetched.fault)
        for code, wrong in reversed(codes):  # the first in the list counts
            with m.If(delayed(m, wrong, 1)):
                m.d.comb += self.code.eq(code)
        return m

    def _unknown(self, command):
        """True if the command needs hardware that this variant, or the predictor's array, hasn't got."""
        config, opcode, c_mode = self.config, command.opcode, command.c_mode
        compute, update = is_compute(opcode), is_update(opcode)
        missing = set(Opcode) - set(built(config))
        wrong = opcode.matches(*sorted(missing)) if missing else Const(0)
        if config.clamps:
            clamped = (command.bound_mantissa | command.slope) != 0
            wrong |= compute & clamped & (command.predictor | (c_mode == CMode.ADD_MASK))
        if config.predicts:
            last = Source.RANDOM if config.random_signs else Source.ZERO
            source = (opcode == Opcode.UPDATE) & (command.source > last)
            aside = command.predictor & (~opcode.matches(*GEMMS) | command.reorganise)
            return wrong | source | (compute & (aside | (c_mode > max(CMode))))
        wrong |= compute & (command.reorganise | command.predictor | (c_mode == CMode.SUB) | (c_mode > max(CMode)))
        return wrong | (update & (command.quality | command.keep | (command.source != 0)))

    def _references(self, command):
        """Faults of work's waits, tensors and addresses, with their codes; the conditions of one code are ORed."""
        config = self.config
        update, work = is_update(command.opcode), is_work(command.opcode)
        takes = {Opcode.UPDATE: HYPER_PER_UPDATE, Opcode.ADAM: len(Adam)}
        bad_tensors = [
            (command.opcode == opcode) & (command.hyper > config.n_hyper - count) for opcode, count in takes.items()
        ]  # fmt: skip
        bad_addresses = []
        for operand in ("a", "b", "c", "d", "out", *["scale"] * config.predicts, *["e"] * config.batch_norm):
            if operand != "e":
                bad_tensors.append(command[f"{operand}_id"] >= config.n_tensors)
            if operand != "scale":
                address = command[f"{operand}_addr"]
                beat = update & (address % config.beat_bytes != 0)
                bad_addresses.append((address % config.operand_bytes != 0) | beat)
        commits = (command.opcode == Opcode.COMMIT) & (command.out_id >= config.n_tensors)
        filters = []
        if config.streams:
            short = (command.y_pitch != 0) & (command.y_pitch < config.update_lanes)
            filters.append((ErrorCode.BAD_GEOMETRY, (command.opcode == Opcode.UPDATE) & short))
        early = (command[f"wait_{kind}"] > self.given[kind] for kind in WaitLayout.members)
        return (
            (ErrorCode.BAD_WAIT, work & Cat(early).any()),
            (ErrorCode.BAD_TENSOR, work & Cat(bad_tensors).any() | commits),
            (ErrorCode.BAD_ADDRESS, work & Cat(bad_addresses).any()),
            *filters,
        )  # fmt: skip
