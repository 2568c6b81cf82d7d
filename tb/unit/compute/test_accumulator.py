"""Accumulator: sweeps over one half while the other is read, at the shortest distance allowed."""

import pytest
from adagp.rtl.compute.accumulator import Accumulator
from adagp.spec.presets import PRESETS
from bench import seeded, simulate

N_SWEEPS = 3
READ_MOVES = 3


class Reader:
    """Asks for words of the accumulator; its pipeline moves now and then, and each word must come after three moves."""

    def __init__(self, dut, rng):
        self.dut, self.rng = dut, rng
        self.asked = [None] * READ_MOVES  # half and word
        self.seen = 0

    async def ask(self, ctx, half, addr, word):
        """Ask for ``word``, or for nothing if that is None, until the pipeline has moved."""
        port = self.dut.read
        ctx.set(port.valid, word is not None)
        ctx.set(port.half, half)
        ctx.set(port.addr, addr)
        self.asked.append(None if word is None else (half, word))
        moves = False
        while not moves:
            moves, soon = ctx.get(port.en), self.rng.random() < 0.6
            here, coming = self.asked[-1 - READ_MOVES], self.asked[-READ_MOVES:]
            if here is not None:
                assert list(ctx.get(port.data)[here[0]]) == here[1]
                self.seen += bool(moves)
            assert ctx.get(self.dut.reading) == any(word is not None for word in coming)
            ctx.set(port.next_en, soon)
            await ctx.tick()
            ctx.set(port.en, soon)


@pytest.mark.parametrize("name", ["tiny", "paper"])
def test_sweeps(name):
    config = PRESETS[name]
    dut = Accumulator(config)
    rng = seeded(4)
    bound = 1 << (config.psum_width - 1)
    lengths = [1, 2, 5, 17]
    wanted = []
    for length in lengths:
        rows = [
            [[rng.randrange(-bound, bound) for _ in range(config.cols)] for _ in range(length)] for _ in range(N_SWEEPS)
        ]
        wanted.append(rows)
    finished = []
    reader = Reader(dut, rng)

    late = [None]

    async def cycle(ctx, psums=None):
        """A cycle with the tag of a row, which comes two cycles later."""
        late.append(psums)
        await ctx.tick()
        row = late.pop(0)
        if row is not None:
            ctx.set(dut.psum, row)

    async def add(ctx):
        for half, sweeps in enumerate(wanted):
            while half >= len(read) + 2:  # both halves are full
                await cycle(ctx)
            age = [dut.latency] * lengths[half]  # cycles since each word was last added to
            for number, rows in enumerate(sweeps):
                for index, psums in enumerate(rows):
                    while age[index] < dut.latency or rng.random() < 0.2:
                        await cycle(ctx)
                        age = [cycles + 1 for cycles in age]
                    end = index == len(rows) - 1
                    ctx.set(dut.tag, {
                        "valid": 1, "half": half % 2, "overwrite": number == 0, "end_sweep": end,
                        "full": end and number == N_SWEEPS - 1,
                    })  # fmt: skip
                    await cycle(ctx, psums)
                    ctx.set(dut.tag, {"valid": 0, "full": 1, "end_sweep": 1, "half": rng.getrandbits(1)})
                    age[index] = 0
                    age = [cycles + 1 for cycles in age]
        await cycle(ctx)

    async def watch(ctx):
        while len(finished) < len(wanted):
            await ctx.tick().until(dut.full)
            finished.append(len(finished))

    read = []

    async def drain(ctx):
        for half, sweeps in enumerate(wanted):
            while len(finished) <= half:
                await reader.ask(ctx, half % 2, 0, None)
            for index in range(lengths[half]):
                word = [sum(lane) for lane in zip(*(s[index] for s in sweeps), strict=True)]
                await reader.ask(ctx, half % 2, index, word)
            for _ in range(READ_MOVES + 1):
                await reader.ask(ctx, half % 2, 0, None)
            read.append(half)

    simulate(dut, add, watch, drain, limit=5000)
    assert reader.seen == sum(lengths) > 0


def test_halves_in_turn():
    """Reads of both halves follow one another: each word comes from its own half, three moves after its request."""
    config = PRESETS["tiny"]
    dut = Accumulator(config)
    rng = seeded(5)
    words = [[[rng.randrange(-99, 99) for _ in range(config.cols)] for _ in range(8)] for _ in range(2)]
    reader = Reader(dut, rng)

    async def bench(ctx):
        for half, rows in enumerate(words):
            for index, row in enumerate(rows):
                ctx.set(dut.tag, {"valid": 1, "half": half, "overwrite": 1, "end_sweep": index == 7, "full": 0})
                await ctx.tick()
                ctx.set(dut.tag, {"valid": 0})
                await ctx.tick()
                ctx.set(dut.psum, row)
        await ctx.tick().repeat(dut.latency + 1)
        for _ in range(60):
            half, addr = rng.getrandbits(1), rng.randrange(8)
            await reader.ask(ctx, half, addr, words[half][addr] if rng.random() < 0.8 else None)

    simulate(dut, bench)
    assert reader.seen > 30
