"""The host link's surroundings in unit benches: registers, memory, a line; and a model of its answers."""

import struct

from adagp.host.devices.frames import Unframer, frame, request
from adagp.spec.link import LINK_VERSION, MAX_PAYLOAD, Kind, Outcome

__all__ = ["Line", "Memory", "Model", "Registers"]

SLVERR = 2


async def until(ctx, signal, *sampled):
    """The values at the first clock edge at which ``signal`` is high."""
    while True:
        _, _, done, *values = await ctx.tick().sample(signal, *sampled)
        if done:
            return values


SPACES = {Kind.READ_CSR: 0, Kind.READ_DRAM_CSR: 1, Kind.READ_MEMORY: 2}


class Registers:
    """An AXI4-Lite slave that pauses; ``bad`` says which addresses it refuses."""

    def __init__(self, bus, rng, bad):
        self.bus, self.rng, self.bad = bus, rng, bad
        self.words, self.log = {}, []

    @property
    def tasks(self):
        return self.write, self.read

    async def _pause(self, ctx):
        while self.rng.random() < 0.5:
            await ctx.tick()

    async def _take(self, ctx, channel, *names):
        await self._pause(ctx)
        ctx.set(getattr(self.bus, f"{channel}ready"), 1)
        valid = getattr(self.bus, f"{channel}valid")
        values = await until(ctx, valid, *(getattr(self.bus, name) for name in names))
        ctx.set(getattr(self.bus, f"{channel}ready"), 0)
        return values

    async def _answer(self, ctx, channel, **values):
        await self._pause(ctx)
        for name, value in values.items():
            ctx.set(getattr(self.bus, name), value)
        ctx.set(getattr(self.bus, f"{channel}valid"), 1)
        await until(ctx, getattr(self.bus, f"{channel}ready"))
        ctx.set(getattr(self.bus, f"{channel}valid"), 0)

    async def write(self, ctx):
        while True:
            if self.rng.random() < 0.5:
                address, data, strobe = (
                    *await self._take(ctx, "aw", "awaddr"),
                    *await self._take(ctx, "w", "wdata", "wstrb"),
                )
            else:
                (data, strobe), (address,) = (
                    await self._take(ctx, "w", "wdata", "wstrb"),
                    await self._take(ctx, "aw", "awaddr"),
                )
            self.log.append((address, data, strobe))
            if not self.bad(address):
                self.words[address] = data
            await self._answer(ctx, "b", bresp=SLVERR * self.bad(address))

    async def read(self, ctx):
        while True:
            (address,) = await self._take(ctx, "ar", "araddr")
            await self._answer(ctx, "r", rdata=self.words.get(address, 0), rresp=SLVERR * self.bad(address))


class Memory(Registers):
    """The same for bursts of one beat with strobes; ``words`` holds bytes by address."""

    async def _take(self, ctx, channel, *names):
        bus = self.bus
        more = {"w": ("wlast",), "aw": ("awlen", "awsize", "awburst"), "ar": ("arlen", "arsize", "arburst")}[channel]
        values = await super()._take(ctx, channel, *names, *more)
        size = (len(bus.wstrb) - 1).bit_length()
        assert tuple(values[len(names) :]) == ((1,) if channel == "w" else (0, size, 1))
        return values[: len(names)]

    async def write(self, ctx):
        while True:
            (address,) = await self._take(ctx, "aw", "awaddr")
            data, strobe = await self._take(ctx, "w", "wdata", "wstrb")
            assert address % len(self.bus.wstrb) == 0 and strobe
            self.log.append((address, data, strobe))
            for lane in range(len(self.bus.wstrb)):
                if strobe >> lane & 1 and not self.bad(address):
                    self.words[address + lane] = data >> 8 * lane & 0xFF
            await self._answer(ctx, "b", bresp=SLVERR * self.bad(address))

    async def read(self, ctx):
        n_bytes = len(self.bus.wstrb)
        while True:
            (address,) = await self._take(ctx, "ar", "araddr")
            assert address % n_bytes == 0
            data = sum(self.words.get(address + lane, 0) << 8 * lane for lane in range(n_bytes))
            await self._answer(ctx, "r", rdata=data, rresp=SLVERR * self.bad(address))


class Line:
    """The host's side of a line of bytes with random pauses; ``bodies`` are those of the frames that came."""

    def __init__(self, dut, rng):
        self.dut, self.rng, self.bodies, self.unframer = dut, rng, [], Unframer()

    async def send(self, ctx, data):
        for byte in data:
            ctx.set(self.dut.i.payload, byte)
            ctx.set(self.dut.i.valid, 1)
            await ctx.tick()
            ctx.set(self.dut.i.valid, 0)
            for _ in range(self.rng.choice((0, 0, 1, 4))):
                await ctx.tick()

    async def receive(self, ctx):
        while True:
            ctx.set(self.dut.o.ready, self.rng.random() < 0.6)
            _, _, ready, valid, byte = await ctx.tick().sample(self.dut.o.ready, self.dut.o.valid, self.dut.o.payload)
            if ready and valid:
                self.bodies += self.unframer.feed(bytes([byte]))


class Model:
    """The link's answers and writes, by the protocol's rules."""

    def __init__(self, config, clock_hz, bad):
        self.config, self.bad = config, bad
        self.who = struct.pack("<HHII", LINK_VERSION, MAX_PAYLOAD, clock_hz, config.config_hash)
        self.expected, self.fault, self.irq, self.strange = 0, 0, 0, 1
        self.bytes = [{}, {}, {}]
        self.written = [0, 0, 0]
        self.answers = []

    def take(self, sequence, kind, length, address, payload=b""):
        """A whole request has come."""
        ahead = (sequence - self.expected + 128) % 256 - 128
        if kind == Kind.HELLO:
            self.strange = 0
        early = kind != Kind.HELLO and ahead > 0 and not self.strange
        repeated = kind.writes and ahead < 0 and not self.strange
        if kind == Kind.HELLO or ahead == 0:
            self.expected = (sequence + 1) % 256
        read = b""
        if kind == Kind.HELLO:
            self.fault, read = 0, self.who
        elif kind != Kind.WAIT and not early and not repeated and not self.strange:
            space = SPACES[Kind(kind & ~1)]
            n_lanes = self.config.beat_bytes if space == 2 else 4
            memory = self.bytes[space]
            for place in range(address, address + length):
                beat = place // n_lanes * n_lanes
                self.fault |= self.bad(space, beat)
                if kind.writes and not self.bad(space, beat):
                    memory[place] = payload[place - address]
            beats = {place // n_lanes for place in range(address, address + length)}
            if kind.writes:
                self.written[space] += len(beats)
            else:
                read = bytes(memory.get(place, 0) for place in range(address, address + length))
        bits = {"IRQ": self.irq, "FAULT": self.fault, "REPEATED": repeated, "EARLY": early, "STRANGER": self.strange}
        outcome = sum(Outcome[name] for name, there in bits.items() if there)
        self.answers.append(bytes([self.expected if early else sequence, kind, *read, outcome]))

    def framed(self, sequence, kind, length, address, payload=b""):
        """The frame of a request."""
        return frame(request(sequence, kind, length, address, payload))
