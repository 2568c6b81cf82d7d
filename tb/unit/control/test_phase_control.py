"""Phase control against the golden model: random schedules and positions, also written in mid-decision."""

from dataclasses import replace

import pytest
from adagp.rtl.control.phase_control import PhaseControl
from adagp.spec.commands import Phase
from adagp.spec.registers import register
from adagp.spec.schedule import ENTRIES, Entry, Schedule, State, following
from bench import seeded, simulate

ODD = (
    Schedule(1, 1, (Entry(4, 4, 1), Entry(4, 3, 1))), Schedule(0, 0, (Entry(1, 1, 1), Entry(2, 0, 3))),
    Schedule(0, 4, (Entry(1, 0, 0),)), Schedule(0, 4, (Entry(1, 2, 0), Entry(1, 0, 2))), Schedule(2, 3),
    Schedule(0, 5, (Entry(0, 9, 9), Entry(0, 1, 2), Entry(1, 2, 1))), Schedule(65535, 1, (Entry(1, 1, 1),)),
)  # fmt: skip
PAPER = Schedule(1, 3, (Entry(2, 4, 1), Entry(2, 3, 1), Entry(2, 2, 1), Entry(1, 1, 1)))
LARGE = State((1 << 32) - 2, (1 << 32) - 1, True, 65535)


def random_schedule(rng):
    def length():
        return rng.choice((0, 1, rng.randrange(5)))

    entries = tuple(Entry(rng.randrange(3), length(), length()) for _ in range(rng.randrange(ENTRIES + 1)))
    return Schedule(rng.choice((0, 0, 1, 3)), rng.randrange(6), entries)


def random_position(rng):
    return State(rng.randrange(12), rng.randrange(6), bool(rng.randrange(2)), rng.choice((0, 0, 1, 2)))


class Driver:
    """The host, one register at a time, and whoever asks for a decision; ``position`` is the golden model's."""

    def __init__(self, dut, rng):
        self.dut, self.rng = dut, rng
        self.schedule, self.position, self.gate_open = Schedule(0, 0), State(), False
        self.seen = dict.fromkeys(Phase, 0)
        self.interrupted = 0

    def writes(self, schedule):
        """The writes of a schedule, as (name of the input or strobe, value, index)."""
        yield from (("warmup", schedule.warmup, 0), ("batches", schedule.batches, 0))
        for index, entry in enumerate(schedule.entries):
            lengths = register("ENTRY_LENGTHS").pack(gp=entry.gp, bp=entry.bp)
            yield from (("set_epochs", entry.epochs, index), ("set_lengths", lengths, index))
        yield "entries", len(schedule.entries), 0

    async def write(self, ctx, name, value, index=0):
        """As the register file does: strobes last a cycle, stored registers have their value from the next on."""
        dut = self.dut
        ctx.set(dut.index, index)
        ctx.set(dut.written, 1)
        if name.startswith("set_"):
            ctx.set(dut.value, value)
            ctx.set(getattr(dut, name), 1)
        await ctx.tick()
        ctx.set(dut.written, 0)
        ctx.set(getattr(dut, name), 0 if name.startswith("set_") else value)

    async def program(self, ctx, schedule):
        for name, value, index in self.writes(schedule):
            await self.write(ctx, name, value, index)
        self.schedule = schedule

    async def put(self, ctx, position):
        run = register("POSITION_RUN").pack(left=position.left, gp=position.gp)
        for name, value in (("epoch", position.epoch), ("batch", position.batch), ("run", run)):
            await self.write(ctx, f"set_{name}", value)
        self.position = position

    async def gate(self, ctx, open_):
        await self.write(ctx, "gate_open", open_)
        self.gate_open = open_

    async def decide(self, ctx, meanwhile=None):
        """One batch; ``meanwhile`` is a write that comes at a random moment of the decision, and what follows it."""
        dut, rng = self.dut, self.rng
        before = ctx.get(dut.phase)
        ctx.set(dut.ready, 0)
        ctx.set(dut.decide, 1)
        await ctx.tick()
        ctx.set(dut.decide, 0)
        for _ in range(rng.randrange(4)):
            assert ctx.get(dut.busy) and ctx.get(dut.phase) == before
            await ctx.tick()
        ctx.set(dut.ready, 1)
        moment = rng.randrange(PhaseControl.DECISION_CYCLES) if meanwhile else -1
        cycles = 0
        while ctx.get(dut.busy):
            assert ctx.get(dut.phase) == before
            if cycles == moment:
                await meanwhile()
                self.interrupted += 1
                cycles, moment = 0, -1
                continue
            ctx.set(dut.show, rng.random() < 0.1)
            cycles += not ctx.get(dut.show)
            assert cycles <= PhaseControl.DECISION_CYCLES
            await ctx.tick()
        ctx.set(dut.show, 0)
        phase, position = following(self.position, self.schedule, self.gate_open)
        self.position = replace(position, epoch=position.epoch % (1 << 32))
        assert ctx.get(dut.phase) == phase.bit_length() - 1, (self.schedule, position)
        run = ctx.get(dut.run)
        assert State(ctx.get(dut.epoch), ctx.get(dut.batch), bool(run.gp), run.left) == self.position
        self.seen[phase] += 1

    async def shown(self, ctx):
        for index, entry in enumerate(self.schedule.entries):
            ctx.set(self.dut.index, index)
            ctx.set(self.dut.show, 1)
            await ctx.tick()
            ctx.set(self.dut.show, 0)
            await ctx.tick()
            lengths = ctx.get(self.dut.lengths)
            assert Entry(ctx.get(self.dut.epochs), lengths.gp, lengths.bp) == entry


def run(bench, seed):
    rng = seeded(seed)
    driver = Driver(PhaseControl(), rng)

    async def whole(ctx):
        await driver.gate(ctx, 1)
        await bench(ctx, driver, rng)

    simulate(driver.dut, whole)
    return driver


@pytest.mark.parametrize("seed", (31, 32))
def test_random_schedules(seed):
    async def bench(ctx, driver, rng):
        for schedule in [PAPER, *ODD, *(random_schedule(rng) for _ in range(50))]:
            await driver.program(ctx, schedule)
            await driver.put(ctx, State() if schedule in (PAPER, *ODD) else random_position(rng))
            await driver.shown(ctx)
            for _ in range(rng.randrange(10, 50)):
                if rng.random() < 0.1:
                    await driver.gate(ctx, rng.randrange(2))
                await driver.decide(ctx)

    driver = run(bench, seed)
    assert sum(driver.seen.values()) > 1200
    assert min(driver.seen[phase] for phase in (Phase.WARMUP, Phase.BP, Phase.GP)) > 40


def test_far_positions():
    """The last epoch and batch that registers hold, and the longest runs."""

    async def bench(ctx, driver, rng):
        longest = Schedule(65535, (1 << 32) - 1, (Entry(65535, 65535, 65535),) * ENTRIES)
        for schedule in (longest, PAPER, replace(longest, warmup=0)):
            await driver.program(ctx, schedule)
            for epoch in (65534, 65535, 65535 * 8, 65535 * 9 - 1, LARGE.epoch):
                for left in (0, 1, 65535):
                    await driver.put(ctx, replace(LARGE, epoch=epoch, left=left))
                    for _ in range(3):
                        await driver.decide(ctx)

    assert sum(run(bench, 33).seen.values()) == 135


def test_long_epochs():
    """Positions and schedules of all sizes."""

    async def bench(ctx, driver, rng):
        def some(bits):
            return rng.getrandbits(rng.randrange(bits + 1))

        for _ in range(60):
            entries = tuple(Entry(some(16), some(16), some(16)) for _ in range(rng.randrange(ENTRIES + 1)))
            batches = rng.choice((some(32), (1 << 32) - 1))
            await driver.program(ctx, Schedule(some(16), batches, entries))
            for _ in range(4):
                await driver.put(ctx, State(some(32), some(32), bool(rng.randrange(2)), some(16)))
                await driver.decide(ctx)
                await driver.decide(ctx)

    seen = run(bench, 35).seen
    assert sum(seen.values()) == 480 and min(seen[phase] for phase in (Phase.WARMUP, Phase.BP, Phase.GP)) > 20


def test_reprogrammed_while_running():
    """Each write has its whole effect on the batch that is being decided, and none on the one that runs."""

    async def bench(ctx, driver, rng):
        for _ in range(40):
            await driver.program(ctx, random_schedule(rng))
            await driver.put(ctx, random_position(rng))
            for _ in range(8):
                moves = (
                    lambda: driver.put(ctx, random_position(rng)),
                    lambda: driver.program(ctx, random_schedule(rng)),
                )
                await driver.decide(ctx, rng.choice(moves))
                phase = ctx.get(driver.dut.phase)
                await driver.program(ctx, random_schedule(rng))
                assert ctx.get(driver.dut.phase) == phase

    driver = run(bench, 34)
    assert sum(driver.seen.values()) == 320 and driver.interrupted > 130
