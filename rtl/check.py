"""What fetch refuses, and what it makes of a command that it accepts."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..spec.commands import Adam, CMode, Opcode, Source
from ..spec.config import VERSION, Config
from ..spec.errors import ErrorCode
from .csr import N_PHASES
from .dispatch import WaitLayout
from .exponents import operands
from .hyper import HYPER_PER_UPDATE
from .prefetch import FetchedLayout

__all__ = ["Check", "is_update", "is_work"]


def is_compute(opcode):
    """Whether the opcode is that of a compute command."""
    return (opcode >= Opcode.FORWARD) & (opcode < Opcode.UPDATE)


def is_work(opcode):
    """Whether the opcode is that of a compute, UPDATE or ADAM command."""
    return (opcode >= Opcode.FORWARD) & (opcode <= Opcode.ADAM)


def is_update(opcode):
    """Whether the opcode is one of the update unit's."""
    return (opcode == Opcode.UPDATE) | (opcode == Opcode.ADAM)


class Check(wiring.Component):
    """Judges ``fetched``, combinationally: ``skip`` it in this ``phase``, or refuse it with ``code``.

    The first command is executed in every phase. ``given``: commands handed out since the batch began.
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
        m.d.comb += self.skip.eq(~first & ~command.phase_mask.bit_select(self.phase, 1) & ~self.fetched.fault)
        with m.If(self.fetched.fault):
            m.d.comb += self.code.eq(ErrorCode.READ_FAULT)
        with m.Elif(first & ~header):
            m.d.comb += self.code.eq(ErrorCode.NO_HEADER)
        with m.Elif((command.opcode > max(Opcode)) | self._unknown(command)):
            m.d.comb += self.code.eq(ErrorCode.BAD_OPCODE)
        with m.Elif(header & ((command.config_hash != config.config_hash) | (command.version != VERSION))):
            m.d.comb += self.code.eq(ErrorCode.CONFIG_MISMATCH)
        with m.Elif(is_work(command.opcode)):
            self._references(m, command)
        return m

    def _unknown(self, command):
        """Whether it asks for what this variant hasn't got, or the predictor's array for what that can't do."""
        compute, update = is_compute(command.opcode), is_update(command.opcode)
        reorganises = (command.opcode == Opcode.REORGANISE) | command.reorganise
        if self.config.predicts:
            gemm = command.opcode < Opcode.MAXPOOL
            last = Source.RANDOM if self.config.random_signs else Source.ZERO
            source = (command.opcode == Opcode.UPDATE) & (command.source > last)
            return source | (compute & command.predictor & (~gemm | command.reorganise))
        learns = (command.opcode == Opcode.ADAM) | command.quality | (command.source != 0)
        return (compute & (reorganises | command.predictor | (command.c_mode == CMode.SUB))) | (update & learns)

    def _references(self, m, command):
        config = self.config
        update = is_update(command.opcode)
        bad_tensor = Signal()
        bad_address = Signal()
        for operand in operands(config):
            with m.If(command[f"{operand}_id"] >= config.n_tensors):
                m.d.comb += bad_tensor.eq(1)
            if operand == "scale":
                continue
            address = command[f"{operand}_addr"]
            with m.If((address % config.operand_bytes != 0) | (update & (address % config.beat_bytes != 0))):
                m.d.comb += bad_address.eq(1)
        hypers = Mux(command.opcode == Opcode.ADAM, len(Adam), HYPER_PER_UPDATE)  # there is no ADAM in the baseline
        with m.If(update & (command.hyper > config.n_hyper - hypers)):
            m.d.comb += bad_tensor.eq(1)
        early = Cat(command[f"wait_{kind}"] > self.given[kind] for kind in WaitLayout.members).any()
        with m.If(early):
            m.d.comb += self.code.eq(ErrorCode.BAD_WAIT)
        with m.Elif(bad_tensor):
            m.d.comb += self.code.eq(ErrorCode.BAD_TENSOR)
        with m.Elif(bad_address):
            m.d.comb += self.code.eq(ErrorCode.BAD_ADDRESS)
