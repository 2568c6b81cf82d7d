"""Store against a Python scratchpad and a Python memory: random descriptors, alignments and stalls."""

import pytest
from adagp.rtl.dma.store import Store
from adagp.rtl.lib.interfaces import PadWrite
from adagp.rtl.memory.scratchpad import PingPong
from adagp.spec.errors import ErrorCode
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from bench import seeded, simulate, source
from dma_bench import CONFIGS, check_burst, loops, place, token

DRAM_BYTES = 16384
LEVELS = 3
EVERYWHERE = ((0, DRAM_BYTES),)


class Harness(wiring.Component):
    """Store with a C scratchpad that a bench can write."""

    def __init__(self, config):
        self.config = config
        self.store = Store(config)
        super().__init__({"write": In(PadWrite(config, 2 * config.c_depth))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.store = self.store
        m.submodules.pad = pad = PingPong(self.config, self.config.c_depth)
        wiring.connect(m, self.store.c, pad.read1)
        wiring.connect(m, wiring.flipped(self.write), pad.write0)
        return m


def random_store(rng, config):
    """Fields of a random STORE, without tokens."""
    unit = config.operand_bytes
    while True:
        short = rng.random() < 0.5
        d = {f"n{level}": rng.choice((0, 1, 1, 2, 3, 7)) for level in range(LEVELS)}
        d["length"] = rng.randint(1, 9) if short else rng.randint(0, 70)
        counts = [max(1, d[f"n{level}"]) for level in range(LEVELS)]
        strides = [rng.randint(-30, 30) for _ in range(LEVELS)]
        jumps = [rng.randint(-300, 300) * unit for _ in range(LEVELS)]
        tail = max(0, d["length"] - 1)
        fits = place(rng, d, "sp", strides, counts, tail, config.c_elements)
        if fits and place(rng, d, "dram", jumps, counts, tail * unit + unit - 1, DRAM_BYTES):
            break
    d["dram"] -= d["dram"] % unit
    for level in range(LEVELS):
        d[f"s{level}"], d[f"d{level}"] = strides[level], jumps[level]
    return {**d, "command": rng.randrange(1 << 16), "dry": rng.random() < 0.1}


def _program(rng, config, count):
    program, half, begun = [], 0, False
    for _ in range(count):
        d = random_store(rng, config)
        d.update(half=half, begin=not begun, close=rng.random() < 0.6)
        d["done"] = d["close"] and rng.random() < 0.5
        begun = not d["close"]
        if d["close"]:
            half ^= 1
        program.append(d)
    program[-1].update(close=True, done=True)
    return program


def _apply(config, dram, pad, d):
    """Do what ``d`` asks to the byte array ``dram``, in hardware's order."""
    unit = config.operand_bytes
    if d.get("dry"):
        return
    for address, element in loops(d, LEVELS):
        for e in range(d["length"]):
            value = pad[d["half"]][element + e]
            dram[address + e * unit : address + (e + 1) * unit] = value.to_bytes(unit, "little", signed=True)


def _traffic(config, d):
    """Beats and bursts of descriptor ``d``; bursts stay in aligned blocks of the longest burst's size."""
    n_beats = n_bursts = 0
    if not d.get("dry") and d["length"]:
        for address, _ in loops(d, LEVELS):
            first = address // config.beat_bytes
            last = (address + d["length"] * config.operand_bytes - 1) // config.beat_bytes
            n_beats += last - first + 1
            n_bursts += last // config.max_burst_beats - first // config.max_burst_beats + 1
    return n_beats, n_bursts


class Memory:
    """The other end of a WriteClient: a burst, its beats, an answer some time later; all with pauses."""

    def __init__(self, config, client, dram, rng, stall, faulty=()):
        self.config, self.client, self.dram, self.rng, self.stall = config, client, dram, rng, stall
        self.faulty, self.bursts, self.n_bursts, self.unanswered = set(faulty), [], 0, []
        self.beat_cycles, self.n_answers = [], 0

    async def take(self, ctx):
        port = self.client.request
        while True:
            ready = self.rng.random() >= self.stall and len(self.unanswered) + len(self.bursts) < 15
            ctx.set(port.ready, ready)
            _, _, valid, addr, length = await ctx.tick().sample(port.valid, port.payload.addr, port.payload.length)
            if valid and ready:
                check_burst(self.config, addr, length)
                self.bursts.append([addr, length + 1])
                self.n_bursts += 1

    async def write(self, ctx):
        port, n, cycle = self.client.beats, self.config.beat_bytes, 0
        while True:
            ready = bool(self.bursts) and self.rng.random() >= self.stall
            ctx.set(port.ready, ready)
            _, _, valid, data, strobe = await ctx.tick().sample(port.valid, port.payload.data, port.payload.strobe)
            cycle += 1
            if not (valid and ready):
                continue
            assert strobe
            self.beat_cycles.append(cycle)
            burst = self.bursts[0]
            for i, byte in enumerate(data.to_bytes(n, "little")):
                if strobe >> i & 1:
                    self.dram[burst[0] + i] = byte
            first = burst[0] in self.faulty
            burst[0] += n
            burst[1] -= 1
            if burst[1] == 0:
                self.unanswered.append(first)
                self.bursts.pop(0)

    async def answer(self, ctx):
        port = self.client.answer
        while True:
            go = bool(self.unanswered) and (not self.stall or self.rng.random() < 0.2)
            ctx.set(port.valid, go)
            if go:
                ctx.set(port.payload.fault, self.unanswered.pop(0))
            await ctx.tick()
            self.n_answers += go


async def _load(ctx, harness, config, pad):
    """Write ``pad`` (two lists) into the C scratchpad."""
    port = harness.write
    ctx.set(port.mask, -1)
    for half in range(2):
        for word in range(config.c_depth):
            ctx.set(port.addr, [half * config.c_depth + word] * config.banks)
            ctx.set(port.data, pad[half][word * config.banks : (word + 1) * config.banks])
            await ctx.tick()
    ctx.set(port.mask, 0)
    await ctx.tick()


def _run(config, program, rng, stall, regions=EVERYWHERE, faulty=(), cycles_after=0):
    """Run ``program``; returns memory before and after, the C scratchpad, and what was observed.

    With ``cycles_after`` the last descriptor isn't expected to be taken, and the run ends after so many cycles.
    """
    harness = Harness(config)
    dut = harness.store
    limit = 1 << (config.operand_width - 1)
    pad = [[rng.randrange(-limit, limit) for _ in range(config.c_elements)] for _ in range(2)]
    before = rng.randbytes(DRAM_BYTES)
    memory = Memory(config, dut.client, bytearray(before), rng, stall, faulty)
    faults, done, freed, ended = [], [], [], []
    dones = sum(d.get("done", 0) for d in program)

    async def watch(ctx):
        signals = (dut.fault, dut.fault_code, dut.fault_command, dut.main_done, dut.c_free)
        async for _, _, fault, code, command, main_done, c_free in ctx.tick().sample(*signals):
            if fault:
                faults.append((code, command))  # for good, if it is a region
            if main_done:
                done.append(memory.n_answers)
            if c_free:
                freed.append(len(memory.beat_cycles))

    async def drive(ctx):
        for i, (start, end) in enumerate(regions):
            ctx.set(dut.regions[i], {"start": start, "end": end})
        await _load(ctx, harness, config, pad)
        ended.append(0)
        if not cycles_after:
            await source(ctx, dut.i, program, rng, stall)
            return
        await source(ctx, dut.i, program[:-1], rng, stall)
        ctx.set(dut.i.payload, program[-1])  # offered, but not waited for
        ctx.set(dut.i.valid, 1)

    async def finish(ctx):
        while len(done) < dones and not cycles_after:
            await ctx.tick()
        await ctx.tick().repeat(max(20, cycles_after))

    takes = sum(d.get("begin", 0) for d in program)
    background = [memory.take, memory.write, memory.answer, watch]
    if cycles_after:
        simulate(harness, finish, background=[*background, drive, token(dut.drained, rng, takes)])
    else:
        simulate(harness, finish, drive, token(dut.drained, rng, takes), background=background)
    return before, memory, pad, faults, done, freed


@pytest.mark.parametrize("stall", [0.0, 0.4])
@pytest.mark.parametrize("name", CONFIGS)
def test_random_descriptors(name, stall):
    config, rng = CONFIGS[name], seeded(8)
    program = _program(rng, config, 25)
    before, memory, pad, faults, done, freed = _run(config, program, rng, stall)
    expected, n_beats, n_bursts = bytearray(before), 0, 0
    for d in program:
        _apply(config, expected, pad, d)
        beats, bursts = _traffic(config, d)
        n_beats, n_bursts = n_beats + beats, n_bursts + bursts
        if d["close"]:
            assert freed.pop(0) >= n_beats
        if d["done"]:
            assert done.pop(0) >= n_bursts
    assert memory.dram == expected != before
    assert len(memory.beat_cycles) == n_beats > 0
    assert memory.n_answers == memory.n_bursts == n_bursts > 0
    assert not faults and not freed and not done


def _segments(config, n, length, **fields):
    """A STORE of ``n`` segments of ``length`` operands, a tile of its own."""
    d = {
        "n0": 1, "n1": n, "n2": 1, "d1": length * config.operand_bytes, "s1": length, "length": length,
        "dram": 0, "sp": 0,
    }  # fmt: skip
    return {**d, "half": 0, "begin": 1, "close": 1, "done": 1, "command": 5, "dry": 0, **fields}


@pytest.mark.parametrize(("name", "beats"), [("tiny", 1), ("tiny", 3), ("tiny", 40), ("port128", 2)])
def test_a_beat_per_cycle(name, beats):
    """Without stalls, beats follow each other from the first to the last, also of short segments.

    With a predictor memory on chip these have two beats or more.
    """
    config, rng = CONFIGS[name], seeded(9)
    n = 120 // beats
    program = [_segments(config, n, beats * config.beat_elements, s1=0)]
    _, memory, *_ = _run(config, program, rng, 0.0)
    assert len(memory.beat_cycles) == 120
    assert memory.beat_cycles[-1] - memory.beat_cycles[0] == 119


@pytest.mark.parametrize("stall", [0.0, 0.3])
@pytest.mark.parametrize("edge", ["start", "end", "gap"])
def test_a_write_outside_the_regions_is_not_made(edge, stall):
    """Two descriptors in a region to the byte, then one that is an operand beyond it, then a good one."""
    config, rng = CONFIGS["tiny"], seeded(10)
    unit, start = config.operand_bytes, 1000
    size = 37 * unit
    regions = {
        "start": [(0, 8), (start, start + size)],
        "end": [(start, start + size), (start + 4 * size, start + 5 * size)],
        "gap": [(start, start + size), (start + size + unit, start + 2 * size)],
    }[edge]
    bad = start - unit if edge == "start" else start + unit
    good = {"n": 1, "length": 37, "dram": start}
    program = [
        _segments(config, **good, command=1),
        _segments(config, **good, command=2, half=1),
        _segments(config, **{**good, "dram": bad}, command=3),
        _segments(config, **good, command=4, half=1),
    ]
    before, memory, pad, faults, done, freed = _run(config, program, rng, stall, regions, cycles_after=800)
    assert len(faults) > 300 and set(faults) == {(ErrorCode.WRITE_REGION, 3)}
    expected = bytearray(before)
    for d in program[:2]:
        _apply(config, expected, pad, d)
    assert len(done) == len(freed) == 2
    if edge != "start":  # the first burst of the third is inside, the second is not
        whole, block = bytearray(expected), config.max_burst_beats * config.beat_bytes
        _apply(config, whole, pad, program[2])
        cut = -(-bad // block) * block
        expected[:cut] = whole[:cut]
        assert bad < cut < bad + size
    assert memory.dram == expected
    assert not memory.bursts and memory.n_bursts == memory.n_answers > 0


def test_refused_writes_are_reported_with_their_command():
    config, rng = CONFIGS["tiny"], seeded(11)
    burst = config.max_burst_beats * config.beat_bytes
    length = 4 * config.beat_elements
    program = [_segments(config, 1, length, command=10 + i, dram=i * burst, half=i % 2) for i in range(4)]
    last = burst + 3 * config.beat_bytes  # faults are looked up by a burst's last beat
    _, _, _, faults, done, _ = _run(config, program, rng, 0.0, faulty=(last,))
    assert faults == [(ErrorCode.WRITE_FAULT, 11)]
    assert len(done) == 4
