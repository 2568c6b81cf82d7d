"""A core: an array with its sequencer, engines and scratchpads. It runs compute commands."""

from amaranth import Cat, Module, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..spec.config import Config
from ..spec.errors import ErrorCode
from ..spec.registers import N_REGIONS
from .compute.compute import Compute
from .dma.fill import Fill
from .dma.store import Store
from .drain.drain import Drain
from .lib.clock_gate import clock_gate
from .lib.interfaces import (  # fmt: skip
    ErrorLayout,
    LostLayout,
    ReadClient,
    RegionLayout,
    ResultLayout,
    SignsLayout,
    StopLayout,
    TaskLayout,
    WriteClient,
)
from .lib.token import TokenCounter
from .memory.scratchpad import PingPong, Scratchpad
from .sequencer.sequencer import Sequencer

__all__ = ["HALVES", "STALLS", "TOKENS", "Core"]

TOKENS = {
    # name: (initial count, giver, taker); see docs/machine.md
    "a_free": (2, "compute", "fill"),
    "b_free": (2, "compute", "fill"),
    "a_full": (0, "fill", "compute"),
    "b_full": (0, "fill", "compute"),
    "acc_free": (2, "drain", "compute"),
    "acc_full": (0, "compute", "drain"),
    "c_free": (2, "store", "fill"),
    "c_ready": (0, "fill", "drain"),
    "drained": (0, "drain", "store"),
}

STALLS = ("stall_a", "stall_b", "stall_load", "stall_drain", "stall_idle")

SETTLING = max(Fill.LANDING_CYCLES, Scratchpad.WRITE_LATENCY + 1)
"""Cycles after which an engine's last action has reached the tokens and the scratchpads' memories."""

HALVES = 2
"""Halves of each buffer; no engine can be further ahead of another."""


class Core(wiring.Component):
    """Runs tasks one after the other.

    ``reset`` brings everything back to its initial state. It goes from block to block through a register for each,
    since a net to all of them at once would be the longest on the chip.

    Members
    -------
    i : In(stream.Signature(TaskLayout))
        the tasks
    reset : In(1)
        start over
    restarted : Out(1)
        ``reset`` after the last block, ``RESETS`` cycles later
    done : Out(1)
        pulses when everything that a task writes is written
    read, write : Out
        ways to memory
    regions, stop, lost, hold, writing : In, In, In, Out, Out
        see :class:`.dma.store.Store`
    result_valid, result : Out
        see :class:`.drain.drain.Drain`
    errors : Out(array of ErrorLayout)
        reports of sequencer, fill and store
    losses : Out(ERRORS)
        bit k: after error k no later task can be completed
    macs, active, stall_a, stall_b, stall_load, stall_drain, stall_idle
        counts, see :class:`.compute.compute.Compute`
    saturations : Out(range(config.result_lanes + 1))
        number of results that saturated in this cycle
    key : In(SignsLayout), where ``config.drops``
        key of dropout's draw

    Attributes
    ----------
    ERRORS
        blocks that report errors
    RESETS
        cycles from ``reset`` to ``restarted``
    """

    ERRORS = 3
    RESETS = 6 + Compute.RESETS

    def __init__(self, config: Config):
        self.config = config
        super().__init__({
            "i": In(stream.Signature(TaskLayout)), "reset": In(1), "restarted": Out(1), "done": Out(1),
            "read": Out(ReadClient(config)), "write": Out(WriteClient(config)),
            "regions": In(data.ArrayLayout(RegionLayout, N_REGIONS)),
            "stop": In(StopLayout), "lost": In(LostLayout), "hold": Out(1), "writing": Out(1),
            "result_valid": Out(1), "result": Out(ResultLayout(config)),
            "errors": Out(data.ArrayLayout(ErrorLayout, self.ERRORS)), "losses": Out(self.ERRORS),
            "macs": Out(range(config.n_pes + 1)), "saturations": Out(range(config.result_lanes + 1)),
            "active": Out(1), **{stall: Out(1) for stall in STALLS},
            **({"key": In(SignsLayout)} if config.drops else {}),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self.config

        resets = Signal(self.RESETS)
        m.d.sync += resets.eq(Cat(self.reset, resets))
        m.d.comb += self.restarted.eq(resets[-1])

        def engine(name, component, reset, wanted=None):
            """Add a block with its reset; with ``wanted``, its clock runs only while that is 1."""
            block = ResetInserter(reset)(component)
            if wanted is not None:
                block = clock_gate(m, platform, name, wanted | reset, SETTLING)(block)
            m.submodules[name] = block
            return component

        def taken(port):
            return port.valid & port.ready

        self.sequencer, self.fill, self.compute = Sequencer(config), Fill(config), Compute(config)
        self.drain, self.store = Drain(config), Store(config)
        fills = self.fill.busy | taken(self.fill.i) | self.fill.client.beats.valid
        drains = self.drain.busy | self.drain.begins | taken(self.drain.i) | taken(self.drain.vector)
        drains |= self.fill.bias_valid
        stores = self.store.busy | taken(self.store.i) | self.store.client.answer.valid
        uses_a = self.fill.a.mask.any() | self.compute.reads_a
        uses_b = self.fill.b.mask.any() | self.compute.reads_b
        uses_c = self.fill.c.mask.any() | self.drain.reads_c | self.drain.c_write.mask.any() | stores
        sequencing, filling, operands, computing, draining, storing, *inside = resets
        m.d.comb += [
            self.sequencer.reset.eq(sequencing), self.drain.reset.eq(draining), self.compute.resets.eq(Cat(inside)),
        ]  # fmt: skip
        engine("sequencer", self.sequencer, sequencing, self.sequencer.busy)
        self.tokens = {
            # Reset after all givers and takers: these may have decided to give or take as their own reset comes.
            name: engine(name, TokenCounter(initial, HALVES), resets[-1])
            for name, (initial, *_) in TOKENS.items()
        }
        engine("fill", self.fill, filling, fills)
        pad_a = engine("pad_a", Scratchpad(config, 2 * config.a_depth), operands, uses_a)
        pad_b = engine("pad_b", Scratchpad(config, 2 * config.b_depth), operands, uses_b)
        engine("compute", self.compute, computing)
        engine("drain", self.drain, draining, drains)
        engine("store", self.store, storing, stores)
        pad_c = engine("pad_c", PingPong(config, config.c_depth), storing, uses_c)

        self._scratchpads(m, pad_a, pad_b, pad_c)
        connect(m, self.drain.acc, self.compute.acc)
        connect(m, self.compute.vector, self.drain.vector)
        biases = ("bias_valid", "bias_half", "bias_start", "bias_data")
        for name in (*biases, "bias_vector") if config.convolves_channels else biases:
            m.d.comb += getattr(self.drain, name).eq(getattr(self.fill, name))
        if config.drops:
            m.d.comb += self.compute.key.eq(self.key)
        self._connect(m)
        self._reports(m)
        return m

    def _scratchpads(self, m, pad_a, pad_b, pad_c):
        """Connect each scratchpad to its reader and its writer."""
        for reader, writer, pad in ((self.compute.a, self.fill.a, pad_a), (self.compute.b, self.fill.b, pad_b)):
            connect(m, reader, pad.read)
            connect(m, writer, pad.write)
        connect(m, self.fill.c, pad_c.write0)
        connect(m, self.drain.c_write, pad_c.write1)
        connect(m, self.drain.c_read, pad_c.read0)
        connect(m, self.store.c, pad_c.read1)

    def _connect(self, m):
        """Connect descriptors, tokens and memory."""
        connect(m, flipped(self.i), self.sequencer.i)
        for name in ("fill", "compute", "drain", "store"):
            connect(m, getattr(self.sequencer, name), getattr(self, name).i)
        for name, (_, giver, taker) in TOKENS.items():
            counter = self.tokens[name]
            m.d.comb += counter.give.eq(getattr(getattr(self, giver), name))
            connect(m, getattr(getattr(self, taker), name), counter.take)
        connect(m, self.fill.client, flipped(self.read))
        connect(m, self.store.client, flipped(self.write))
        m.d.comb += [
            self.store.regions.eq(self.regions), self.store.stop.eq(self.stop), self.store.lost.eq(self.lost),
            self.hold.eq(self.store.hold), self.writing.eq(self.store.writing),
        ]  # fmt: skip

    def _reports(self, m):
        """Drive completions, results, errors and counters."""
        fill, drain, store = self.fill, self.drain, self.store
        faults = (
            (self.sequencer.error_valid, self.sequencer.error_code, self.sequencer.error_index, 1),
            (fill.fault, ErrorCode.READ_FAULT, fill.fault_command, 1),
            # Tasks after a refused write could go on.
            (store.fault, store.fault_code, store.fault_command, store.fault_code != ErrorCode.WRITE_FAULT),
        )
        for number, (valid, code, index, loss) in enumerate(faults):
            error = self.errors[number]
            m.d.comb += [error.valid.eq(valid), error.code.eq(code), error.index.eq(index)]
            m.d.comb += self.losses[number].eq(loss)
        m.d.comb += [
            self.done.eq(store.main_done), self.saturations.eq(drain.saturations),
            self.result_valid.eq(drain.result_valid), self.result.eq(drain.result),
            self.macs.eq(self.compute.macs), self.active.eq(self.compute.active),
            *(getattr(self, stall).eq(getattr(self.compute, stall)) for stall in STALLS),
        ]  # fmt: skip
