"""Signatures that blocks share: descriptor streams, scratchpad ports, tokens, memory clients."""

from amaranth import signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.commands import FIELDS, Adam
from ...spec.config import Config
from ...spec.microcode.descriptors import Bits
from ..control.hyper_table import HYPER_PER_UPDATE, HyperLayout

__all__ = [
    "AccRead", "CommandLayout", "ErrorLayout", "LostLayout", "PadRead", "PadWrite", "QualityLayout", "ReadClient",
    "RegionLayout", "ResultLayout", "SignsLayout", "StopLayout", "TaskLayout", "Token", "UpdateLayout", "VectorLayout",
    "WriteClient", "descriptor_layout", "descriptor_stream",
]  # fmt: skip


def descriptor_layout(bits: tuple[Bits, ...]) -> data.StructLayout:
    """The struct of a descriptor of :mod:`adagp.spec.microcode.descriptors`."""
    return data.StructLayout({b.name: signed(b.width) if b.signed else unsigned(b.width) for b in bits})


def descriptor_stream(bits: tuple[Bits, ...]) -> stream.Signature:
    """A stream of descriptors."""
    return stream.Signature(descriptor_layout(bits))


CommandLayout = data.StructLayout({f.name: signed(f.width) if f.signed else unsigned(f.width) for f in FIELDS})
"""A decoded command, fields in the order of :data:`adagp.spec.commands.FIELDS`."""


TaskLayout = data.StructLayout({
    "command": CommandLayout, "index": 16, "a_base": 32, "exp_a": signed(8), "exp_b": signed(8),
    "exp_c": signed(8), "exp_out": signed(8), "exp_scale": signed(8), "dry": 1,
})  # fmt: skip
"""A compute command ready to run, as control hands it to the sequencer: with its index in the program,
operand A's address (ring resolved) and the committed exponents; ``exp_scale`` is 0 without a scale."""

_SGD = {
    "index": 16, "dry": 1, "count": 32, "a_addr": 32, "b_addr": 32, "c_addr": 32, "out_addr": 32,
    "b_id": 8, "out_id": 8, "eg": signed(8), "ew": signed(8), "ew_next": signed(8), "ev": signed(8),
    "ev_next": signed(8), "ml": 16, "xl": signed(8), "mm": 16, "xm": signed(8), "md": 16, "xd": signed(8),
}  # fmt: skip
_PREDICTED = {
    "adam": 1, "zero": 1, "quality": 1, "layer": 16, "d_addr": 32, "d_id": 8, "scale_id": 8, "eg": signed(9),
    "ev_next": signed(9), "ed": signed(8), "ed_next": signed(9), "scale": signed(8),
    "more": data.ArrayLayout(HyperLayout, len(Adam) - HYPER_PER_UPDATE),
}  # fmt: skip


def UpdateLayout(config: Config) -> data.StructLayout:
    """An UPDATE command ready to run: addresses, exponents (before dry's rule), hyper-parameters.

    Where gradients are predicted, ADAM too (``adam``): its first moment is in the fields of the momentum, its hyper
    entries are in order ml, mm, md, ``more``. ``eg`` is then the gradient's
    exponent with what it is scaled by, ``zero``: there is no operand A, ``scale``: the layer's, 0 if it has none.
    ``random``, only where ``config.flips_signs``: the gradient's signs are changed at random.
    """
    random = {"random": 1} if config.flips_signs else {}
    return data.StructLayout({**_SGD, **_PREDICTED, **random} if config.predicts else _SGD)


QualityLayout = data.StructLayout({
    "layer": 16, "ee": 64, "et": signed(64), "tt": 64, "count": 32,
    "e_exponent": signed(10), "t_exponent": signed(10),
})  # fmt: skip
"""What a layer's prediction was like: sums of products of errors and true gradients in mantissas, over how many
elements, and the exponents of errors and of (scaled) gradients."""

ResultLayout = data.StructLayout({"id": 8, "nonzero": 1, "top": signed(10)})
"""What the shadow exponents gather: tensor, whether any result was nonzero, max bit length + exponent."""

ErrorLayout = data.StructLayout({"valid": 1, "code": 8, "index": 16})
"""A block's report: :class:`adagp.spec.errors.ErrorCode` and the command's index, in a cycle with valid."""

LostLayout = data.StructLayout({"valid": 1, "index": 16})
"""With valid: a queue's commands from this index on can't be completed any more."""

StopLayout = data.StructLayout({"stopping": 1, "index": 16})
"""An orderly stop, and the index of the earliest command that failed."""

SignsLayout = data.StructLayout({"seed": 32, "batch": 32})
"""What random signs depend on besides layer and weight: register SEED, and the schedule's batch in the epoch."""

RegionLayout = data.StructLayout({"start": 32, "end": 32})
"""A write region, ``start <= address < end``."""


def VectorLayout(config: Config) -> data.ArrayLayout:
    """A vector of ``rows`` results of the pool unit."""
    return data.ArrayLayout(signed(config.acc_width), config.rows)


class AccRead(wiring.Signature):
    """Accumulator read port, seen from the reader: ``data`` of half ``data_half`` follows ``valid`` two cycles later.

    A pipeline that moves only in cycles with ``en``, as :class:`PadRead` is.
    """

    def __init__(self, config: Config):
        super().__init__({
            "en": Out(1), "valid": Out(1), "half": Out(1), "addr": Out(range(config.acc_depth)),
            "data": In(data.ArrayLayout(data.ArrayLayout(signed(config.acc_width), config.cols), 2)),
            "data_half": In(1),
        })  # fmt: skip


class Token(wiring.Signature):
    """Taking side of a counting token: ``take`` may be raised only while ``avail``."""

    def __init__(self):
        super().__init__({"avail": In(1), "take": Out(1)})


class PadRead(wiring.Signature):
    """Scratchpad read port, seen from the reader.

    Lane i reads word ``addr[i]`` of bank ``(rot + i) % banks``; ``data`` follows
    ``Scratchpad.READ_LATENCY`` enabled cycles later, lanes in order. The port is a pipeline that
    moves only in cycles with ``en``. A reader may lower ``valid`` in enabled cycles whose data it
    doesn't want; only the shared halves of ``PingPong`` look at it.
    """

    def __init__(self, config: Config, depth: int):
        banks = config.banks
        super().__init__({
            "en": Out(1),
            "valid": Out(1, init=1),
            "rot": Out(range(banks)),
            "addr": Out(data.ArrayLayout(range(depth), banks)),
            "data": In(data.ArrayLayout(signed(config.operand_width), banks)),
        })  # fmt: skip


class PadWrite(wiring.Signature):
    """Scratchpad write port, seen from the writer: lane i goes to bank ``(rot + i) % banks``.

    No back-pressure; the data is readable ``Scratchpad.WRITE_LATENCY`` cycles later.
    """

    def __init__(self, config: Config, depth: int):
        banks = config.banks
        super().__init__({
            "mask": Out(banks),
            "rot": Out(range(banks)),
            "addr": Out(data.ArrayLayout(range(depth), banks)),
            "data": Out(data.ArrayLayout(signed(config.operand_width), banks)),
        })  # fmt: skip


class ReadClient(wiring.Signature):
    """A block's way to read memory: burst requests out, beats of all bursts in order back.

    ``request``: byte address (a multiple of the beat) and beats - 1. A burst must not cross a 4 KiB
    page nor exceed ``max_burst_beats``. ``beats``: always taken (``ready`` may be low for a while).
    A beat with ``fault`` carries no data worth having.
    """

    def __init__(self, config: Config):
        super().__init__({
            "request": Out(stream.Signature(data.StructLayout({"addr": 32, "length": 8}))),
            "beats": In(stream.Signature(data.StructLayout({"data": config.port_width, "fault": 1}))),
        })  # fmt: skip


class WriteClient(wiring.Signature):
    """A block's way to write memory: a burst request, then exactly its beats; one answer per burst.

    A block offers a request only when it can deliver all beats without waiting for another block. Beats may be offered
    before their request is taken, but not before it is offered; they are taken after it.
    """

    def __init__(self, config: Config):
        super().__init__({
            "request": Out(stream.Signature(data.StructLayout({"addr": 32, "length": 8}))),
            "beats": Out(stream.Signature(
                data.StructLayout({"data": config.port_width, "strobe": config.port_width // 8})
            )),
            "answer": In(stream.Signature(data.StructLayout({"fault": 1}), always_ready=True)),
        })  # fmt: skip
