"""Issue where gradients are predicted: what tasks hold besides, in plain Python."""

from adagp.rtl.control.issue import Issue
from adagp.spec.commands import FIELDS, Opcode
from bench import seeded, simulate, sink, source
from predicted_bench import PREDICTED

CONFIG = PREDICTED["tiny"]
NAMES = ("a", "b", "c", "out", "d", "scale")
COUNT = 60


def work(rng):
    """A random command of each kind, and table entries for it."""
    opcode = rng.choice((Opcode.FORWARD, Opcode.UPDATE, Opcode.ADAM))
    fields = {f.name: rng.getrandbits(f.width - f.signed) for f in FIELDS}
    fields |= {f"{name}_id": rng.randrange(CONFIG.n_tensors) for name in NAMES}
    fields |= {
        "opcode": opcode,
        **dict.fromkeys(("wait_main", "wait_update", "wait_predictor"), 0),
        "hyper": rng.randrange(CONFIG.n_hyper - 5),
    }
    fields |= {"scale_id": rng.choice((0, fields["scale_id"])), "source": rng.randrange(3)}
    return {"command": fields, "index": rng.getrandbits(16), "dry": 0}


def test_tasks():
    rng = seeded(21)
    table = [{"cur": rng.randint(-128, 127), "next": rng.randint(-128, 127)} for _ in range(CONFIG.n_tensors)]
    entries = [{"mantissa": rng.getrandbits(16), "exponent": rng.randint(-128, 127)} for _ in range(CONFIG.n_hyper)]
    dut = Issue(CONFIG)
    works = [work(rng) for _ in range(COUNT)]
    updates = [w for w in works if w["command"]["opcode"] != Opcode.FORWARD]
    mains = [w for w in works if w["command"]["opcode"] == Opcode.FORWARD]
    seen = {"main": [], "update": []}

    async def feed(ctx):
        await source(ctx, dut.work, works, rng)

    async def look_up(ctx):
        while True:
            _, _, start, ids, first = await ctx.tick().sample(dut.exponents.start, dut.exponents.ids, dut.hyper.first)
            if start:
                await ctx.tick().repeat(rng.randrange(1, 9))
                ctx.set(dut.exponents.found, [table[getattr(ids, name)] for name in NAMES])
                ctx.set(dut.hyper.found, entries[first : first + 6])
                ctx.set(dut.exponents.done, 1)
                await ctx.tick()
                ctx.set(dut.exponents.done, 0)

    def engine(kind, port, done, count):
        async def run(ctx):
            for _ in range(count):
                seen[kind] += await sink(ctx, port, 1, rng)
                ctx.set(done, 1)
                await ctx.tick()
                ctx.set(done, 0)

        return run

    simulate(
        dut, feed, engine("main", dut.task, dut.main_done, len(mains)),
        engine("update", dut.update_task, dut.update_done, len(updates)), background=(look_up,),
    )  # fmt: skip
    assert min(len(mains), len(updates)) > 5
    for given, task in zip(mains, seen["main"], strict=True):
        command = given["command"]
        assert task.exp_scale == (table[command["scale_id"]]["cur"] if command["scale_id"] else 0)
        assert task.exp_out == table[command["out_id"]]["cur"]
    for given, task in zip(updates, seen["update"], strict=True):
        check_update(given["command"], task, table, entries)


def check_update(command, task, table, entries):
    adam = command["opcode"] == Opcode.ADAM
    scale = table[command["scale_id"]]["cur"] if command["scale_id"] else 0
    quality = command["quality"] and not adam
    assert (task.adam, task.quality, task.zero) == (adam, quality, not adam and command["source"] == 1)
    assert task.keep == (command["keep"] and not adam and not quality)
    assert task.scale == scale
    assert task.eg == table[command["a_id"]]["cur"] + (0 if adam or quality else scale)
    assert (task.ew, task.ew_next) == tuple(table[command["b_id"]].values())
    assert (task.ev, task.ev_next) == tuple(table[command["out_id"]].values())
    assert (task.ed, task.ed_next) == tuple(table[command["d_id"]].values())
    assert all(getattr(task, name) == command[name] for name in ("layer", "d_addr", "d_id", "scale_id", "a_addr"))
    found = [(task.ml, task.xl), (task.mm, task.xm), (task.md, task.xd), *((e.mantissa, e.exponent) for e in task.more)]
    assert found == [tuple(e.values()) for e in entries[command["hyper"] : command["hyper"] + 6]]
