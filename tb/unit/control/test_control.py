"""Control in whole: programs from memory, through the register port, against their meaning in plain Python."""

from dataclasses import replace

import pytest
from adagp.rtl.control.dispatch import WaitLayout
from adagp.spec.commands import Command, Opcode
from adagp.spec.opcodes import COMPUTE, GEMMS, built
from adagp.spec.presets import preset
from adagp.spec.registers import COUNTERS, Status, register
from bench import seeded
from control_bench import ControlBench, header

COMMANDS = [name for name, _ in COUNTERS].index("commands")
COPIED = ("count", "a_addr", "b_addr", "c_addr", "out_addr", "b_id", "out_id")


def tensors(config):
    """The few tensors that the programs here use, so that the simulation stays short."""
    return [*range(9), config.n_tensors - 1]


def random_program(config, rng, length, phase):
    """Header, ``length`` commands, END; the waits are right in ``phase``. Now and then a COMMIT."""
    program = [header(config)]
    given = dict.fromkeys(WaitLayout.members, 0)
    compute = [opcode for opcode in COMPUTE if opcode in built(config)]
    for i in range(length):
        opcode = rng.choice((*compute, Opcode.UPDATE, Opcode.UPDATE, Opcode.UPDATE))
        mask = rng.choice((1, 2, 3, 3, 3, 3, 15, 12))
        if i % 7 == 6:
            opcode, mask = Opcode.COMMIT, 15
        fields = {"phase_mask": mask, "layer": rng.randrange(1 << 16)}
        if opcode == Opcode.COMMIT:
            fields["out_id"] = rng.choice((0, 1, config.n_tensors - 4))
        else:
            for operand in ("a", "b", "c", "out"):
                fields[f"{operand}_addr"] = rng.randrange(1 << 20) * config.beat_bytes
                fields[f"{operand}_id"] = rng.choice(tensors(config))
            fields["scale_id"] = rng.choice(tensors(config)) if opcode != Opcode.UPDATE else 0
            fields |= {
                **{f"wait_{kind}": rng.randint(max(count - 2, 0), count) for kind, count in given.items()},
                "predictor": int(config.predicts and opcode in GEMMS and rng.random() < 0.6),
                "track": rng.randint(0, 1), "count": rng.randrange(1 << 32),
                "hyper": rng.randrange(config.n_hyper - 2) if opcode == Opcode.UPDATE else 255,
                "ring": opcode != Opcode.UPDATE and rng.randint(0, 1),
            }  # fmt: skip
            if mask >> phase & 1:
                given[kind_of(Command(opcode, fields))] += 1
        program.append(Command(opcode, fields))
    return [*program, Command(Opcode.END, {"phase_mask": 15})]


def kind_of(command):
    """The kind that waits count it as."""
    return "update" if command.opcode == Opcode.UPDATE else "predictor" if command.predictor else "main"


class Meaning:
    """The program executed one command at a time; ``expected`` is what the engines should be given."""

    def __init__(self, config, rng, table, ring):
        self.config, self.rng, self.table, self.ring = config, rng, table, ring
        self.batch = 0
        self.tops = {}
        self.expected = {kind: [] for kind in WaitLayout.members}
        self.results = {}
        self.executed = 0

    def results_of(self, index, command, dry):
        """Reports of the engines, the same for each run of this command."""
        ids = [command.out_id, command.b_id] if command.opcode == Opcode.UPDATE else [command.out_id] * 2
        if command.opcode != Opcode.UPDATE and not command.track:
            ids = []
        if (index, dry) not in self.results:
            self.results[index, dry] = [
                {"id": i, "nonzero": self.rng.random() < 0.8, "top": self.rng.randint(-60, 60)} for i in ids
            ]
        events = self.results[index, dry]
        for event in events:
            tops = self.tops.setdefault(event["id"], [])
            if event["nonzero"]:
                tops.append(event["top"])
        return ids

    def adjust(self, tensors, commit):
        for tensor in sorted(set(tensors)):
            if tensor not in self.tops:
                continue
            tops = self.tops.pop(tensor)
            cur, after, has_next = self.table[tensor]
            old = after if has_next else cur
            new = max(tops) + 1 - (self.config.operand_width - 1) if tops else old - 8
            new = min(max(new, -128), 127)
            self.table[tensor] = (after if commit else cur, new, 1) if has_next else (new, after, 0)

    def task(self, index, command, dry):
        exps = {operand: self.table[getattr(command, f"{operand}_id")] for operand in ("a", "b", "c", "out")}
        if command.opcode == Opcode.UPDATE:
            (eg, _, _), (ew, ew_next, _), _, (ev, ev_next, _) = exps.values()
            return {
                "index": index, "dry": dry, "eg": eg, "ew": ew, "ew_next": ew_next, "ev": ev, "ev_next": ev_next,
                **{n: getattr(command, n) for n in COPIED},
                **{f"m{letter}": 1000 + command.hyper + i for i, letter in enumerate("lmd")},
                **{f"x{letter}": -command.hyper - i for i, letter in enumerate("lmd")},
            }  # fmt: skip
        base, stride, count, first = self.ring
        entry = (first + self.batch) % count
        a_base = command.a_addr + command.ring * (base + entry * stride)
        cur, following, persistent = exps["out"]
        if persistent and self.config.predicts:  # it is written at the exponent that weights are written at
            exps["out"] = following, cur, persistent
        return {
            "index": index, "dry": dry, "a_base": a_base % (1 << 32),
            **{f"exp_{operand}": entry[0] for operand, entry in exps.items()},
            "exp_scale": self.table[command.scale_id][0] if command.scale_id and self.config.predicts else 0,
            "command": {"opcode": command.opcode, **command.fields},
        }  # fmt: skip

    def run(self, program, phase, calibrate=False):
        """One batch."""
        for index, command in enumerate(program):
            if index and not command.phase_mask >> phase & 1:
                continue
            self.executed += 1
            if command.opcode == Opcode.COMMIT:
                visited = self.config.n_tensors - command.out_id
                self.adjust([tensor for tensor in self.tops if tensor < visited], commit=True)
            elif command.opcode in (*COMPUTE, Opcode.UPDATE):
                kind = kind_of(command)
                for dry in (1, 0) if calibrate else (0,):
                    self.expected[kind].append(self.task(index, command, dry))
                    ids = self.results_of(index, command, dry)
                    if dry:
                        self.adjust(ids, commit=False)
        self.batch += 1


async def set_up(bench, ctx, rng, ring):
    """Random exponents, and hyper-parameters that tell their index; the exponent table."""
    config = bench.config
    table = {}
    for tensor in tensors(config):
        after = rng.choice((None, rng.randint(-100, 100)))
        table[tensor] = (rng.randint(-100, 100), after or 0, int(after is not None))
        await bench.set_exponent(ctx, tensor, table[tensor][0], after)
    for i in range(config.n_hyper):
        await bench.host.write(ctx, "HYPER", i)
        await bench.host.write(ctx, "HYPER_VALUE", register("HYPER_VALUE").pack(mantissa=1000 + i, exponent=-i))
    for name, value in zip(("RING_BASE", "RING_STRIDE", "RING_COUNT", "RING_INDEX"), ring, strict=True):
        await bench.host.write(ctx, name, value)
    return table


def compare(task, expected):
    """A task the device gave against the one expected."""
    command = expected.pop("command", None)
    assert {name: task[name] for name in expected} == expected
    if command:
        for name, value in command.items():
            assert task.command[name] == value, name


def check_log(bench, meaning, program, calibrate, batches):
    """Each engine got its tasks in order, and none before what it waits for was complete."""
    per_batch = {kind: len(tasks) // batches for kind, tasks in meaning.expected.items()}
    for kind, tasks in meaning.expected.items():
        got = [entry for entry in bench.log if entry[0] == kind]
        assert len(got) == len(tasks)
        assert tasks or (kind == "predictor" and not bench.config.predicts)
        for i, ((_, index, _, task, completed), expected) in enumerate(zip(got, tasks, strict=True)):
            compare(task, expected)
            batch = i // per_batch[kind]
            if not calibrate:
                for other, count in per_batch.items():
                    assert completed[other] - batch * count >= getattr(program[index], f"wait_{other}")


@pytest.mark.parametrize("name, variant, phase, calibrate", [
    ("tiny", "baseline", 0, 0), ("tiny", "baseline", 1, 1), ("tiny", "efficient", 0, 0), ("tiny", "max", 1, 0),
    ("tiny", "max", 1, 1),
    pytest.param("paper", "baseline", 1, 0, marks=pytest.mark.slow),  # the same programs, on longer tables
])  # fmt: skip
def test_program(name, variant, phase, calibrate):
    config = replace(preset(name), variant=variant)
    rng = seeded(13)
    bench = ControlBench(config, rng, pace=0.1 if calibrate else 0.02)  # so slow that commands wait
    program = random_program(config, rng, 20, phase)
    ring = (0x100000, 0x12340, 3, 1)
    batches = 2
    seen = 0

    async def host(ctx):
        nonlocal seen
        table = await set_up(bench, ctx, rng, ring)
        meaning = Meaning(config, rng, table, ring)
        for _ in range(batches):
            meaning.run(program, phase, calibrate)
        bench.results = meaning.results
        await bench.host.write(ctx, "IRQ_ENABLE", 1)
        await bench.start(ctx, program, phase, batches, calibrate)
        assert not ctx.get(bench.dut.irq)
        assert await bench.wait(ctx) == Status.DONE
        assert bench.completed == {kind: len(tasks) for kind, tasks in meaning.expected.items()}
        assert ctx.get(bench.dut.irq)
        assert await bench.host.read(ctx, "BATCH") == batches
        assert await bench.host.read(ctx, "RING_INDEX") == (ring[3] + batches) % ring[2]
        assert await bench.counter(ctx, phase, COMMANDS) == meaning.executed
        assert await bench.counter(ctx, phase ^ 1, COMMANDS) == 0
        for tensor, entry in table.items():
            assert await bench.exponent(ctx, tensor) == entry, tensor
        check_log(bench, meaning, program, calibrate, batches)
        seen = len(bench.log)

    bench.run(host)
    assert seen > 20
