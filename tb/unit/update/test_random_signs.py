"""Random signs: the block alone, and in the update unit, against the golden model."""

from dataclasses import replace

import numpy as np
import pytest
from adagp.golden.random_signs import random_signs
from adagp.rtl.lib.hash import ROUNDS
from adagp.rtl.update.random_signs import WORD, RandomSigns
from adagp.spec.commands import Opcode, Source
from adagp.spec.numerics import unpredicted
from adagp.spec.registers import AS_SCHEDULED, Status
from adagp.spec.schedule import Schedule, State, following
from bench import seeded, simulate
from control_bench import END, ControlBench, header, update, work
from predicted_bench import PREDICTED, PredictedBench

CONFIGS = {name: replace(config, random_signs=True) for name, config in PREDICTED.items()}
VISIBLE = {"eg": 0, "ev": 0, "ev_next": 0, "ew": -8, "ew_next": -8, "xl": -24, "xm": -16, "xd": -40}
"""Exponents with which a gradient's sign shows in momentum and weight."""
KINDS = ("random", "given", "zero", "quality", "random quality", "adam")


def flipped(g, count, layer, key):
    """Gradients with the signs that they get."""
    signs = random_signs(count, layer, key["seed"], key["batch"])
    return np.where(signs & (g != unpredicted(16)), -g, g)


def some_key(rng):
    return {"seed": rng.getrandbits(32), "batch": rng.choice((0, rng.getrandbits(10), rng.getrandbits(32)))}


@pytest.mark.parametrize("name", CONFIGS)
def test_block(name):
    """Commands of many lengths, some begun anew before their end, with groups taken at random moments or at once."""
    config, rng = CONFIGS[name], seeded(41)
    lanes, dut = config.update_lanes, RandomSigns(CONFIGS[name])
    seen, waited = 0, []

    async def bench(ctx):
        nonlocal seen
        for count, stall in ((1, 0), (WORD, 0), (WORD + 1, 0.5), (5 * WORD - 3, 0), (300, 0.3), (3, 0.5), (100, 0.9)):
            layer, key = rng.getrandbits(16), some_key(rng)
            g = np.array([rng.choice((unpredicted(16), 0, rng.randint(-32767, 32767))) for _ in range(count + lanes)])
            expected, cycles = flipped(g, count + lanes, layer, key), 0
            ctx.set(dut.layer, layer)
            ctx.set(dut.key, key)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            for first in range(0, count, lanes):
                ctx.set(dut.g, [int(x) for x in g[first : first + lanes]])
                taken = False
                while not taken:
                    taken = ctx.get(dut.valid) and rng.random() >= stall
                    if taken:
                        assert [ctx.get(o) for o in dut.o] == expected[first : first + lanes].tolist()
                        seen += 1
                    ctx.set(dut.taken, taken)
                    await ctx.tick()
                    cycles += 1
                ctx.set(dut.taken, 0)
            if not stall:
                waited.append(cycles - (-(-count // WORD) * max(ROUNDS + 1, WORD // lanes) + ROUNDS + 1))

    simulate(dut, bench)
    assert seen > 500 // lanes and max(waited) <= 0 and len(waited) == 3


class SignsBench(PredictedBench):
    """Each command has a key of its own, and its gradient other signs where its kind says so."""

    def __init__(self, config, rng, stall=0.3):
        super().__init__(config, rng, stall)
        self.keys = []
        self.changed = 0

    def task(self, count, kind, **fields):
        random = int("random" in kind)
        t = super().task(count, kind.removeprefix("random").strip() or "given", random=random, **fields)
        if random:
            t.update(VISIBLE, dry=0)
        self.keys.append(some_key(self.rng))
        return t

    def _sgd(self, t, g, hi, lo, v):
        if t["random"]:
            key = self.keys[next(n for n, other in enumerate(self.tasks) if other is t)]
            new = flipped(g, t["count"], t["layer"], key)
            self.changed += int((new != g).sum())
            g = new
        return super()._sgd(t, g, hi, lo, v)

    async def give_keys(self, ctx):
        """A command's from the end of the one before it on."""
        for key in self.keys:
            ctx.set(self.dut.signs, key)
            await ctx.tick().until(self.dut.done)

    def background(self):
        return (*super().background(), self.give_keys)


@pytest.mark.parametrize(("name", "stall"), [("tiny", 0.3), ("four lanes", 0.3), ("eight lanes", 0)])
def test_commands(name, stall):
    """One behind the other; what doesn't ask for it keeps its signs."""
    config, rng = CONFIGS[name], seeded(42)
    bench = SignsBench(config, rng, stall)
    counts = {"random": (WORD - 1, 2 * WORD, 4 * WORD + 5, 1, 0), "random quality": (41, 3)}
    plan = [(kind, count) for kind in KINDS for count in counts.get(kind, (WORD + 3,))]
    rng.shuffle(plan)
    tasks = [bench.task(count, kind, dry=int(rng.random() < 0.2)) for kind, count in plan]
    results = [result for t in tasks for result in bench.expect(t)]
    bench.run(lambda: bench.done == len(plan))
    assert bench.faults == []
    assert [(id, nonzero, top if nonzero else None) for id, nonzero, top in bench.results] == results
    assert [bench.memory.peek(*place) for *place, _ in bench.expected] == [value for *_, value in bench.expected]
    assert [report for _, report in bench.qualities] == bench.expected_qualities != []
    assert bench.saturations == bench.expected_saturations
    assert bench.changed > 50 and bench.frozen > 50 and len(bench.expected) > 500


@pytest.mark.parametrize("name", ["eight lanes"])
def test_signs_cost_no_time(name):
    """Memory that never stalls brings weights no faster than their signs are made, but for those of the last chunk."""
    cycles, chunk = [], CONFIGS[name].port_width
    for kind in ("given", "random"):
        bench = SignsBench(CONFIGS[name], seeded(43), stall=0)
        bench.task(5 * chunk, kind)["dry"] = 1
        bench.run(lambda bench=bench: bench.done == 1)
        cycles.append(bench.cycles)
    assert 0 < cycles[1] <= cycles[0] + (ROUNDS + 1) * (chunk // WORD)


def test_control_gives_what_signs_depend_on():
    """Register SEED and the schedule's batch, from a task's beginning to its end; ADAM has no source."""
    config, schedule, n_batches = CONFIGS["tiny"], Schedule(0, 3, ()), 4
    program = [
        header(config), update(source=int(Source.RANDOM), layer=7), update(layer=8),
        work(Opcode.ADAM, source=int(Source.RANDOM)), work(Opcode.COMMIT), END,
    ]  # fmt: skip
    bench, seen, expected = ControlBench(config, seeded(44)), [], []
    seed, position = 0x8765_4321, State(batch=1)
    for _ in range(n_batches):
        _, position = following(position, schedule)
        expected += [(seed, position.batch)] * 6  # three commands begin and end

    async def watch(ctx):
        dut = bench.dut
        signals = (dut.update_task.valid & dut.update_task.ready, dut.update_done, dut.signs)
        async for _, _, begins, ends, key in ctx.tick().sample(*signals):
            seen.extend([(key.seed, key.batch)] * (begins + ends))

    async def host(ctx):
        for name, value in (("SEED", seed), ("EPOCH_BATCHES", schedule.batches), ("POSITION_BATCH", 1)):
            await bench.host.write(ctx, name, value)
        await bench.start(ctx, program, AS_SCHEDULED, n_batches)
        assert await bench.wait(ctx) == Status.DONE

    bench.background.append(watch)
    bench.run(host)
    assert seen == expected and len({batch for _, batch in seen}) == 3
    assert [task.random for *_, task, _ in bench.log] == [1, 0, 0] * n_batches
    assert {task.layer for *_, task, _ in bench.log if task.random} == {7}
