"""A master before the predictor memory and an AXI memory behind it, for its unit benches."""

from collections import deque
from dataclasses import replace

from adagp.rtl.memory.axi import OUTSTANDING
from adagp.rtl.memory.predictor_memory import PredictorMemory
from adagp.spec.presets import preset
from bench import seeded, simulate
from port_memory import IDS, SLVERR, PortMemory, Steady

__all__ = ["Harness", "build"]

LIMIT = 10_000
PAGE = 4096
R = ("rvalid", "rready", "rid", "rdata", "rlast", "rresp")
B = ("bvalid", "bready", "bid", "bresp")


def build(name):
    config = replace(preset(name), variant="efficient")
    return config, 3 * config.predictor_window, PredictorMemory(config)


class Harness:
    """A device, what it is asked, and models of what is on its two sides."""

    def __init__(self, name, stall, data_first=False, windowed=True):
        self.config, self.window, self.dut = build(name)
        self.rng, self.stall, self.windowed = seeded(21), stall, windowed
        self.port = PortMemory(
            self.dut.o_read, self.dut.o_write, self.rng, stall, data_first, self.word, self.faulty, self.inside
        )
        self.memory = {}  # words of both sides, by address
        self.busy = []  # (addresses, write) of bursts under way
        self.counted = {"read_beats": 0, "write_bytes": 0, "moved": 0}
        self.expected = dict(self.counted)
        self.seen = {(side, kind): 0 for side in (0, 1) for kind in ("read", "write")}
        self.alternations = 0

    def pause(self):
        return self.rng.random() < self.stall

    def inside(self, address):
        return self.windowed and self.window <= address < self.window + self.config.predictor_bytes

    def word(self, address):
        return self.memory.setdefault(
            address, 0 if self.inside(address) else (address * 0x9E3779B97F4A7C15) % (1 << 64)
        )

    def faulty(self, address):
        return not self.inside(address) and address // self.config.beat_bytes % 11 == 3

    def burst(self):
        """Beat addresses within a page: often of the window, and often just before or behind it."""
        size, pages = self.config.beat_bytes, self.config.predictor_bytes // PAGE
        last = self.window // PAGE + pages - 1
        page = self.rng.choice((self.window // PAGE, self.window // PAGE - 1, last, last + 1, last - 1, 0, 5 * last))
        length = self.rng.choice((1, 1, 2, 3, 8))
        first = self.rng.choice((0, PAGE // size - length, self.rng.randrange(12)))
        return [page * PAGE + (first + i) * size for i in range(length)]

    def claim(self, number, addresses, write, before):
        """Enter a burst, if it wouldn't race one under way; notes whether an id changes sides."""
        clash = any(set(addresses) & other and (write or writes) for other, writes in self.busy)
        if clash or sum(writes == write for _, writes in self.busy) == OUTSTANDING:
            return None
        entry = (set(addresses), write)
        self.busy.append(entry)
        side = self.inside(addresses[0])
        self.alternations += before.get(number, side) != side
        before[number] = side
        self.seen[side, "write" if write else "read"] += 1
        return entry

    async def offer(self, ctx, axi, prefix, number, addresses):
        """Show an address until it is taken."""
        values = {"valid": 1, "id": number, "addr": addresses[0], "len": len(addresses) - 1}
        for name, value in values.items():
            ctx.set(getattr(axi, prefix + name), value)
        await ctx.tick().until(getattr(axi, prefix + "ready"))
        ctx.set(getattr(axi, prefix + "valid"), 0)

    # --- the master -------------------------------------------------------------------------------

    def reader(self, n_bursts):
        axi, due, before = self.dut.i_read, [deque() for _ in range(IDS)], {}

        async def ask(ctx):
            ctx.set(self.dut.window, self.window if self.windowed else 0)
            await ctx.tick().repeat(2)
            asked = 0
            while asked < n_bursts:
                number, addresses = self.rng.randrange(IDS), self.burst()
                if self.pause() or not (entry := self.claim(number, addresses, False, before)):
                    await ctx.tick()
                    continue
                due[number].append((deque(addresses), entry))
                asked += 1
                await self.offer(ctx, axi, "ar", number, addresses)

        async def receive(ctx):
            done, steady = 0, Steady()
            while done < n_bursts:
                ready = not self.pause()
                ctx.set(axi.rready, ready)
                _, _, valid, _, number, data, last, resp = await ctx.tick().sample(*(getattr(axi, n) for n in R))
                if not steady.check(valid, ready, number, data, last, resp):
                    continue
                left, entry = due[number][0]
                address = left.popleft()
                assert resp == SLVERR * self.faulty(address)
                assert data == self.word(address) and last == (not left)
                self.expected["moved" if self.inside(address) else "read_beats"] += (
                    self.config.beat_bytes if self.inside(address) else 1
                )
                if last:
                    due[number].popleft()
                    self.busy.remove(entry)
                    done += 1

        return ask, receive

    def writer(self, n_bursts):
        axi, due, beats, before = self.dut.i_write, [deque() for _ in range(IDS)], deque(), {}

        async def ask(ctx):
            await ctx.tick().repeat(2)
            asked = 0
            while asked < n_bursts:
                number, addresses = self.rng.randrange(IDS), self.burst()
                if self.pause() or not (entry := self.claim(number, addresses, True, before)):
                    await ctx.tick()
                    continue
                burst = [(a, self.rng.getrandbits(self.config.port_width), self.strobe()) for a in addresses]
                shown = [(*beat, beat is burst[-1]) for beat in burst]
                beats.extend(shown)
                if not self.inside(addresses[0]):
                    self.port.bursts.append((number, addresses[0], len(addresses) - 1))
                    self.port.beats.extend(beat[1:] for beat in shown)
                due[number].append((burst, entry))
                asked += 1
                await self.offer(ctx, axi, "aw", number, addresses)

        async def send(ctx):
            while True:
                if not beats or self.pause():
                    await ctx.tick()
                    continue
                _, data, strobe, last = beats[0]
                for name, value in (("wvalid", 1), ("wdata", data), ("wstrb", strobe), ("wlast", last)):
                    ctx.set(getattr(axi, name), value)
                await ctx.tick().until(axi.wready)
                ctx.set(axi.wvalid, 0)
                beats.popleft()

        async def receive(ctx):
            done, steady = 0, Steady()
            while done < n_bursts:
                ready = not self.pause()
                ctx.set(axi.bready, ready)
                _, _, valid, _, number, resp = await ctx.tick().sample(*(getattr(axi, n) for n in B))
                if not steady.check(valid, ready, number, resp):
                    continue
                burst, entry = due[number].popleft()
                assert resp == SLVERR * self.faulty(burst[0][0])
                for address, data, strobe in burst:
                    self.expected["moved" if self.inside(address) else "write_bytes"] += strobe.bit_count()
                    if self.inside(address):
                        mask = sum(0xFF << 8 * i for i in range(self.config.beat_bytes) if strobe >> i & 1)
                        self.memory[address] = self.word(address) & ~mask | data & mask
                self.busy.remove(entry)
                done += 1

        return ask, receive, send

    def strobe(self):
        every = (1 << self.config.beat_bytes) - 1
        return self.rng.choice((every, self.rng.randrange(every), 0))

    # --- the run ----------------------------------------------------------------------------------

    async def count(self, ctx):
        async for _, _, *values in ctx.tick().sample(*(getattr(self.dut, name) for name in self.counted)):
            for name, value in zip(self.counted, values, strict=True):
                self.counted[name] += value

    def run(self, n_reads, n_writes):
        ask_reads, receive_reads = self.reader(n_reads)
        ask_writes, receive_writes, send = self.writer(n_writes)

        async def rest(ctx):
            """Until the last beats are counted."""
            while self.busy or sum(self.seen.values()) < n_reads + n_writes:
                await ctx.tick()
            await ctx.tick().repeat(3)

        simulate(
            self.dut, ask_reads, receive_reads, ask_writes, receive_writes, rest,
            background=(send, *self.port.tasks, self.count), limit=LIMIT,
        )  # fmt: skip
        assert self.port.idle and self.counted == self.expected
