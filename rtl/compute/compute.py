"""The compute engine: operand fetch, array and accumulator for GEMMs, the pool unit for vectors.

In designs with GEMMs only, the pool unit never has a job, and synthesis removes it.
"""

from amaranth import Const, Module, Mux, ResetInserter, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ...spec.config import Config
from ...spec.microcode.descriptors import COMPUTE, VectorMode
from ..lib.clock_gate import clock_gate
from ..lib.delay import delayed
from ..lib.interfaces import AccRead, DrainVector, PadRead, SignsLayout, Token, descriptor_stream
from ..norm.layouts import CommandLayout, Task
from ..norm.norm import Norm
from .accumulator import Accumulator
from .block_im2col import BlockIm2col
from .dataflow import join, multiplying
from .im2col import Im2col
from .lane_offsets import N_OUTER, N_REDUCTION
from .pool import Pool
from .pool_job import described, products

__all__ = ["Compute"]

GEMM_LEVELS = ((3, 3), (1, 1))
"""Levels of the walks of A and B, outer positions and reduction, where all descriptors are GEMMs."""


class Compute(wiring.Component):
    """Executes COMPUTE descriptors in order, on halves of A, B and the accumulator that tokens grant.

    Three units take part in each descriptor: two operand fetchers and the consumer of their vectors (``feeder`` or
    ``pool``). Each goes on to the next descriptor on its own, so the next stationary tile is loaded while the last pass
    streams. The fetchers wait for the end of the present descriptor only if the next one uses the operands otherwise.

    Members
    -------
    i : In(descriptor_stream(COMPUTE))
        the descriptors
    resets : In(RESETS)
        for the blocks inside whose clocks are gated; the others need a ResetInserter around the engine
    a, b : Out
        read ports of the scratchpads
    a_full, b_full, acc_free : Out(Token())
        tokens that are taken
    a_free, b_free, acc_full : Out(1)
        give a token in each cycle they are 1
    acc : In(AccRead(config))
        read port of the accumulator, for the drain
    vector : Out(stream.Signature(DrainVector(config)))
        results of the pool unit and of batch norm's
    macs : Out(range(config.n_pes + 1))
        products of valid operands in the vector the array took ``Feeder.MACS_LATENCY`` cycles ago
    active : Out(1)
        the array takes a vector; exactly one of this and the stalls is 1
    stall_idle : Out(1)
        no GEMM is in progress
    stall_a, stall_b : Out(1)
        the GEMM waits for its tile
    stall_drain : Out(1)
        it waits for an accumulator half only
    stall_load : Out(1)
        it waits for operands to arrive or for a stationary tile to be loaded
    reads_a, reads_b : Out(1)
        the scratchpad's read port may be in use
    key : In(SignsLayout), where ``config.drops``
        key of dropout's draw

    Attributes
    ----------
    RESETS
        width of ``resets``
    """

    RESETS = 5

    def __init__(self, config: Config):
        super().__init__({
            "i": In(descriptor_stream(COMPUTE)), "resets": In(self.RESETS),
            **{name: Out(PadRead(config, 2 * depth, zeros=True))
               for name, depth in (("a", config.a_depth), ("b", config.b_depth))},
            "a_full": Out(Token()), "b_full": Out(Token()), "acc_free": Out(Token()),
            "a_free": Out(1), "b_free": Out(1), "acc_full": Out(1),
            "acc": In(AccRead(config)), "vector": Out(stream.Signature(DrainVector(config))),
            "macs": Out(range(config.n_pes + 1)),
            "active": Out(1), "stall_a": Out(1), "stall_b": Out(1), "stall_load": Out(1), "stall_drain": Out(1),
            "stall_idle": Out(1), "reads_a": Out(1), "reads_b": Out(1),
            **({"key": In(SignsLayout)} if config.drops else {}),
        })  # fmt: skip
        self.config = config

    def elaborate(self, platform):
        m = Module()
        config = self.config
        fetch = BlockIm2col if config.output_stationary else Im2col
        levels = [(N_OUTER, N_REDUCTION)] * 2 if config.pools else GEMM_LEVELS
        fetch_a, fetch_b = fetch(config, config.a_depth, levels[0]), fetch(config, config.b_depth, levels[1])
        array, feeder, feeds, works = multiplying(config)
        accumulator, pool = Accumulator(config), Pool(config)
        adds = accumulator.latency + accumulator.AHEAD
        m.submodules.feeder = feeder
        for (name, block, wanted, hold), reset in zip((
            ("fetch_a", fetch_a, fetch_a.busy, 1),
            ("fetch_b", fetch_b, fetch_b.busy, 1),
            ("array", array, feeds, works),
            ("accumulator", accumulator, accumulator.tag.valid | accumulator.reading, adds),
            ("pool", pool, pool.busy | pool.job.valid, 1),
        ), self.resets, strict=True):  # fmt: skip
            gate = clock_gate(m, platform, name, wanted | reset, hold, reset=False)
            m.submodules[name] = gate(ResetInserter(reset)(block))
        m.d.comb += [self.reads_a.eq(fetch_a.busy), self.reads_b.eq(fetch_b.busy)]
        for fetch, pad, full, free in (
            (fetch_a, self.a, self.a_full, self.a_free),
            (fetch_b, self.b, self.b_full, self.b_free),
        ):
            connect(m, fetch.pad, flipped(pad))
            connect(m, fetch.full, flipped(full))
            m.d.comb += free.eq(fetch.free)
        connect(m, feeder.acc_free, flipped(self.acc_free))
        connect(m, accumulator.read, flipped(self.acc))
        norm = self._norm(m, platform, pool) if config.normalises else None
        if norm is None:
            connect(m, pool.o, flipped(self.vector))
        m.d.comb += self.acc_full.eq(accumulator.full)

        described = self._describe(m, fetch_a, fetch_b, feeder, pool)
        here, swap, vector, normed = self._dispatch(m, fetch_a, fetch_b, feeder, pool, norm, *described)
        self._route(m, fetch_a, fetch_b, feeder, pool, norm, swap, vector, normed)
        join(m, config, feeder, array, accumulator)
        self._count(m, fetch_a, fetch_b, feeder, here)
        return m

    def _norm(self, m, platform, pool):
        """Add batch norm's unit, whose vectors go where the pool unit's do."""
        norm, job, reset = Norm(self.config), self.i.payload, self.resets[-1]
        gate = clock_gate(m, platform, "norm", norm.busy | norm.job.valid | reset, 1, reset=False)
        m.submodules.norm = gate(ResetInserter(reset)(norm))
        to, vector = norm.job.payload, self.vector
        command = to.table.command
        m.d.comb += [
            to.is_table.eq(job.mode == VectorMode.TABLES),
            to.scale.exponent.eq(job.exponent), to.scale.pairs.eq(job.task == Task.BACKWARD),
            to.table.task.eq(job.task), to.table.exponent.eq(job.exponent),
            command.n.eq(job.n_values), command.epsilon.eq(job.mantissa),
            *(command[name].eq(job[name]) for name in CommandLayout.members if name not in ("n", "epsilon")),
            vector.valid.eq(pool.o.valid | norm.o.valid),
            vector.payload.eq(norm.o.payload), norm.o.ready.eq(vector.ready), pool.o.ready.eq(vector.ready),
        ]  # fmt: skip
        with m.If(pool.o.valid):
            m.d.comb += vector.payload.sums.eq(pool.o.payload)
        return norm

    def _describe(self, m, fetch_a, fetch_b, feeder, pool):
        """Give each unit its part of the descriptor.

        Returns three bits, valid a cycle after the descriptor: it is a GEMM, it is another one that reads B, it swaps
        the operands.
        """
        job = self.i.payload
        a, b = fetch_a.walk.payload, fetch_b.walk.payload
        outer, reduction = range(N_OUTER), range(N_REDUCTION)
        config = self.config
        multiplies = job.mode.matches(*products(config), *[VectorMode.SCALE] * config.normalises)
        # A descriptor is shown when it has been valid for a cycle, so flags made from it alone can be registers.
        gemm = Signal(init=not config.pools)  # always 1 without a pool unit
        selects, swapped, dots = (Signal(name=name) for name in ("selects", "swapped", "dots"))
        m.d.sync += [
            gemm.eq((job.mode == VectorMode.GEMM) | (not config.pools)),
            selects.eq(job.mode == VectorMode.SELECT), swapped.eq(job.swap),
            dots.eq(multiplies & ~job.swap if config.normalises else multiplies),
        ]  # fmt: skip
        n_ones = Mux(job.n_values.any(), job.n_values, job.n_a) if config.convolves_channels else job.n_a
        m.d.comb += [
            a.new.eq(job.new_a), a.n_k.eq(job.n_k), a.ones.eq(job.ones), a.n_ones.eq(Mux(gemm, 1, n_ones)),
            a.repeat.eq(Mux(gemm & ~swapped, job.n_b, 1)),
            [a.n[i].eq(job[f"n{i}"]) for i in outer], [a.jump[i].eq(job[f"jump{i}"]) for i in outer],
            [a.k[i].eq(job[f"k{i}"]) for i in reduction], [a.kjump[i].eq(job[f"kjump{i}"]) for i in reduction],
            feeder.gemm.payload.first.eq(job.first), feeder.gemm.payload.last.eq(job.last),
            *described(pool, job),
        ]  # fmt: skip
        if config.drops:
            m.d.comb += pool.key.eq(self.key)
        # A walk is offered a cycle after its descriptor is shown, so B's, which is selected, can come from a register.
        chosen = Signal(b.shape(), reset_less=True)
        m.d.comb += b.eq(chosen)
        with m.If(gemm):
            m.d.sync += [
                chosen.n_k.eq(job.n_k), chosen.ones.eq(0), chosen.repeat.eq(Mux(swapped, job.n_a, 1)),
                [n.eq(1) for n in (*chosen.n, *chosen.k)],
                chosen.n[-1].eq(job.n_b), chosen.jump[-1].eq(job.b_stride),
                chosen.k[-1].eq(job.n_k), chosen.kjump[-1].eq(1),
            ]  # fmt: skip
        if config.adds_products:
            with m.Elif(dots):
                m.d.sync += [
                    chosen.n_k.eq(job.n_k), chosen.ones.eq(0), chosen.repeat.eq(1),
                    [n.eq(1) for n in (*list(chosen.n)[:-2], *chosen.k)],
                    chosen.n[-2].eq(job.n_b), chosen.jump[-2].eq(job.kjump0),
                    chosen.n[-1].eq(job.n_a), chosen.jump[-1].eq(job.b_stride),
                    chosen.k[-1].eq(job.n_k), chosen.kjump[-1].eq(1),
                ]  # fmt: skip
        if config.pools:
            with m.Else():  # SELECT reads B where it reads A
                m.d.sync += chosen.eq(a)
        m.d.sync += chosen.new.eq(job.new_b)
        if config.output_stationary:
            for walk, held in ((a, swapped), (b, ~swapped)):
                m.d.comb += [
                    walk.blocks.eq(gemm), walk.on_columns.eq(held & gemm),
                    walk.n_rows.eq(Mux(swapped, job.n_b, job.n_a)), walk.n_cols.eq(Mux(swapped, job.n_a, job.n_b)),
                ]  # fmt: skip
        return gemm, selects | dots, swapped

    def _dispatch(self, m, fetch_a, fetch_b, feeder, pool, norm, gemm, selects, swapped):
        """Show the descriptor to its units until each has taken it.

        Returns whether the consumer works on the descriptor shown, and the roles of the operands.
        """
        norms = Signal()  # it is batch norm's unit's
        if norm is not None:
            m.d.sync += norms.eq(self.i.payload.mode.matches(VectorMode.SCALE, VectorMode.TABLES))
        shown = Signal()
        m.d.sync += shown.eq(self.i.valid & ~self.i.ready)
        swap, vector, normed = Signal(), Signal(), Signal()
        same, leaves = Signal(), Signal()
        done = []  # from registers, as they lead to a long path
        here = Signal()
        for name, port, wanted in (("a", fetch_a.walk, Const(1)), ("b", fetch_b.walk, gemm | selects)):
            offered, taken = Signal(name=f"offered_{name}"), Signal(name=f"taken_{name}")
            m.d.comb += port.valid.eq(offered)
            done.append(taken | ~wanted)
            with m.If(shown & wanted & ~taken & (here | same)):
                m.d.sync += offered.eq(1)
            with m.If(port.valid & port.ready):
                m.d.sync += [offered.eq(0), taken.eq(1)]
            with m.If(self.i.ready):
                m.d.sync += taken.eq(0)

        start = Signal()
        new = shown & ~here
        idle = ~feeder.busy & ~pool.busy
        others = pool.job.valid
        if norm is not None:
            idle &= ~norm.busy
            m.d.comb += norm.job.valid.eq(new & norms & idle)
            others |= norm.job.valid
        m.d.comb += [
            same.eq(feeder.busy & gemm & (swapped == swap)),
            feeder.gemm.valid.eq(new & gemm & (idle | same)),
            pool.job.valid.eq(new & ~gemm & ~norms & idle),
            start.eq((feeder.gemm.valid & feeder.gemm.ready) | others),
            self.i.ready.eq(leaves),
        ]  # fmt: skip
        m.d.sync += leaves.eq(shown & here & done[0] & done[1] & ~leaves)
        with m.If(start):
            m.d.sync += [here.eq(1), swap.eq(swapped), vector.eq(~gemm), normed.eq(norms)]
        with m.If(self.i.ready):
            m.d.sync += here.eq(0)
        return here, swap, vector, normed

    def _route(self, m, fetch_a, fetch_b, feeder, pool, norm, swap, vector, normed):
        """Lead vectors of A and B to the stream, the stationary or the pool side, or to batch norm's unit."""
        crosses = delayed(m, swap, 1)  # for the data, a cycle later; each register has fewer loads
        m.d.comb += [
            pool.a.payload.eq(fetch_a.o.payload),
            pool.b.payload.eq(fetch_b.o.payload),
            feeder.stream.payload.eq(Mux(crosses, fetch_b.o.payload, fetch_a.o.payload)),
            feeder.stationary.payload.eq(Mux(crosses, fetch_a.o.payload, fetch_b.o.payload)),
        ]
        modes = [vector & ~normed, ~vector & ~swap, ~vector & swap]
        a_ports, b_ports = [pool.a, feeder.stream, feeder.stationary], [pool.b, feeder.stationary, feeder.stream]
        if norm is not None:
            m.d.comb += [norm.a.payload.eq(fetch_a.o.payload), norm.b.payload.eq(fetch_b.o.payload)]
            modes, a_ports, b_ports = [*modes, normed], [*a_ports, norm.a], [*b_ports, norm.b]
        for fetch, ports in ((fetch_a, a_ports), (fetch_b, b_ports)):
            for port, chosen in zip(ports, modes, strict=True):
                with m.If(chosen):
                    m.d.comb += [port.valid.eq(fetch.o.valid), fetch.o.ready.eq(port.ready)]
        if norm is not None:
            with m.If(vector & swap):  # A stands for B
                m.d.comb += [pool.b.payload.eq(fetch_a.o.payload), pool.b.valid.eq(fetch_a.o.valid)]

    def _count(self, m, fetch_a, fetch_b, feeder, here):
        m.d.comb += self.macs.eq(feeder.macs)
        with m.If(~feeder.busy):
            m.d.comb += self.stall_idle.eq(1)
        with m.Elif(feeder.active):
            m.d.comb += self.active.eq(1)
        with m.Elif(here & fetch_a.waiting):
            m.d.comb += self.stall_a.eq(1)
        with m.Elif(here & fetch_b.waiting):
            m.d.comb += self.stall_b.eq(1)
        with m.Elif(feeder.undrained):
            m.d.comb += self.stall_drain.eq(1)
        with m.Else():
            m.d.comb += self.stall_load.eq(1)
