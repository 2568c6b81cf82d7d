"""Memory behind a ReadClient, for unit benches."""

__all__ = ["ReadMemory"]

PAGE = 4096


class ReadMemory:
    """Answers the bursts of ``client`` in order, with random pauses; checks that each is legal.

    ``load`` puts bytes somewhere; elsewhere is rubbish. Beats that hold an address of ``faults`` are
    faulty and read as 0. ``halt`` set: no burst is accepted. ``beats_due``: beats asked for and not yet delivered.
    """

    def __init__(self, config, client, rng, stall=0.3):
        self.config, self.client, self.rng, self.stall = config, client, rng, stall
        self.content = {}
        self.faults = set()
        self.addresses = []
        self.halt = False
        self.beats_due = 0

    def load(self, address, content):
        self.content.update(enumerate(content, start=address))

    def beat(self, address):
        """The beat at ``address``, as its payload's fields."""
        places = range(address, address + self.config.beat_bytes)
        if any(a in self.faults for a in places):
            return {"data": 0, "fault": 1}
        return {"data": int.from_bytes(bytes(self.content.get(a, a % 251) for a in places), "little"), "fault": 0}

    def accept(self, addr, length):
        """Beat addresses of a burst."""
        size = self.config.beat_bytes
        assert addr % size == 0 and length < self.config.max_burst_beats
        assert addr // PAGE == (addr + (length + 1) * size - 1) // PAGE, "a burst crosses a page"
        return [addr + i * size for i in range(length + 1)]

    async def serve(self, ctx):
        request, beats = self.client.request, self.client.beats
        waiting = []
        offered = False
        while True:
            ready = not self.halt and self.rng.random() >= self.stall
            ctx.set(request.ready, ready)
            if not offered and waiting and self.rng.random() >= self.stall:
                ctx.set(beats.payload, self.beat(waiting[0]))
                ctx.set(beats.valid, 1)
                offered = True
            _, _, asked, addr, length, taken = await ctx.tick().sample(
                request.valid, request.p.addr, request.p.length, beats.ready
            )
            if asked and ready:
                self.addresses.append(addr)
                waiting += self.accept(addr, length)
            if offered and taken:
                waiting.pop(0)
                ctx.set(beats.valid, 0)
                offered = False
            self.beats_due = len(waiting)
