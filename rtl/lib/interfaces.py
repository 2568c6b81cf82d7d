"""Layouts and signatures shared by blocks: descriptors, tasks, reports, scratchpad ports, tokens, memory clients."""

from amaranth import signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.commands import FIELDS, Adam
from ...spec.config import Config
from ...spec.microcode.descriptors import Bits
from ...spec.numerics import SHIFT_MAX, SHIFT_MIN
from ...spec.registers import register

__all__ = [
    "HYPER_PER_UPDATE", "AccRead", "CommandLayout", "DrainVector", "ErrorLayout", "HyperLayout", "LostLayout",
    "OperandVector", "PadRead", "PadWrite", "QualityLayout", "ReadClient", "RegionLayout", "ResultLayout",
    "SignsLayout", "StopLayout", "TaskLayout", "Token", "UpdateLayout", "VectorLayout", "WriteClient",
    "descriptor_layout", "descriptor_stream", "register_layout",
]  # fmt: skip


def register_layout(name: str, *fields: str) -> data.StructLayout:
    """The bits of a register as a struct of its ``fields``, by default of all; bits between them are ``unused``."""
    members, at = {}, 0
    for field in register(name).fields:
        if not fields or field.name in fields:
            if field.lsb > at:
                members["unused"] = unsigned(field.lsb - at)
            members[field.name] = signed(field.width) if field.signed else unsigned(field.width)
            at = field.lsb + field.width
    return data.StructLayout(members)


def descriptor_layout(bits: tuple[Bits, ...]) -> data.StructLayout:
    """Struct of a descriptor of :mod:`adagp.spec.microcode.descriptors`."""
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
"""A compute command ready to run, as control hands it to the sequencer: with its index in the program, operand A's
address (ring resolved) and the committed exponents. ``exp_scale`` is 0 without a scale.
"""

HyperLayout = register_layout("HYPER_VALUE")
"""A hyper-parameter, mantissa * 2^exponent, as register HYPER_VALUE holds it."""

HYPER_PER_UPDATE = 3
"""Hyper-parameters of an UPDATE: learning rate, momentum and weight decay, in consecutive entries."""

_SGD = {
    "index": 16, "dry": 1, "count": 32, "a_addr": 32, "b_addr": 32, "c_addr": 32, "out_addr": 32,
    "eg": signed(8), "ew": signed(8), "ew_next": signed(8), "ev": signed(8),
    "ev_next": signed(8), "ml": 16, "xl": signed(8), "mm": 16, "xm": signed(8), "md": 16, "xd": signed(8),
}  # fmt: skip
_PREDICTED = {
    "adam": 1, "zero": 1, "keep": 1, "quality": 1, "layer": 16, "d_addr": 32, "eg": signed(9),
    "ev_next": signed(9), "ed": signed(8), "ed_next": signed(9), "scale": signed(8),
    "more": data.ArrayLayout(HyperLayout, len(Adam) - HYPER_PER_UPDATE),
}  # fmt: skip


def UpdateLayout(config: Config) -> data.StructLayout:
    """An UPDATE command ready to run: addresses, exponents (before the rule for dry commands), hyper-parameters.

    Where gradients are predicted, it may be an ADAM command too.

    Members
    -------
    adam
        an ADAM command: its first moment is in the momentum's fields, its hyper entries are ml, mm, md, ``more``
    eg
        where gradients are predicted, the gradient's exponent including its scale
    zero, keep
        there is no operand A; there is no momentum
    scale
        the layer's scale, 0 without one
    random
        change the gradient's signs at random; only where ``config.flips_signs``
    filter
        weights of a filter, whose last has no gradient, or 0; only where ``config.streams``
    """
    random = {"random": 1} if config.flips_signs else {}
    ends = {"filter": CommandLayout["y_pitch"].shape} if config.streams else {}
    ids = ("b_id", "out_id", *(("d_id", "scale_id") if config.predicts else ()))
    numbers = dict.fromkeys(ids, range(config.n_tensors))
    return data.StructLayout({**_SGD, **numbers, **(_PREDICTED | random | ends if config.predicts else {})})


QualityLayout = data.StructLayout({
    "layer": 16, "ee": 64, "et": signed(64), "tt": 64, "count": 32,
    "e_exponent": signed(10), "t_exponent": signed(10),
})  # fmt: skip
"""Quality of a layer's prediction: sums of products of errors e and true gradients t (mantissas), the number of
elements, and the exponents of the errors and of the (scaled) gradients.
"""


def ResultLayout(config: Config) -> data.StructLayout:
    """A result tensor's report to the shadow exponents: its id, any result was nonzero, max bit length + exponent."""
    return data.StructLayout({"id": range(config.n_tensors), "nonzero": 1, "top": signed(10)})


ErrorLayout = data.StructLayout({"valid": 1, "code": 8, "index": 16})
"""A block's report, in a cycle with ``valid``: an :class:`adagp.spec.errors.ErrorCode` and the command's index."""

LostLayout = data.StructLayout({"valid": 1, "index": 16})
"""With ``valid``: a queue's commands from ``index`` on can't be completed any more."""

StopLayout = data.StructLayout({"stopping": 1, "index": 16})
"""An orderly stop, and the index of the earliest command that failed."""

SignsLayout = data.StructLayout({"seed": 32, "batch": 32})
"""Key of a hash: register SEED, and a batch, for random signs the schedule's in the epoch, for dropout BATCH."""

RegionLayout = data.StructLayout({"start": 32, "end": 32})
"""A write region, ``start <= address < end``."""


def VectorLayout(config: Config) -> data.ArrayLayout:
    """A vector of ``rows`` results from the pool unit."""
    return data.ArrayLayout(signed(config.acc_width), config.rows)


def OperandVector(config: Config) -> data.StructLayout:
    """``vector_lanes`` operands, zeros from lane ``lanes`` on, and flags: with them ends the pass over the outer
    positions, the sweep of all passes over a reduction group, the walk.
    """
    return data.StructLayout({
        "data": data.ArrayLayout(signed(config.operand_width), config.vector_lanes),
        "lanes": range(config.vector_lanes + 1), "end_pass": 1, "end_sweep": 1, "end_walk": 1,
    })  # fmt: skip


def DrainVector(config: Config) -> data.Layout:
    """A vector on its way to the drain; with ``Config.batch_norm`` with shifts of its own.

    Members
    -------
    sums
        the vector
    shift
        with a ``scaled`` descriptor, each lane's shift
    plain
        with a ``scaled`` descriptor: it doesn't count among its results
    """
    if not config.normalises:
        return VectorLayout(config)
    shifts = data.ArrayLayout(range(SHIFT_MIN, SHIFT_MAX + 1), config.rows)
    return data.StructLayout({"sums": VectorLayout(config), "shift": shifts, "plain": 1})


class AccRead(wiring.Signature):
    """Accumulator read port, seen from the reader: a pipeline that moves only in cycles with ``en``.

    Members
    -------
    en, next_en : Out(1)
        the pipeline moves in this cycle, and in the next one
    valid, half, addr : Out
        whether a word is wanted, and which
    data : In
        words of both halves, one of which was asked for

    Timing
    ------
    ``data`` follows LATENCY cycles with ``en`` after ``valid``.
    """

    LATENCY = 3

    def __init__(self, config: Config):
        super().__init__({
            "en": Out(1), "next_en": Out(1), "valid": Out(1), "half": Out(1), "addr": Out(range(config.acc_depth)),
            "data": In(data.ArrayLayout(data.ArrayLayout(signed(config.acc_width), config.cols), 2)),
        })  # fmt: skip


class Token(wiring.Signature):
    """Taking side of a counting token.

    Members
    -------
    avail : In(1)
        there is a token
    take : Out(1)
        take it; only while ``avail``
    """

    def __init__(self):
        super().__init__({"avail": In(1), "take": Out(1)})


class PadRead(wiring.Signature):
    """Scratchpad read port, seen from the reader: a pipeline that moves only in cycles with ``en``.

    Members
    -------
    en : Out(1)
        the pipeline moves
    valid : Out(1, init=1)
        the data are wanted; may be low in enabled cycles, and only the shared halves of ``PingPong`` look at it
    rot : Out(range(banks))
        bank of lane 0; lane i reads bank ``(rot + i) % banks``
    addr : Out(data.ArrayLayout(range(depth), banks))
        each lane's word
    data : In(data.ArrayLayout(signed(config.operand_width), banks))
        the words, lanes in order (or banks, see :class:`.scratchpad.PingPong`)
    zeros : Out(banks)
        lanes whose data are 0 instead, an enabled cycle before those; with ``zeros``

    Timing
    ------
    ``data`` follows ``addr`` after as many enabled cycles as the scratchpad's ``READ_LATENCY`` says.
    """

    def __init__(self, config: Config, depth: int, zeros: bool = False):
        banks = config.banks
        super().__init__({
            "en": Out(1), "valid": Out(1, init=1), "rot": Out(range(banks)),
            "addr": Out(data.ArrayLayout(range(depth), banks)), **({"zeros": Out(banks)} if zeros else {}),
            "data": In(data.ArrayLayout(signed(config.operand_width), banks)),
        })  # fmt: skip


class PadWrite(wiring.Signature):
    """Scratchpad write port without back-pressure, seen from the writer.

    Members
    -------
    mask : Out(banks)
        lanes that write
    rot : Out(range(banks))
        bank of lane 0; lane i goes to bank ``(rot + i) % banks``
    addr, data : Out
        each lane's word

    Timing
    ------
    Data can be read ``Scratchpad.WRITE_LATENCY`` cycles later.
    """

    def __init__(self, config: Config, depth: int):
        banks = config.banks
        super().__init__({
            "mask": Out(banks), "rot": Out(range(banks)),
            "addr": Out(data.ArrayLayout(range(depth), banks)),
            "data": Out(data.ArrayLayout(signed(config.operand_width), banks)),
        })  # fmt: skip


class ReadClient(wiring.Signature):
    """A block's way to read memory: burst requests out, the beats of all bursts back in order.

    Members
    -------
    request : Out
        byte address (a multiple of the beat) and number of beats - 1; a burst stays inside a 4 KiB page and within
        ``max_burst_beats``
    beats : In
        must be taken in the end (``ready`` may be low for a while); data with ``fault`` are undefined
    """

    def __init__(self, config: Config):
        super().__init__({
            "request": Out(stream.Signature(data.StructLayout({"addr": 32, "length": 8}))),
            "beats": In(stream.Signature(data.StructLayout({"data": config.port_width, "fault": 1}))),
        })  # fmt: skip


class WriteClient(wiring.Signature):
    """A block's way to write memory: a burst request, then exactly its beats; one answer for each burst.

    Members
    -------
    request : Out
        as :class:`ReadClient`'s; offered only when the block can deliver all beats without waiting for another block
    beats : Out
        may be offered from the cycle of their request on; taken after it
    answer : In
        the burst is written, or has a ``fault``
    """

    def __init__(self, config: Config):
        super().__init__({
            "request": Out(stream.Signature(data.StructLayout({"addr": 32, "length": 8}))),
            "beats": Out(stream.Signature(
                data.StructLayout({"data": config.port_width, "strobe": config.port_width // 8})
            )),
            "answer": In(stream.Signature(data.StructLayout({"fault": 1}), always_ready=True)),
        })  # fmt: skip
