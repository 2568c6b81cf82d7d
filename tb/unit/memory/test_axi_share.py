"""AxiShare between a busy master, a seldom one and a memory that pauses: everything arrives, in order, undelayed."""

from collections import deque

import pytest
from adagp.rtl.memory.axi_share import AxiShare
from adagp.spec.presets import preset
from bench import seeded, simulate
from port_memory import AddressChannel, Steady

CONFIG = preset("tiny")
BEAT = CONFIG.beat_bytes
FULL = (1 << BEAT) - 1


def word(address):
    return address * 0x9E3779B97F4A7C15 % (1 << CONFIG.port_width)


class Memory:
    """Takes addresses and data in any order, answers each id in order, ids in any."""

    def __init__(self, axi, rng, stall):
        self.axi, self.rng, self.stall = axi, rng, stall
        self.words, self.reads, self.answers = {}, [], []

    @property
    def tasks(self):
        return self.take_reads, self.answer_reads, self.take_writes, self.answer_writes

    def pause(self):
        return self.rng.random() < self.stall

    def _next(self, waiting):
        """A waiting burst whose id none before it has."""
        ids = [each[0] for each in waiting]
        chosen = self.rng.choice(ids)
        return waiting.pop(ids.index(chosen))

    async def take_reads(self, ctx):
        channel = AddressChannel(self.axi, "ar", self.pause)
        while True:
            self.reads.append((await channel.take(ctx))[:3])

    async def answer_reads(self, ctx):
        axi = self.axi
        while True:
            if not self.reads or self.pause():
                await ctx.tick()
                continue
            number, address, length = self._next(self.reads)
            for beat in range(length + 1):
                while self.pause():
                    await ctx.tick()
                for name, value in (("id", number), ("data", word(address + beat * BEAT)), ("last", beat == length)):
                    ctx.set(getattr(axi, f"r{name}"), value)
                ctx.set(axi.rvalid, 1)
                await taken(ctx, axi.rready)
                ctx.set(axi.rvalid, 0)

    async def take_writes(self, ctx):
        axi, aw_steady, w_steady = self.axi, Steady(), Steady()
        bursts, beats = deque(), deque()
        while True:
            aw_ready, w_ready = not self.pause(), not self.pause()
            ctx.set(axi.awready, aw_ready)
            ctx.set(axi.wready, w_ready)
            sampled = axi.awvalid, axi.awid, axi.awaddr, axi.awlen, axi.wvalid, axi.wdata, axi.wstrb, axi.wlast
            _, _, aw_valid, number, address, length, w_valid, *beat = await ctx.tick().sample(*sampled)
            if aw_steady.check(aw_valid, aw_ready, number, address, length):
                bursts.append((number, address, length))
            if w_steady.check(w_valid, w_ready, *beat):
                beats.append(beat)
            while bursts and len(beats) > bursts[0][2]:
                number, address, length = bursts.popleft()
                for place in range(length + 1):
                    data, strobe, last = beats.popleft()
                    assert strobe == FULL and last == (place == length)
                    self.words[address + place * BEAT] = data
                self.answers.append((number,))

    async def answer_writes(self, ctx):
        axi = self.axi
        while True:
            if not self.answers or self.pause():
                await ctx.tick()
                continue
            (number,) = self._next(self.answers)
            ctx.set(axi.bid, number)
            ctx.set(axi.bvalid, 1)
            await taken(ctx, axi.bready)
            ctx.set(axi.bvalid, 0)


async def taken(ctx, ready):
    """Return after the clock edge at which ``ready`` is high."""
    while not (await ctx.tick().sample(ready))[2]:
        pass


class Master:
    """Reads and writes bursts of its own addresses; up to eight of each are under way."""

    def __init__(self, port, rng, base, count, longest, idle):
        self.port, self.rng, self.idle, self.count = port, rng, idle, count
        self.room = {"r": 8, "w": 8}
        self.plan = {
            direction: [(rng.randrange(4), base + 4096 * i, rng.randrange(longest)) for i in range(count)]
            for direction in self.room
        }
        self.expected = {i: deque() for i in range(4)}
        self.written = {}
        self.read = self.answered = self.begun = 0

    def data(self, address):
        return ~word(address) % (1 << CONFIG.port_width)

    @property
    def tasks(self):
        return self.addresses("ar", "r"), self.addresses("aw", "w"), self.send, self.take

    def addresses(self, channel, direction):
        async def run(ctx):
            port = self.port
            for number, address, length in self.plan[direction]:
                while self.rng.random() < self.idle or not self.room[direction]:
                    await ctx.tick()
                for name, value in (("id", number), ("addr", address), ("len", length), ("valid", 1)):
                    ctx.set(getattr(port, channel + name), value)
                self.room[direction] -= 1
                self.begun += direction == "w"
                if direction == "r":
                    self.expected[number].extend((address + i * BEAT, i == length) for i in range(length + 1))
                await taken(ctx, getattr(port, f"{channel}ready"))
                ctx.set(getattr(port, f"{channel}valid"), 0)

        return run

    async def send(self, ctx):
        """Data come with their address or later, as those of the arbiter do."""
        port = self.port
        for place, (_, address, length) in enumerate(self.plan["w"]):
            while self.begun <= place:
                await ctx.tick()
            for beat in range(length + 1):
                while self.rng.random() < self.idle / 2:
                    await ctx.tick()
                at = address + beat * BEAT
                self.written[at] = self.data(at)
                for name, value in (("data", self.data(at)), ("strb", FULL), ("last", beat == length), ("valid", 1)):
                    ctx.set(getattr(port, f"w{name}"), value)
                await taken(ctx, port.wready)
                ctx.set(port.wvalid, 0)

    async def take(self, ctx):
        port = self.port
        while self.answered < self.count or self.read < sum(length + 1 for _, _, length in self.plan["r"]):
            r_ready, b_ready = self.rng.random() < 0.8, self.rng.random() < 0.8
            ctx.set(port.rready, r_ready)
            ctx.set(port.bready, b_ready)
            sampled = port.rvalid, port.rid, port.rdata, port.rlast, port.bvalid
            _, _, r_valid, number, data, last, b_valid = await ctx.tick().sample(*sampled)
            if r_valid and r_ready:
                address, is_last = self.expected[number].popleft()
                assert (data, last) == (word(address), is_last)
                self.read += 1
                self.room["r"] += last
            if b_valid and b_ready:
                self.answered += 1
                self.room["w"] += 1


@pytest.mark.parametrize(("stall", "idle"), [(0.0, 0.0), (0.5, 0.3), (0.2, 0.9)])
def test_share(stall, idle):
    rng = seeded(int(10 * stall))
    dut = AxiShare(CONFIG)
    memory = Memory(dut.axi, rng, stall)
    host = Master(dut.host, rng, 0, 60, 16, idle)
    guest = Master(dut.guest, rng, 1 << 24, 12, 1, 0.95)

    simulate(dut, *host.tasks, *guest.tasks, background=memory.tasks)
    assert memory.words == {**host.written, **guest.written}
    for master, count in ((host, 60), (guest, 12)):
        assert len(master.written) == sum(length + 1 for _, _, length in master.plan["w"]) >= count
        assert master.read == sum(length + 1 for _, _, length in master.plan["r"]) and master.answered == count


def test_a_host_alone_is_not_delayed():
    """Whatever it drives is on the port in the same cycle, and so is what comes back."""
    rng = seeded(3)
    dut = AxiShare(CONFIG)
    seen = 0

    async def bench(ctx):
        nonlocal seen
        for _ in range(200):
            outs, backs = {}, {}
            for name, member in dut.axi.signature.members.items():
                host, axi = getattr(dut.host, name), getattr(dut.axi, name)
                into, out = (host, axi) if member.flow.name == "Out" else (axi, host)
                value = rng.randrange(1 << len(host))
                ctx.set(into, value)
                (outs if into is host else backs)[name] = out, value
            for out, value in (*outs.values(), *backs.values()):
                assert ctx.get(out) == value
                seen += 1
            await ctx.tick()

    simulate(dut, bench)
    assert seen == 200 * len(dut.axi.signature.members)
