"""Control with a schedule: phases of batches, counters, the gate's verdict, scales and Adam's registers."""

from dataclasses import replace

from adagp.golden.exponents import smoothed
from adagp.golden.quality import Quality, QualitySums, votes
from adagp.rtl.control.counters import FLUSH_CYCLES
from adagp.spec.commands import Opcode, Phase
from adagp.spec.registers import AS_SCHEDULED, COUNTERS, N_PHASES, Status, register
from adagp.spec.schedule import Entry, Schedule, State, following
from bench import seeded
from control_bench import CONFIG, END, ControlBench, header, update, work
from control_bench import PROGRAM as ADDRESS

LOW = replace(CONFIG, variant="low")
COMMANDS = [name for name, _ in COUNTERS].index("commands")
SCALE, TOP = 5, 40
BP, GP = 1, 2
TRUE = Phase.WARMUP | Phase.BP
QUALITY = 3
PROGRAM = [
    header(LOW), work(phase_mask=Phase.TRAIN), update(phase_mask=Phase.GP),
    update(phase_mask=TRUE, quality=1, scale_id=SCALE, d_id=9), work(Opcode.COMMIT, phase_mask=Phase.TRAIN), END,
]  # fmt: skip
THRESHOLD = (0x4000, -16)
SCHEDULE = Schedule(1, 3, (Entry(1, 2, 1), Entry(2, 1, 2), Entry(1, 3, 1)))


async def set_up(bench, ctx, schedule, position):
    """Registers as the host writes them."""
    registers = [
        ("WARMUP_EPOCHS", schedule.warmup), ("EPOCH_BATCHES", schedule.batches), ("ENTRIES", len(schedule.entries)),
    ]  # fmt: skip
    for index, entry in enumerate(schedule.entries):
        lengths = register("ENTRY_LENGTHS").pack(gp=entry.gp, bp=entry.bp)
        registers += [("ENTRY", index), ("ENTRY_EPOCHS", entry.epochs), ("ENTRY_LENGTHS", lengths)]
    mantissa, exponent = THRESHOLD
    registers += [
        ("POSITION_EPOCH", position.epoch), ("POSITION_BATCH", position.batch),
        ("POSITION_RUN", register("POSITION_RUN").pack(left=position.left, gp=position.gp)),
        ("GATE_THRESHOLD", register("GATE_THRESHOLD").pack(mantissa=mantissa, exponent=exponent, in_use=1)),
        ("TENSOR", SCALE), ("EXPONENT", register("EXPONENT").pack(cur=30, fraction=200, is_scale=1)),
    ]  # fmt: skip
    for name, value in registers:
        await bench.host.write(ctx, name, value)


async def position(bench, ctx):
    epoch, batch, run = [await bench.host.read(ctx, f"POSITION_{name}") for name in ("EPOCH", "BATCH", "RUN")]
    run = register("POSITION_RUN").unpack(run)
    return State(epoch, batch, bool(run["gp"]), run["left"])


async def scale(bench, ctx):
    await bench.host.write(ctx, "TENSOR", SCALE)
    entry = register("EXPONENT").unpack(await bench.host.read(ctx, "EXPONENT"))
    assert entry["is_scale"] and not entry["has_next"]
    return entry["cur"], entry["fraction"]


class Run:
    """The machine's expected work: phases of batches, commands counted in each, tasks given, gate and scale."""

    def __init__(self, rng):
        self.rng = rng
        self.state, self.open, self.scale = State(), True, (30, 200)
        self.commands, self.phases, self.log, self.qualities = [0] * N_PHASES, [], [], []

    def batch(self, phase=None):
        if phase is None:
            named, self.state = following(self.state, SCHEDULE, self.open)
            phase = named.bit_length() - 1
        self.phases.append(phase)
        executed = [i for i, c in enumerate(PROGRAM) if not i or c.phase_mask >> phase & 1]
        self.commands[phase] += len(executed)
        self.log += [i for i in executed if PROGRAM[i].opcode in (Opcode.FORWARD, Opcode.UPDATE)]
        if QUALITY in executed:
            sums = QualitySums(900, self.rng.choice((-940, -100, 100)), 1000, 10)
            layer = Quality(sums, 2, 2)
            self.qualities.append({"layer": 1, **vars(sums), "e_exponent": 2, "t_exponent": 2})
            self.open = votes([layer], THRESHOLD)
            self.scale = smoothed(*self.scale, TOP)


def test_schedule():
    rng = seeded(51)
    bench = ControlBench(LOW, rng)
    run = Run(rng)
    pieces = [1, 6, 2, 7]
    for count in pieces:
        for _ in range(count):
            run.batch()
    assert {0, BP, GP} == set(run.phases)
    after = run.state
    run.batch(GP)
    run.batch(BP)
    bench.qualities = {QUALITY: list(run.qualities)}
    bench.results = {(QUALITY, 0): [{"id": SCALE, "nonzero": 1, "top": TOP}]}
    seen = 0
    pauses = []

    async def watch(ctx):
        """Nothing is read before a batch for so long that all counts are in the totals of the phase before."""
        fetch = bench.dut.fetch
        quiet, asked = 0, 0
        ports = fetch.request.valid, fetch.request.p.addr, fetch.beats.valid
        async for _, _, asks, address, beat in ctx.tick().sample(*ports):
            if asks and not asked and address == ADDRESS:
                pauses.append(quiet)
            quiet, asked = (0 if beat else quiet + 1), asks

    async def host(ctx):
        nonlocal seen
        await set_up(bench, ctx, SCHEDULE, State())
        assert await bench.host.read(ctx, "GATE") == 1
        done = 0
        for count in pieces:
            await bench.start(ctx, PROGRAM, AS_SCHEDULED, count)
            assert await bench.wait(ctx) == Status.DONE
            done += count
            assert await bench.host.read(ctx, "PHASE_NOW") == run.phases[done - 1]
            seen += count
        assert await position(bench, ctx) == after
        for phase in (GP, BP):
            await bench.start(ctx, PROGRAM, phase)
            assert await bench.wait(ctx) == Status.DONE
            assert await bench.host.read(ctx, "PHASE_NOW") == phase
        assert await position(bench, ctx) == after  # only scheduled batches move on
        assert await bench.host.read(ctx, "GATE") == run.open
        assert [entry[1] for entry in bench.log] == run.log
        assert [await bench.counter(ctx, phase, COMMANDS) for phase in range(N_PHASES)] == run.commands
        assert await scale(bench, ctx) == run.scale

    bench.background = [watch]
    bench.run(host)
    assert len(pauses) == sum(pieces) + 2 and min(pauses) > FLUSH_CYCLES
    assert seen == sum(pieces) > 15 and not bench.qualities[QUALITY]
    assert 3 < sum(phase == GP for phase in run.phases) < 13


def test_calibration_of_a_scale():
    """The trial puts it where the gradients are, the commit leaves it there; a dry command has no quality."""
    bench = ControlBench(LOW, seeded(52))
    judged = QualitySums(900, -940, 1000, 10)
    bench.qualities = {QUALITY: [{"layer": 1, **vars(judged), "e_exponent": 2, "t_exponent": 2}]}
    bench.results = {(QUALITY, dry): [{"id": SCALE, "nonzero": 1, "top": TOP + 8 * (1 - dry)}] for dry in (0, 1)}

    async def host(ctx):
        await set_up(bench, ctx, SCHEDULE, State())
        await bench.start(ctx, PROGRAM, BP, calibrate=1)
        assert await bench.wait(ctx) == Status.DONE
        assert await scale(bench, ctx) == (TOP + 1, 0)
        assert not await bench.host.read(ctx, "GATE")
        await bench.host.write(ctx, "GATE", 1)
        assert await bench.host.read(ctx, "GATE") == 1

    bench.run(host)
    assert len(bench.log) == 4


def test_adams_powers():
    rng = seeded(53)
    bench = ControlBench(LOW, rng)
    written = []

    async def watch(ctx):
        dut = bench.dut
        strobes = (dut.set_adam_power1, dut.set_adam_power2)
        async for _, _, value, *now in ctx.tick().sample(dut.adam_value, *strobes):
            written.extend((i, value) for i, strobe in enumerate(now, 1) if strobe)

    async def host(ctx):
        expected = []
        for _ in range(6):
            i, value = rng.randint(1, 2), rng.getrandbits(32)
            await bench.host.write(ctx, f"ADAM_POWER{i}", value)
            expected.append((i, value))
            ctx.set(getattr(bench.dut, f"adam_power{i}"), value ^ 1)
            assert await bench.host.read(ctx, f"ADAM_POWER{i}") == value ^ 1
        assert written == expected

    bench.background = [watch]
    bench.run(host)
    assert len(written) == 6
