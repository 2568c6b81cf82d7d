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

    async def _send(self, ctx, valids, readys):
        """Raise the valids, in random order, and lower each in the cycle after its ready."""
        waiting = dict(zip(valids, readys, strict=True))
        raised = []
        while waiting:
            for valid in waiting:
                if valid not in raised and self.rng.random() >= self.stall:
                    ctx.set(getattr(self.bus, valid), 1)
                    raised.append(valid)
            taken = [v for v in raised if v in waiting and ctx.get(getattr(self.bus, waiting[v]))]
            await ctx.tick()
            for valid in taken:
                ctx.set(getattr(self.bus, valid), 0)
                del waiting[valid]

    async def write_at(self, ctx, offset, value, strobe=0xF):
        """Write and return the response."""
        bus = self.bus
        ctx.set(bus.awaddr, offset)
        ctx.set(bus.wdata, value & 0xFFFFFFFF)
        ctx.set(bus.wstrb, strobe)
        await self._send(ctx, ("awvalid", "wvalid"), ("awready", "wready"))
        await self._pause(ctx)
        ctx.set(bus.bready, 1)
        (response,) = await ctx.tick().sample(bus.bresp).until(bus.bvalid)
        ctx.set(bus.bready, 0)
        return response

    async def read_at(self, ctx, offset):
        """Read and return the data."""
        bus = self.bus
        ctx.set(bus.araddr, offset)
        await self._send(ctx, ("arvalid",), ("arready",))
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
