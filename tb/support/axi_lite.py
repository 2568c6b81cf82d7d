"""AXI4-Lite master for unit benches."""

from adagp.spec.registers import register

__all__ = ["AxiLiteMaster"]


class AxiLiteMaster:
    """Reads and writes registers of ``bus`` (slave side), with random pauses on every channel."""

    def __init__(self, bus, rng, stall=0.3):
        self.bus, self.rng, self.stall = bus, rng, stall

    async def _pause(self, ctx):
        while self.rng.random() < self.stall:
            await ctx.tick()

    def _garbage(self, ctx, payload):
        for name in payload:
            signal = getattr(self.bus, name)
            ctx.set(signal, self.rng.randrange(1 << len(signal)))

    async def _send(self, ctx, **channels):
        """Offer each channel's payload, in random order, until the cycle after its ready; else it is garbage."""
        waiting = list(channels)
        raised = []
        for payload in channels.values():
            self._garbage(ctx, payload)
        while waiting:
            for channel in waiting:
                if channel not in raised and self.rng.random() >= self.stall:
                    for name, value in channels[channel].items():
                        ctx.set(getattr(self.bus, name), value)
                    ctx.set(getattr(self.bus, f"{channel}valid"), 1)
                    raised.append(channel)
            taken = [c for c in raised if c in waiting and ctx.get(getattr(self.bus, f"{c}ready"))]
            await ctx.tick()
            for channel in taken:
                ctx.set(getattr(self.bus, f"{channel}valid"), 0)
                self._garbage(ctx, channels[channel])
                waiting.remove(channel)

    async def write_at(self, ctx, offset, value, strobe=0xF):
        """Write and return the response."""
        bus = self.bus
        await self._send(ctx, aw={"awaddr": offset}, w={"wdata": value & 0xFFFFFFFF, "wstrb": strobe})
        await self._pause(ctx)
        ctx.set(bus.bready, 1)
        (response,) = await ctx.tick().sample(bus.bresp).until(bus.bvalid)
        ctx.set(bus.bready, 0)
        return response

    async def read_at(self, ctx, offset):
        """Read and return the data."""
        bus = self.bus
        await self._send(ctx, ar={"araddr": offset})
        await self._pause(ctx)
        ctx.set(bus.rready, 1)
        value, response = await ctx.tick().sample(bus.rdata, bus.rresp).until(bus.rvalid)
        ctx.set(bus.rready, 0)
        assert response == 0
        return value

    async def write(self, ctx, name, value):
        assert await self.write_at(ctx, register(name).offset, value) == 0

    async def read(self, ctx, name):
        return await self.read_at(ctx, register(name).offset)
