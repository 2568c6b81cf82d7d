"""Scratchpads: banked operand memories whose lanes are rotated onto consecutive banks."""

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.hdl import Assert
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.block_memory import BlockMemory
from ..lib.delay import delayed, registered
from ..lib.interfaces import PadRead, PadWrite

__all__ = ["Banks", "PingPong", "Scratchpad", "rotated"]


def rotated(m: Module, lanes: data.View, amount, *, left: bool) -> data.View:
    """``lanes`` rotated by ``amount`` places: lane i moves to ``i + amount`` if ``left``, else to ``i - amount``.

    Combinational, a multiplexer for each bit of ``amount``, the greatest first, since a reader of few lanes then needs
    fewer of them; the number of lanes is a power of two.
    """
    layout = lanes.shape()
    width = layout.size // layout.length
    value = lanes.as_value()
    for k in reversed(range((layout.length - 1).bit_length())):
        turned = value.rotate_left(width << k) if left else value.rotate_right(width << k)
        stage = Signal(layout.size)
        m.d.comb += stage.eq(Mux(amount[k], turned, value))
        value = stage
    return layout(value)


class Banks(wiring.Component):
    """The bare memories of a scratchpad, one per bank.

    Parameters
    ----------
    config : Config
        ``banks`` memories of operands
    depth : int
        words of a bank

    Members
    -------
    r_en, r_addr, r_data
        bank b reads word ``r_addr[b]`` while ``r_en``
    w_mask, w_addr, w_data
        bank b writes ``w_data[b]`` to word ``w_addr[b]`` where ``w_mask[b]``

    Timing
    ------
    ``r_data`` follows one enabled cycle after the address; :class:`.BlockMemory` says what a word that is being written
    reads as.
    """

    def __init__(self, config: Config, depth: int):
        self._operand = signed(config.operand_width)
        self._depth = depth
        addresses = data.ArrayLayout(range(depth), config.banks)
        operands = data.ArrayLayout(self._operand, config.banks)
        super().__init__({
            "r_en": In(1), "r_addr": In(addresses), "r_data": Out(operands),
            "w_mask": In(config.banks), "w_addr": In(addresses), "w_data": In(operands),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        for bank in range(len(self.w_mask)):
            m.submodules[f"bank{bank}"] = memory = BlockMemory(self._operand, self._depth)
            m.d.comb += [
                memory.r_en.eq(self.r_en), memory.r_addr.eq(self.r_addr[bank]), self.r_data[bank].eq(memory.r_data),
                memory.w_en.eq(self.w_mask[bank]), memory.w_addr.eq(self.w_addr[bank]),
                memory.w_data.eq(self.w_data[bank]),
            ]  # fmt: skip
        return m


class _Reader(wiring.Component):
    """A read port's part of the pipeline: lane addresses to banks before the memories, data to lanes after them.

    Parameters
    ----------
    consecutive
        lanes read consecutive operands: only lane 0's address counts
    banked
        the port's data come in the order of banks
    registers
        registers from the memories to the rotation of lanes, at least 1: memory blocks take most of a cycle

    Members
    -------
    port : In(PadRead(config, depth))
        the reader; with ``zeros`` it says lanes that are 0
    wants : Out(n_halves)
        half to be read, in the banks' read cycle
    addr : Out
        words of the banks, in that cycle
    data : In
        words of all halves, in the enabled cycle after
    """

    LATENCY = 4  # from ``port.addr`` to ``port.data``, with one of the ``registers``

    def __init__(
        self, config: Config, depth: int, n_halves: int = 1, consecutive: bool = False, banked: bool = False,
        registers: int = 1, zeros: bool = False,
    ):  # fmt: skip
        self._consecutive, self._banked, self._registers = consecutive, banked, registers
        super().__init__({
            "port": In(PadRead(config, depth, zeros)),
            "wants": Out(n_halves), "addr": Out(data.ArrayLayout(range(depth), config.banks)),
            "data": In(data.ArrayLayout(data.ArrayLayout(signed(config.operand_width), config.banks), n_halves)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        half, data_half = Signal(), Signal()
        words = [delayed(m, each.as_value(), 1, self.port.en, reset=False) for each in self.data]
        chosen = Mux(delayed(m, data_half, 1, self.port.en), words[-1], words[0])
        lanes = data.View(
            self.data.shape().elem_shape, delayed(m, chosen, self._registers - 1, self.port.en, reset=False)
        )
        to_banks = self._following(m) if self._consecutive else rotated(m, self.port.addr, self.port.rot, left=True)
        if not self._banked:
            lanes = rotated(m, lanes, delayed(m, self.port.rot, 2 + self._registers, self.port.en), left=False)
        with m.If(self.port.en):
            m.d.sync += [
                half.eq(self.port.addr[0][-1]), data_half.eq(half),
                self.wants.eq(Mux(self.port.valid, 1 << self.port.addr[0][-1], 0)),
            ]  # fmt: skip
        if hasattr(self.port, "zeros"):  # set by the registers' own resets
            lanes = Cat(Mux(zero, 0, operand) for zero, operand in zip(self.port.zeros, lanes, strict=True))
        registered(m, self.addr, to_banks, self.port.en)
        registered(m, self.port.data, lanes, self.port.en)
        return m

    def _following(self, m):
        """Words of the banks for consecutive operands: banks before lane 0's have the next word."""
        first, rot = self.port.addr[0], self.port.rot
        following = Signal.like(first)
        m.d.comb += following.eq(first + 1)
        return Cat(Mux(bank < rot, following, first) for bank in range(len(self.addr)))


class _Writer(wiring.Component):
    """A write port's lanes, rotated to banks and registered.

    Members
    -------
    port : In(PadWrite(config, depth))
        the writer
    any, half : Out(1)
        something is written; the half it is written to
    mask, addr, data : Out
        enables, words and operands of the banks

    Timing
    ------
    A cycle after the port.
    """

    def __init__(self, config: Config, depth: int):
        super().__init__({
            "port": In(PadWrite(config, depth)),
            "any": Out(1), "half": Out(1), "mask": Out(config.banks),
            "addr": Out(data.ArrayLayout(range(depth), config.banks)),
            "data": Out(data.ArrayLayout(signed(config.operand_width), config.banks)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        port = self.port
        mask = data.View(data.ArrayLayout(1, len(port.mask)), port.mask)
        m.d.sync += [
            self.any.eq(port.mask.any()),
            self.half.eq(port.addr[0][-1]),
            self.mask.eq(rotated(m, mask, port.rot, left=True)),
        ]
        registered(m, self.addr, rotated(m, port.addr, port.rot, left=True))
        registered(m, self.data, rotated(m, port.data, port.rot, left=True))
        return m


class Scratchpad(wiring.Component):
    """A scratchpad with one reader and one writer.

    Parameters
    ----------
    config : Config
        a word has ``banks`` operands
    depth : int
        words

    Members
    -------
    read : In(PadRead(config, depth, zeros=True))
        the reader
    write : In(PadWrite(config, depth))
        the writer

    Timing
    ------
    Data follow a read READ_LATENCY enabled cycles later. A read sees writes of WRITE_LATENCY or more cycles before it.
    """

    READ_LATENCY = _Reader.LATENCY + 1  # with one more register, as lanes are far from the memory blocks
    WRITE_LATENCY = 1

    def __init__(self, config: Config, depth: int):
        self._config, self._depth = config, depth
        super().__init__({"read": In(PadRead(config, depth, zeros=True)), "write": In(PadWrite(config, depth))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.reader = reader = _Reader(self._config, self._depth, registers=2, zeros=True)
        m.submodules.writer = writer = _Writer(self._config, self._depth)
        m.submodules.banks = banks = Banks(self._config, self._depth)
        wiring.connect(m, wiring.flipped(self.read), reader.port)
        wiring.connect(m, wiring.flipped(self.write), writer.port)
        m.d.comb += [
            banks.r_en.eq(self.read.en), banks.r_addr.eq(reader.addr), reader.data[0].eq(banks.r_data),
            banks.w_mask.eq(writer.mask), banks.w_addr.eq(writer.addr), banks.w_data.eq(writer.data),
        ]  # fmt: skip
        return m


class PingPong(wiring.Component):
    """A scratchpad of two halves, with two readers and two writers.

    The top bit of lane 0's address is the half, whatever lane 0's mask. No half may be read, or written, through both
    ports at once.

    Parameters
    ----------
    config : Config
        a word has ``banks`` operands
    depth : int
        words of a half

    Members
    -------
    read0 : In(PadRead(config, 2 * depth))
        a reader; may leave ``en`` high while idle, and then reads undefined values; if the epilogue has few lanes, its
        data come in the order of banks
    read1 : In(PadRead(config, 2 * depth))
        a reader that lowers ``valid`` for reads that it doesn't want; reads consecutive operands, from lane 0's on
    write0, write1 : In(PadWrite(config, 2 * depth))
        the writers

    Timing
    ------
    As :class:`Scratchpad`'s, but with a READ_LATENCY of its own.
    """

    READ_LATENCY = _Reader.LATENCY

    def __init__(self, config: Config, depth: int):
        self._config, self._depth = config, depth
        read, write = PadRead(config, 2 * depth), PadWrite(config, 2 * depth)
        super().__init__({"read0": In(read), "read1": In(read), "write0": In(write), "write1": In(write)})

    def elaborate(self, platform):
        m = Module()
        config, depth = self._config, 2 * self._depth
        readers = [
            _Reader(config, depth, n_halves=2, banked=config.folds(config.result_lanes) > 1),
            _Reader(config, depth, n_halves=2, consecutive=True),
        ]
        writers = [_Writer(config, depth) for _ in range(2)]
        halves = [Banks(config, self._depth) for _ in range(2)]
        for i, (reader, writer, half) in enumerate(zip(readers, writers, halves, strict=True)):
            m.submodules[f"reader{i}"] = reader
            m.submodules[f"writer{i}"] = writer
            m.submodules[f"half{i}"] = half
        ports = ((self.read0, self.write0), (self.read1, self.write1))
        for (read, write), reader, writer in zip(ports, readers, writers, strict=True):
            wiring.connect(m, wiring.flipped(read), reader.port)
            wiring.connect(m, wiring.flipped(write), writer.port)
            m.d.comb += [reader.data[h].eq(half.r_data) for h, half in enumerate(halves)]
        with m.If(writers[0].any & writers[1].any):
            m.d.sync += Assert(writers[0].half != writers[1].half)
        for h, half in enumerate(halves):
            self._join(m, h, half, readers, writers)
        return m

    def _join(self, m, h, half, readers, writers):
        """Connect one half to the reader and the writer that address it."""
        wants = [reader.wants[h] for reader in readers]
        reads = [reader.port.en & want for reader, want in zip(readers, wants, strict=True)]
        writes = [writer.any & (writer.half == h) for writer in writers]
        for bank in range(self._config.banks):
            m.d.comb += [
                half.r_addr[bank].eq(Mux(wants[1], readers[1].addr[bank], readers[0].addr[bank])),
                half.w_addr[bank].eq(Mux(writes[1], writers[1].addr[bank], writers[0].addr[bank])),
            ]
        m.d.comb += [
            half.r_en.eq(reads[0] | reads[1]),
            half.w_mask.eq(Mux(writes[1], writers[1].mask, Mux(writes[0], writers[0].mask, 0))),
            half.w_data.eq(Mux(writes[1], writers[1].data, writers[0].data)),
        ]
