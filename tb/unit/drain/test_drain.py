"""Drain engine: random descriptors against plain integers, with models of accumulator and C around it."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from adagp.rtl.drain.drain import Drain
from adagp.rtl.lib.interfaces import AccRead
from adagp.rtl.memory.scratchpad import PingPong
from adagp.spec.microcode.descriptors import DRAIN
from adagp.spec.presets import preset
from bench import seeded, simulate, source
from drain_jobs import DrainModel

TINY = preset("tiny")
WIDE = replace(TINY, rows=7, cols=5, c_depth=512)
LOW = replace(TINY, variant="low", n_filters=40)
LOW_WIDE = replace(WIDE, variant="low", n_filters=25, cols=3, rows=5)
CLAMPS = replace(LOW, clamps=True)
CLAMPS_NARROW = replace(TINY, rows=2, cols=6, operand_width=8, acc_width=32, clamps=True)
NORM = replace(TINY, batch_norm=True)
NARROW = replace(TINY, rows=2, cols=6, operand_width=8, acc_width=32)
FOLDED = replace(LOW_WIDE, epilogue_lanes=2)
FOLDED_CLAMPS = replace(WIDE, clamps=True, epilogue_lanes=3)
FOLDED_NORM = replace(LOW_WIDE, batch_norm=True, rows=6, epilogue_lanes=1)


class Surroundings:
    """Benches that stand for accumulator, C scratchpad, tokens and listeners of the engine."""

    def __init__(self, dut, config, rng, acc, c, generous=False):
        self.dut, self.config, self.rng, self.acc, self.c = dut, config, rng, acc, c
        self.token_rate = 1 if generous else 0.2
        self.tokens = {"acc_full": 0, "c_ready": 0}
        self.needed = []
        self.due = []  # operands written by the end of each descriptor
        self.results = []
        self.saturations = self.written = self.drained = self.acc_freed = self.cycles = 0

    async def run(self, ctx):
        dut, banks = self.dut, self.config.banks
        pipe = [[0] * banks] * (PingPong.READ_LATENCY - 1)
        sums = [[self.acc[half][0] for half in range(2)]] * (AccRead.LATENCY - 1)
        moves = None
        ports = (dut.acc, dut.c_read, dut.c_write)
        signals = [dut.acc_free, dut.drained, dut.result_valid, dut.result, dut.saturations]
        signals += [getattr(dut, name).take for name in self.tokens]
        while True:
            self.give(ctx)
            acc, read, write, *others = await self.sampled(ctx, ports, signals)
            self.cycles += 1
            assert moves in (None, acc.en)
            moves = acc.next_en
            if acc.en:  # without ``valid`` anything comes
                at = acc.addr if acc.valid else self.rng.randrange(len(self.acc[0]))
                sums.append([self.acc[half][at] for half in range(2)])
                ctx.set(dut.acc.data, sums.pop(0))
            if read.en:
                turn = read.rot if self.config.folds(self.config.result_lanes) > 1 else 0  # then in the banks' order
                pipe.append([self.c_at(read, (place - turn) % banks) for place in range(banks)])
                ctx.set(dut.c_read.data, pipe.pop(0))
            self.note(others)
            for lane in range(banks):
                if write.mask >> lane & 1:
                    half, address = self.address(write, lane)
                    self.c[half][address] = write.data[lane]
                    self.written += 1

    async def sampled(self, ctx, ports, signals):
        """Ports as namespaces, then signals, with their values just before the next clock edge."""
        members = [getattr(port, name) for port in ports for name in port.signature.members]
        _, _, *values = await ctx.tick().sample(*members, *signals)
        values = iter(values)
        spaces = [SimpleNamespace(**{name: next(values) for name in port.signature.members}) for port in ports]
        return [*spaces, *values]

    def address(self, port, lane):
        half, word = divmod(port.addr[lane], self.config.c_depth)
        return half, word * self.config.banks + (port.rot + lane) % self.config.banks

    def c_at(self, port, lane):
        half, address = self.address(port, lane)
        return self.c[half][address]

    def give(self, ctx):
        for name in self.tokens:
            if self.needed and self.needed[0][name] > 0 and self.rng.random() < self.token_rate:
                self.needed[0][name] -= 1
                self.tokens[name] += 1
            ctx.set(getattr(self.dut, name).avail, self.tokens[name] > 0)

    def note(self, others):
        acc_free, drained, result_valid, result, saturations, *takes = others
        for name, take in zip(self.tokens, takes, strict=True):
            self.tokens[name] -= take
            assert self.tokens[name] >= 0
        self.acc_freed += acc_free
        self.saturations += saturations
        if result_valid:
            self.results.append((result.id, result.nonzero, result.top if result.nonzero else None))
        if drained:
            self.drained += 1
            assert not any(self.needed.pop(0).values())
            assert self.written == self.due.pop(0), "announced before it can be read"


async def fill_biases(ctx, dut, model, rng):
    for half in (1, 0):
        for n, value in enumerate(model.bias[half]):
            ctx.set(dut.bias_valid, 1)
            ctx.set(dut.bias_half, half)
            ctx.set(dut.bias_start, n == 0)
            ctx.set(dut.bias_data, value)
            await ctx.tick()
            ctx.set(dut.bias_valid, 0)
            if rng.random() < 0.1:
                await ctx.tick()


@pytest.mark.parametrize(
    ("config", "count"),
    [
        (TINY, 30), (WIDE, 30), (NARROW, 30), (LOW, 40), (LOW_WIDE, 40), (preset("paper"), 5),
        (CLAMPS, 80), (CLAMPS_NARROW, 80), (NORM, 80),
        (FOLDED, 40), (FOLDED_CLAMPS, 80), (FOLDED_NORM, 80),
    ],
)  # fmt: skip
def test_random_descriptors(config, count):
    rng = seeded(count)
    dut = Drain(config)
    model = DrainModel(config, rng)
    around = Surroundings(dut, config, rng, model.acc, [list(half) for half in model.c])
    descriptors = [model.descriptor() for _ in range(count)]
    for d in descriptors:
        model.run(d)
        around.needed.append({"acc_full": int(not (d["vector"] or d["zeros"])), "c_ready": 1})
        around.due.append(model.written)

    async def feed(ctx):
        await fill_biases(ctx, dut, model, rng)
        await source(ctx, dut.i, descriptors, rng)
        while around.drained < count:
            await ctx.tick()

    async def stream(ctx):
        await source(ctx, dut.vector, model.vectors, rng)

    async def surround(ctx):
        await around.run(ctx)

    simulate(dut, feed, stream, background=(surround,))
    assert around.c == model.c
    assert around.results == model.results
    assert around.saturations == model.saturations > 0
    assert around.acc_freed == sum(not (d["vector"] or d["zeros"]) for d in descriptors)
    assert any(d["zeros"] for d in descriptors) or count < 30
    assert around.written == model.written > 0
    assert around.drained == count > 0
    if config.clamps:
        assert sum(bool(d["bound"] and not d["slope"]) for d in descriptors) > 5
        assert sum(d["slope"] > 0 for d in descriptors) > 5
    for vector in range(2):
        assert any(d["reorganise"] and d["vector"] == vector for d in descriptors) == config.predicts
    assert any(d["scaled"] and d["track"] for d in descriptors) == config.batch_norm


@pytest.mark.parametrize(
    ("vector", "zeros", "lanes", "config", "cycles"),
    [
        (0, 0, 0, TINY, 40), (0, 1, 0, TINY, 40), (0, 0, 1, TINY, 145), (0, 0, 2, LOW, 75),
        (1, 0, 0, TINY, 40 + 39), (1, 0, 2, TINY, 75 + 39), (1, 0, 0, NORM, 40), (1, 0, 2, NORM, 75),
    ],
)  # fmt: skip
def test_throughput(vector, zeros, lanes, config, cycles):
    """A vector or a group of its lanes per cycle (of short vectors fewer), and the overhead that the engine says.

    Pooled vectors come through a register slice, which takes the next one in the cycle after one has gone; those of a
    machine with norms through a skid.
    """
    rng = seeded(2)
    config = replace(config, epilogue_lanes=lanes)
    dut = Drain(config)
    model = DrainModel(config, rng)
    around = Surroundings(dut, config, rng, model.acc, model.c, generous=True)
    d = dict.fromkeys((bits.name for bits in DRAIN), 0)
    last = 1 if lanes else 4  # lanes of the last five vectors
    d.update(vector=vector, zeros=zeros, n_out=8, s_out=20, n_in=5, s_in=4, lane_step=1, lanes_last=last)
    count = 4
    results = 35 * TINY.rows + 5 * last
    around.needed = [{"acc_full": 1 - vector - zeros, "c_ready": 1} for _ in range(count)]
    around.due = [results * (n + 1) for n in range(count)]

    async def feed(ctx):
        await source(ctx, dut.i, [d] * count, rng, stall=0)
        while around.drained < count:
            await ctx.tick()

    async def stream(ctx):
        one = [1] * config.rows
        if config.normalises:
            one = {"sums": one, "shift": [0] * config.rows, "plain": 0}
        await source(ctx, dut.vector, [one] * 40 * count * vector, rng, stall=0)

    async def surround(ctx):
        await around.run(ctx)

    simulate(dut, feed, stream, background=(surround,))
    assert around.cycles - 1 == count * (cycles + dut.OVERHEAD)
    assert around.written == count * results > 0
