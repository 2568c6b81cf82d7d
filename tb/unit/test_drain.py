"""Drain engine: random descriptors against plain integers, with models of accumulator and C around it."""

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import pytest
from adagp.rtl.drain import Drain
from adagp.spec.commands import CMode
from adagp.spec.descriptors import DRAIN
from adagp.spec.presets import preset
from bench import seeded, simulate, source

TINY = preset("tiny")
WIDE = replace(TINY, rows=7, cols=5, c_depth=512)
NARROW = replace(TINY, rows=2, cols=6, operand_width=8, acc_width=32)


def requantise(v, shift, width):
    limit = 2 ** (width - 1) - 1
    return max(-limit, min(limit, round(Fraction(v) / Fraction(2) ** shift)))


class Model:
    """Contents of both halves of everything, and what the engine should make of a descriptor."""

    def __init__(self, config, rng):
        self.config = config
        self.rng = rng
        self.acc = [[[self.sum() for _ in range(config.cols)] for _ in range(config.acc_depth)] for _ in range(2)]
        self.c = [[self.operand() for _ in range(config.c_elements)] for _ in range(2)]
        self.bias = [[self.sum() for _ in range(config.bias_elements)] for _ in range(2)]
        self.vectors = []
        self.results = []
        self.saturations = 0
        self.acc_half = 0
        self.written = 0

    def sum(self):
        width = self.rng.randrange(2, self.config.acc_width)
        return self.rng.choice((self.rng.randint(-(1 << width - 1), (1 << width - 1) - 1), 3 << (width // 2), 0))

    def operand(self):
        limit = (1 << (self.config.operand_width - 1)) - 1
        return self.rng.choice((self.rng.randint(-limit, limit), 0, limit, -limit, 1, -1))

    def descriptor(self):
        """Shapes and strides as the tile program makes them, everything else at random."""
        rng, config = self.rng, self.config
        vector = rng.random() < 0.4
        swap = 0 if vector else rng.randrange(2)
        lanes = config.rows if vector else config.cols
        n_stat, n_stream = rng.randint(1, 3 * lanes), rng.randint(1, 12)
        groups = -(-n_stat // lanes)
        d = dict.fromkeys((bits.name for bits in DRAIN), 0)
        d.update(
            vector=int(vector), half=rng.randrange(2), lane_step=1, lanes_last=n_stat - (groups - 1) * lanes, swap=swap,
            shift=rng.choice((rng.randint(-16, 63), rng.randint(0, config.acc_width - 8), 0)),
            relu=rng.randrange(2), c_mode=int(rng.choice(list(CMode))), shift_c=rng.randint(-31, 31),
            dry=int(rng.random() < 0.2), track=int(rng.random() < 0.8),
            id=rng.randrange(256), exponent=rng.randint(-256, 254),
        )  # fmt: skip
        if vector:
            pitch = n_stat + rng.randrange(5)
            d.update(n_out=n_stream, s_out=pitch, n_in=groups, s_in=lanes, last_inner=1)
            d.update(idx=rng.choice((0, pitch * n_stream + rng.randrange(9))))
        else:
            pitch = (n_stream if swap else n_stat) + rng.randrange(5)
            if swap:
                pitch += (1 - pitch) % config.banks
            along, across = (1, pitch) if swap else (pitch, 1)
            d.update(
                n_out=groups, s_out=lanes * across, n_in=n_stream, s_in=along, lane_step=across,
                ones=rng.randrange(2), shift_ones=rng.randint(-16, 63), bias=rng.randrange(2),
            )  # fmt: skip
        return d

    def run(self, d):
        """Apply a descriptor to the contents; appends to ``vectors`` and ``results``."""
        config = self.config
        lanes = config.rows if d["vector"] else config.cols
        before = list(self.c[d["half"]])
        top, nonzero, word = -10000, 0, 0
        for o in range(d["n_out"]):
            for i in range(d["n_in"]):
                tail = i == d["n_in"] - 1 if d["last_inner"] else o == d["n_out"] - 1
                xs = [self.sum() for _ in range(lanes)] if d["vector"] else self.acc[self.acc_half][word]
                word += 1
                if d["vector"]:
                    self.vectors.append(xs)
                    indices = [self.rng.randrange(100) for _ in range(lanes)]
                    if d["idx"]:
                        self.vectors.append(indices)
                for lane in range(d["lanes_last"] if tail else lanes):
                    address = o * d["s_out"] + i * d["s_in"] + lane * d["lane_step"]
                    is_ones = d["ones"] and (
                        o == d["n_out"] - 1 and lane == d["lanes_last"] - 1 if d["swap"] else i == d["n_in"] - 1
                    )
                    bias = self.bias[d["half"]][i if d["swap"] else o * config.cols + lane] if d["bias"] else 0
                    x = self.element(d, xs[lane], bias, before[address], d["shift_ones"] if is_ones else d["shift"])
                    top = max(top, abs(x).bit_length() + d["exponent"])
                    nonzero |= x != 0
                    limit = (1 << (config.operand_width - 1)) - 1
                    self.c[d["half"]][address] = max(-limit, min(limit, x))
                    self.saturations += abs(x) > limit and not d["dry"]
                    self.written += 1
                    if d["idx"]:
                        self.c[d["half"]][address + d["idx"]] = indices[lane]
                        self.written += 1
        if not d["vector"]:
            self.acc_half = 1 - self.acc_half
        if d["track"]:
            self.results.append((d["id"], int(nonzero), top if nonzero else None))

    def element(self, d, x, bias, c, shift):
        x = requantise(x, shift, self.config.acc_width) + bias
        if d["c_mode"] == CMode.ADD:
            x += requantise(c, d["shift_c"], self.config.acc_width)
        if (d["relu"] and x < 0) or (d["c_mode"] == CMode.MASK and c <= 0):
            x = 0
        return x


class Surroundings:
    """Benches that stand for accumulator, C scratchpad, tokens and listeners of the engine."""

    def __init__(self, dut, config, rng, acc, c, generous=False):
        self.dut, self.config, self.rng, self.acc, self.c = dut, config, rng, acc, c
        self.token_rate = 1 if generous else 0.2
        self.tokens = {"acc_full": 0, "c_ready": 0}
        self.needed = []
        self.results = []
        self.saturations = self.written = self.drained = self.acc_freed = self.cycles = 0

    async def run(self, ctx):
        dut, banks = self.dut, self.config.banks
        pipe = [[0] * banks] * (dut.READ_STAGES - 1)
        ports = (dut.acc, dut.c_read, dut.c_write)
        signals = [dut.acc_free, dut.drained, dut.result_valid, dut.result, dut.saturations]
        signals += [getattr(dut, name).take for name in self.tokens]
        while True:
            self.give(ctx)
            acc, read, write, *others = await self.sampled(ctx, ports, signals)
            self.cycles += 1
            if acc.en:
                ctx.set(dut.acc.data, self.acc[acc.half][acc.addr])
            if read.en:
                pipe.append([self.c_at(read, lane) for lane in range(banks)])
                ctx.set(dut.c_read.data, pipe.pop(0))
            for lane in range(banks):
                if write.mask >> lane & 1:
                    half, address = self.address(write, lane)
                    self.c[half][address] = write.data[lane]
                    self.written += 1
            self.note(others)

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


@pytest.mark.parametrize(("config", "count"), [(TINY, 30), (WIDE, 30), (NARROW, 30), (preset("paper"), 5)])
def test_random_descriptors(config, count):
    rng = seeded(count)
    dut = Drain(config)
    model = Model(config, rng)
    around = Surroundings(dut, config, rng, model.acc, [list(half) for half in model.c])
    descriptors = [model.descriptor() for _ in range(count)]
    for d in descriptors:
        model.run(d)
        around.needed.append({"acc_full": 1 - d["vector"], "c_ready": 1})

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
    assert around.acc_freed == sum(1 - d["vector"] for d in descriptors)
    assert around.written == model.written > 0
    assert around.drained == count > 0


@pytest.mark.parametrize("vector", [0, 1])
def test_throughput(vector):
    """A vector per cycle, and the overhead that the engine says it has."""
    rng = seeded(2)
    dut = Drain(TINY)
    model = Model(TINY, rng)
    around = Surroundings(dut, TINY, rng, model.acc, model.c, generous=True)
    d = dict.fromkeys((bits.name for bits in DRAIN), 0)
    d.update(vector=vector, n_out=8, s_out=20, n_in=5, s_in=4, lane_step=1, lanes_last=4)
    count = 4
    around.needed = [{"acc_full": 1 - vector, "c_ready": 1} for _ in range(count)]

    async def feed(ctx):
        await source(ctx, dut.i, [d] * count, rng, stall=0)
        while around.drained < count:
            await ctx.tick()

    async def stream(ctx):
        await source(ctx, dut.vector, [[1] * TINY.rows] * 40 * count * vector, rng, stall=0)

    async def surround(ctx):
        await around.run(ctx)

    simulate(dut, feed, stream, background=(surround,))
    assert around.cycles - 1 == count * (40 + dut.OVERHEAD)
    assert around.written == count * 40 * 4 > 0
