"""RoomQueue after a pipeline that is a plain list: it has room for whatever leaves, and all of that leaves in order."""

from collections import deque

import pytest
from adagp.rtl.lib.room_queue import RoomQueue
from bench import seeded, simulate

N_CYCLES = 1500


@pytest.mark.parametrize("depth", [0, 1, 3, 6])
def test_refuses(depth):
    with pytest.raises(ValueError, match=f"a power of two above 1, not {depth}"):
        RoomQueue(8, depth)


def run(depth, latency, begins, reads):
    """Lead items through a pipeline of ``latency`` and the queue; returns items seen, and the most held at a time.

    ``begins``, ``reads``: shares of the cycles with room, and of all, in which one is begun, and may leave.
    """
    rng, dut = seeded(depth), RoomQueue(16, depth)
    pipeline, queued = deque([None] * latency), deque()
    seen = most = 0

    async def bench(ctx):
        nonlocal seen, most
        room = 0
        for cycle in range(N_CYCLES):
            assert ctx.get(dut.may) == room
            assert ctx.get(dut.o.valid) == bool(queued)
            room = ctx.get(dut.room)
            begin, ready, leaving = ctx.get(dut.may) and rng.random() < begins, rng.random() < reads, pipeline.popleft()
            ctx.set(dut.begins, begin)
            ctx.set(dut.o.ready, ready)
            ctx.set(dut.valid, leaving is not None)
            ctx.set(dut.payload, rng.getrandbits(16) if leaving is None else leaving)
            if queued:
                assert ctx.get(dut.o.payload) == queued[0]
                if ready:
                    queued.popleft()
                    seen += 1
            await ctx.tick()
            pipeline.append(cycle if begin else None)
            if leaving is not None:
                queued.append(leaving)
            most = max(most, len(queued) + sum(item is not None for item in pipeline))

    simulate(dut, bench)
    return seen, most


@pytest.mark.parametrize(("depth", "latency"), [(2, 1), (4, 3), (16, 7)])
@pytest.mark.parametrize(("begins", "reads"), [(1.0, 0.1), (0.5, 0.5), (0.3, 0.9)])
def test_random(depth, latency, begins, reads):
    """In order, none lost, none twice; as many as said fit, in pipeline and queue together."""
    seen, most = run(depth, latency, begins, reads)
    assert seen > 100
    assert most <= depth and (begins <= reads or most == depth)


@pytest.mark.parametrize("depth", [8, 16])
def test_an_item_every_cycle(depth):
    """After a pipeline as long as is said; after a longer one some are missing."""
    latency = depth - 4
    assert run(depth, latency, 1.0, 1.0)[0] == N_CYCLES - latency - 2
    assert 0 < run(depth, latency + 1, 1.0, 1.0)[0] < 0.95 * N_CYCLES
