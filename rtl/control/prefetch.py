"""Reads a program's commands ahead of their execution."""

from amaranth import Assert, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.commands import COMMAND_BYTES, FIELDS
from ...spec.config import Config
from ..lib.block_queue import BlockQueue
from ..lib.delay import delayed
from ..lib.interfaces import CommandLayout, ReadClient

__all__ = ["FetchedLayout", "Prefetch"]

COMMANDS_AHEAD = 2
"""Commands that may be read before they are wanted."""

FetchedLayout = data.StructLayout({"command": CommandLayout, "index": 16, "fault": 1})
"""A command and its index in the program; with ``fault`` the memory didn't deliver it."""


class Prefetch(wiring.Component):
    """Reads the commands of a program in order, up to COMMANDS_AHEAD beyond the one offered.

    Members
    -------
    program : In(32)
        byte address of the program, a multiple of COMMAND_BYTES; lower bits are ignored
    enable : In(1)
        while low, commands that were read or are still coming are dropped; may rise only while ``quiet``. Reading goes
        on after the last command taken or, if ``rewind`` came after it, with the first
    rewind : In(1)
        begin the program anew; only while ``enable`` is low
    quiet : Out(1)
        nothing is outstanding
    commands : Out(stream of FetchedLayout)
        the commands
    client : Out(ReadClient(config))
        reads them
    busy : Out(1)
        low only while the block can do nothing but wait for other blocks, and in the two cycles in which a command is
        put together

    Timing
    ------
    Reading begins a cycle after ``enable`` rises.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__({
            "program": In(32), "rewind": In(1), "enable": In(1), "quiet": Out(1), "busy": Out(1),
            "client": Out(ReadClient(config)), "commands": Out(stream.Signature(FetchedLayout)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self.config
        beats = self.client.beats
        fifo_depth = COMMANDS_AHEAD * COMMAND_BYTES // config.beat_bytes
        m.submodules.fifo = fifo = BlockQueue(len(beats.payload.as_value()), fifo_depth)
        m.d.comb += [beats.ready.eq(1), fifo.w_en.eq(beats.valid), fifo.w_data.eq(beats.payload)]
        with m.If(beats.valid):
            m.d.sync += Assert(fifo.w_rdy, "a beat came that nobody asked for")
        self._ask(m, fifo_depth, self._place(m), popped=fifo.r_rdy & fifo.r_en)
        self._assemble(m, fifo, data.View(beats.p.shape(), fifo.r_data))
        return m

    def _place(self, m):
        """Keep index and address of the command offered; returns the address."""
        here = Signal(32)
        index = self.commands.p.index
        gone = delayed(m, self.commands.valid & self.commands.ready, 1)  # the next one can't come sooner
        with m.If(self.rewind):
            m.d.sync += [index.eq(0), here.eq(self.program & -COMMAND_BYTES)]
        with m.Elif(gone):
            m.d.sync += [index.eq(index + 1), here.eq(here + COMMAND_BYTES)]
        return here

    def _ask(self, m, fifo_depth, here, popped):
        """Request bursts as long as the buffer has room for them."""
        burst_beats = min(COMMAND_BYTES // self.config.beat_bytes, self.config.max_burst_beats)
        burst_bytes = burst_beats * self.config.beat_bytes
        request = self.client.request
        address = Signal(32)
        due = Signal(range(fifo_depth + 1))  # beats asked for that haven't left the buffer
        enabled = delayed(m, self.enable, 1)
        may = enabled & (~request.valid | request.ready) & (due <= fifo_depth - burst_beats)
        ask = self.enable & may
        m.d.comb += [self.quiet.eq(due == 0), self.busy.eq(request.valid | ask | popped)]
        m.d.sync += due.eq(due + Mux(ask, burst_beats, 0) - popped)
        with m.If(ask):
            m.d.sync += [
                request.valid.eq(1), request.p.addr.eq(address), request.p.length.eq(burst_beats - 1),
            ]  # fmt: skip
        with m.Elif(request.ready):
            m.d.sync += request.valid.eq(0)
        with m.If(may):  # without enable the address is reset a cycle later
            m.d.sync += address.eq(address + burst_bytes)
        with m.If(~enabled):
            m.d.sync += address.eq(here)

    def _assemble(self, m, fifo, beat):
        """Put the beats that hold fields together; pass over the others.

        A beat is put to its place a cycle after it has left the buffer, as the register is far from the logic that
        takes it out. Each place has an enable of its own.
        """
        n_beats = COMMAND_BYTES // self.config.beat_bytes
        width = self.config.port_width
        used_bits = 32 * (1 + max(f.word for f in FIELDS))
        n_used = -(-used_bits // width)
        words = Signal(n_used * width, reset_less=True)
        position = Signal(range(n_beats))
        commands = self.commands
        full = Signal()  # all beats of a command have left the buffer
        take = fifo.r_rdy & ~full
        latest = delayed(m, beat.data, 1, reset=False)
        m.d.comb += fifo.r_en.eq(~full)
        m.d.sync += commands.valid.eq(full)
        with m.If(commands.valid & commands.ready):
            m.d.sync += [full.eq(0), commands.valid.eq(0)]
        with m.If(take):
            m.d.sync += [
                position.eq(position + 1), full.eq(position == n_beats - 1),
                commands.p.fault.eq(beat.fault | (commands.p.fault & (position != 0))),
            ]  # fmt: skip
        for place in range(n_used):
            with m.If(delayed(m, take & (position == place), 1)):
                m.d.sync += words.word_select(place, width).eq(latest)
        with m.If(~self.enable):
            m.d.sync += [position.eq(0), full.eq(0), commands.valid.eq(0)]
        for field in FIELDS:
            lsb = 32 * field.word + field.lsb
            m.d.comb += commands.p.command[field.name].eq(words[lsb : lsb + field.width])
