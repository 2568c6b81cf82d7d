"""An AXI memory that pauses and interleaves ids, behind an AxiRead and an AxiWrite, for unit benches."""

from collections import deque

__all__ = ["IDS", "SLVERR", "AddressChannel", "PortMemory", "Steady"]

SLVERR = 2
IDS = 4
ADDRESS = ("valid", "id", "addr", "len")
W = ("wvalid", "wready", "wdata", "wstrb", "wlast")


class Steady:
    """Asserts that a channel's valid stays until ready, and its payload with it."""

    def __init__(self):
        self.before = None

    def check(self, valid, ready, *payload):
        if self.before is not None:
            assert valid and payload == self.before
        self.before = payload if valid and not ready else None
        return valid and ready


class AddressChannel:
    """The memory's side of the address channel ``prefix`` (ar or aw), not ready in cycles with ``pause()``."""

    def __init__(self, axi, prefix, pause):
        self.ready, self.pause, self.steady = getattr(axi, f"{prefix}ready"), pause, Steady()
        self.signals = [getattr(axi, prefix + name) for name in (*ADDRESS, "size", "burst")]

    async def take(self, ctx):
        """The next burst's id, address, beats - 1, size of a beat as an exponent of 2, and kind."""
        while True:
            ready = not self.pause()
            ctx.set(self.ready, ready)
            _, _, valid, *burst = await ctx.tick().sample(*self.signals)
            if self.steady.check(valid, ready, *burst):
                return burst


class PortMemory:
    """Memory that answers the ports ``read`` and ``write``.

    Functions of an address: ``word`` gives a beat's content, ``faulty`` says if its burst is refused, ``foreign`` if it
    must not come here. The test announces ``bursts`` and ``beats`` that will be written, in order. With ``data_first``
    an address of a write is taken only when all its beats are there.
    """

    def __init__(self, read, write, rng, stall, data_first, word, faulty, foreign):
        self.read, self.write, self.rng, self.stall, self.data_first = read, write, rng, stall, data_first
        self.word, self.faulty, self.foreign = word, faulty, foreign
        self.beat_bytes = len(read.rdata) // 8
        self.bursts, self.beats = deque(), deque()
        self.open, self.unanswered = [deque() for _ in range(IDS)], []

    def pause(self):
        return self.rng.random() < self.stall

    @property
    def tasks(self):
        return self.take_reads, self.answer_reads, self.take_writes, self.answer_writes

    @property
    def idle(self):
        return not (self.bursts or self.beats or self.unanswered or any(self.open))

    async def take_reads(self, ctx):
        channel = AddressChannel(self.read, "ar", self.pause)
        while True:
            number, address, length, *_ = await channel.take(ctx)
            assert not self.foreign(address)
            self.open[number].append(deque(address + i * self.beat_bytes for i in range(length + 1)))

    async def answer_reads(self, ctx):
        axi = self.read
        while True:
            waiting = [number for number, bursts in enumerate(self.open) if bursts]
            if not waiting or self.pause():
                ctx.set(axi.rvalid, 0)
                await ctx.tick()
                continue
            number = self.rng.choice(waiting)  # ids interleave beat by beat
            burst = self.open[number][0]
            address = burst.popleft()
            resp = SLVERR * self.faulty(address)
            values = {"valid": 1, "id": number, "data": self.word(address), "last": not burst, "resp": resp}
            for name, value in values.items():
                ctx.set(getattr(axi, f"r{name}"), value)
            await ctx.tick().until(axi.rready)
            if not burst:
                self.open[number].popleft()

    async def take_writes(self, ctx):
        axi, aw_steady, w_steady = self.write, Steady(), Steady()
        bursts, ended = deque(), 0
        while True:
            aw_ready = not self.pause() and (not self.data_first or ended > 0)
            w_ready = not self.pause()
            ctx.set(axi.awready, aw_ready)
            ctx.set(axi.wready, w_ready)
            sampled = [getattr(axi, f"aw{n}") for n in ADDRESS] + [getattr(axi, n) for n in W]
            _, _, *values = await ctx.tick().sample(*sampled)
            aw_valid, *burst = values[: len(ADDRESS)]
            w_valid, _, *beat = values[len(ADDRESS) :]
            if aw_steady.check(aw_valid, aw_ready, *burst):
                assert tuple(burst) == self.bursts.popleft()
                bursts.append(burst)
            if w_steady.check(w_valid, w_ready, *beat):
                assert tuple(beat) == self.beats.popleft()
                ended += beat[-1]
            while bursts and ended:
                number, address, _ = bursts.popleft()
                self.unanswered.append((number, self.faulty(address)))
                ended -= 1

    async def answer_writes(self, ctx):
        axi = self.write
        while True:
            if not self.unanswered or self.rng.random() < 0.6:
                ctx.set(axi.bvalid, 0)
                await ctx.tick()
                continue
            number = self.rng.choice(self.unanswered)[0]  # ids overtake each other
            first = next(i for i, (other, _) in enumerate(self.unanswered) if other == number)
            _, refused = self.unanswered.pop(first)
            for name, value in (("bvalid", 1), ("bid", number), ("bresp", SLVERR * refused)):
                ctx.set(getattr(axi, name), value)
            await ctx.tick().until(axi.bready)
