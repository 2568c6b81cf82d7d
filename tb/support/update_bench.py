"""The update unit's benches: random commands, what they must do by docs/machine.md, and the memory they work on."""

from collections import deque
from dataclasses import dataclass, field, replace
from fractions import Fraction

from adagp.rtl.update.update import Update
from adagp.spec.errors import ErrorCode
from adagp.spec.presets import preset
from bench import simulate, source

__all__ = ["CONFIGS", "TINY", "UpdateBench"]

TINY = preset("tiny")
CONFIGS = {
    "tiny": TINY,
    "two lanes": replace(TINY, update_lanes=2, max_burst_beats=16),
    "paper": preset("paper"),
    "bytes": replace(TINY, operand_width=8, acc_width=32, port_width=128, update_lanes=4),
    "folded": replace(TINY, update_cycles=3),
    "folded bytes": replace(TINY, operand_width=8, acc_width=32, port_width=128, update_lanes=4, update_cycles=3),
}
GUARD = 8


def _align(x, s):
    limit = 2**55 - 1
    return max(-limit, min(limit, round(Fraction(x) * Fraction(2) ** max(-63, min(40, s)))))


def _half_even(x):
    return round(Fraction(x, 1 << GUARD))


def _step(t, width, g, hi, lo, v):
    """New hi, lo, v of a weight; what is tracked of v and w; saturations."""
    eg, ew, ev, ew2, ev2 = t["eg"], t["ew"], t["ev"], t["ew_next"], t["ev_next"]
    if t["dry"]:
        ew2, ev2 = ew, max(eg, ev)
    w = hi * 2**16 + lo
    total = (
        _align(t["mm"] * v, t["xm"] + ev - ev2 + GUARD)
        + _align(g, eg - ev2 + 16 + GUARD)
        + _align(t["md"] * w, t["xd"] + ew - ev2 + GUARD)
    )
    free_v = _half_even(total)
    new_v = max(-(2**31 - 1), min(2**31 - 1, free_v))
    free_w = _half_even(_align(w, ew - ew2 + GUARD) - _align(t["ml"] * new_v, t["xl"] + ev2 - ew2 + GUARD))
    limit = (2 ** (width - 1) - 1) * 2**16 + 0x7FFF
    new_w = max(-limit, min(limit, free_w))
    new_hi = (new_w + 0x8000) >> 16
    return (new_hi, new_w - new_hi * 2**16, new_v), (free_v, free_w), (new_v != free_v) + (new_w != free_w)


@dataclass
class _Memory:
    """Bytes behind a ReadClient and a WriteClient, with stalls, faults, and rules that it holds them to."""

    config: object
    rng: object
    stall: float = 0.3
    data: dict = field(default_factory=dict)
    written: set = field(default_factory=set)
    read_faults: set = field(default_factory=set)
    write_faults: int = 0
    reads: int = 0

    def peek(self, addr, size):
        raw = bytes(self.data.get(addr + n, 0xAA) for n in range(size))
        return int.from_bytes(raw, "little", signed=True)

    def poke(self, addr, size, value):
        self.data.update(enumerate(value.to_bytes(size, "little", signed=True), addr))

    def check(self, request):
        beats = request.length + 1
        assert request.addr % self.config.beat_bytes == 0
        assert beats <= self.config.max_burst_beats
        assert request.addr // 4096 == (request.addr + beats * self.config.beat_bytes - 1) // 4096

    async def serve_reads(self, ctx, client):
        beats, waiting = deque(), False
        while True:
            ctx.set(client.request.ready, self.rng.random() >= self.stall)
            if beats and not waiting and self.rng.random() >= self.stall:
                waiting = True
                addr = beats[0]
                word = self.peek(addr, self.config.beat_bytes) % (1 << self.config.port_width)
                ctx.set(client.beats.payload, {"data": word, "fault": addr in self.read_faults})
            ctx.set(client.beats.valid, waiting)
            taken, asked, ready, request = await self.edge(ctx, client.request, client.beats.ready)
            if asked and ready:
                self.check(request)
                beats.extend(request.addr + n * self.config.beat_bytes for n in range(request.length + 1))
            if waiting and taken:
                beats.popleft()
                self.reads += 1
                waiting = False

    async def edge(self, ctx, request, *others):
        _, _, *values = await ctx.tick().sample(*others, request.valid, request.ready, request.payload)
        return values

    async def serve_writes(self, ctx, client):
        while True:
            request = await self.take(ctx, client.request)
            self.check(request)
            for n in range(request.length + 1):
                beat = await self.take(ctx, client.beats)
                assert beat.strobe
                for byte in range(self.config.beat_bytes):
                    if beat.strobe >> byte & 1:
                        at = request.addr + n * self.config.beat_bytes + byte
                        assert at not in self.written
                        self.written.add(at)
                        self.data[at] = beat.data >> 8 * byte & 0xFF
            self.write_faults -= 1
            ctx.set(client.answer.payload, {"fault": self.write_faults == 0})
            ctx.set(client.answer.valid, 1)
            await ctx.tick()
            ctx.set(client.answer.valid, 0)

    async def take(self, ctx, port):
        while self.rng.random() < self.stall:
            await ctx.tick()
        ctx.set(port.ready, 1)
        valid = False
        while not valid:
            _, _, valid, payload = await ctx.tick().sample(port.valid, port.payload)
        ctx.set(port.ready, 0)
        return payload


class UpdateBench:
    """An update unit with its memory and tasks; runs them and keeps what comes out."""

    def __init__(self, config, rng, stall=0.3):
        self.config, self.rng = config, rng
        self.dut = Update(config)
        self.memory = _Memory(config, rng, stall)
        self.next_address = 0x1000 - 5 * config.beat_bytes  # so that arrays cross pages
        self.tasks, self.expected, self.results = [], [], []
        self.done = self.saturations = self.expected_saturations = self.cycles = 0
        self.faults = []
        self.regions = [(0, 0), (0, 1 << 20), (0, 0), (0, 0)]

    def array(self, count, size, values):
        start = self.next_address
        beat = self.config.beat_bytes
        self.next_address += (count * size // beat + 1 + self.rng.randrange(3)) * beat
        for n in range(count):
            self.memory.poke(start + n * size, size, values())
        return start

    def task(self, count, **fields):
        """Add a random command (``fields`` override) and what it should do."""
        rng, width = self.rng, self.config.operand_width
        limit = 2 ** (width - 1) - 1

        def some(most):
            return rng.choice(
                (rng.randint(-most, most), rng.randint(-9, 9), most, -most, 1 << (most.bit_length() // 2))
            )

        size = width // 8
        scale = rng.choice((-20, -6, 0, 3))
        t = {
            "index": rng.randrange(1 << 16), "dry": int(rng.random() < 0.25), "count": count,
            "a_addr": self.array(count, size, lambda: some(limit)),
            "b_addr": self.array(count, size, lambda: some(limit)),
            "c_addr": self.array(count, 2, lambda: some(0x7FFF)),
            "out_addr": self.array(count, 4, lambda: some(2**31 - 1)),
            "b_id": rng.randrange(self.config.n_tensors), "out_id": rng.randrange(self.config.n_tensors),
            "eg": scale + rng.randint(-3, 3), "ew": rng.randint(-12, -4), "ev": scale + rng.randint(-3, 3),
            "ml": rng.randrange(1 << 16), "xl": rng.randint(-30, -14), "mm": rng.randrange(1 << 16),
            "xm": rng.randint(-17, -14), "md": rng.randrange(1 << 16), "xd": rng.randint(-40, -14),
        }  # fmt: skip
        t["ew_next"] = t["ew"] + rng.randint(-2, 2)
        t["ev_next"] = t["ev"] + rng.randint(-2, 2)
        if rng.random() < 0.2:
            t.update(
                {name: rng.randint(-128, 127) for name in ("eg", "ew", "ev", "ew_next", "ev_next", "xl", "xm", "xd")}
            )
        t.update(fields)
        self.tasks.append(t)
        return t

    def expect(self, t):
        """Expected memory, results and counts after a command that runs."""
        width, memory = self.config.operand_width, self.memory
        size = width // 8
        tops = [0, 0]
        for n in range(t["count"]):
            places = [(t["a_addr"] + n * size, size), (t["b_addr"] + n * size, size)]
            places += [(t["c_addr"] + 2 * n, 2), (t["out_addr"] + 4 * n, 4)]
            new, free, saturations = _step(t, width, *(memory.peek(*place) for place in places))
            tops = [max(top, abs(x).bit_length()) for top, x in zip(tops, free, strict=True)]
            if not t["dry"]:
                self.expected += [(*place, value) for place, value in zip(places[1:], new, strict=True)]
                self.expected_saturations += saturations
        ew = t["ew"] if t["dry"] else t["ew_next"]
        ev = max(t["eg"], t["ev"]) if t["dry"] else t["ev_next"]
        return [
            (t["out_id"], int(tops[0] > 0), tops[0] + ev - 16),
            (t["b_id"], int(tops[1] > 0), tops[1] + ew - 16),
        ]

    async def watch(self, ctx):
        dut = self.dut
        for n, (start, end) in enumerate(self.regions):
            ctx.set(dut.regions[n], {"start": start, "end": end})
        signals = (
            dut.done,
            dut.result_valid,
            dut.result,
            dut.saturations,
            dut.fault,
            dut.fault_code,
            dut.fault_command,
        )
        async for _, _, done, valid, result, saturations, fault, code, index in ctx.tick().sample(*signals):
            self.cycles += 1
            self.done += done
            self.saturations += saturations
            if valid:
                self.results.append((result.id, result.nonzero, result.top))
            if fault:
                self.faults.append((ErrorCode(code), index))

    def run(self, ended, limit=100_000):
        async def feed(ctx):
            await source(ctx, self.dut.i, self.tasks, self.rng, self.memory.stall)
            while not ended():
                await ctx.tick()

        async def reads(ctx):
            await self.memory.serve_reads(ctx, self.dut.read)

        async def writes(ctx):
            await self.memory.serve_writes(ctx, self.dut.write)

        simulate(self.dut, feed, background=(reads, writes, self.watch, *self.background()), limit=limit)

    def background(self):
        """Further benches that need not end."""
        return ()
