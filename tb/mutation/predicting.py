"""Stages of the top's bench for blocks that only variants with a predictor have."""

import random
from functools import partial
from itertools import permutations

import numpy as np
from adagp.host.devices.device import Device
from adagp.host.devices.simulated import SimDevice
from adagp.host.program import Line, Program, header
from adagp.spec.commands import Command, Opcode
from adagp.spec.registers import N_PHASES
from adagp.spec.schedule import Entry, Schedule, State

from ..support import three_queues as q
from .campaigns import cases
from .observations import ALWAYS, MEMORIES, PREDICTING, SEED, TIMED, Observations, Open, Stage, outcome, tables, work

__all__ = ["STAGES"]

MEMORY = 1 << 18
PROGRAM = 0x3_0000
SCALE, LAYERS = 40, 3
SCHEDULES = (
    Schedule(0, 0),
    Schedule(1, 2, (Entry(1, 4, 1), Entry(2, 3, 1), Entry(1, 1, 1))),
    Schedule(2, 3, (Entry(1, 0, 2), Entry(1, 2, 0), Entry(1, 0, 0), Entry(0xFFFF, 1, 3))),
    Schedule(0, 1, tuple(Entry(n % 2 + 1, n % 3, (n + 1) % 4) for n in range(8))),
)
POSITIONS = (State(), State(0, 1, True, 2), State(0xFFFE, 0, False, 1), State(2, 0x8000_0001, True, 0))


def _load(device: Device, *commands: Command) -> Program:
    lines = [header(PREDICTING), *commands, Command(Opcode.END, ALWAYS)]
    program = Program([Line(line) for line in lines], PROGRAM)
    device.write(PROGRAM, program.words())
    return program


def schedules(open_device: Open) -> Observations:
    """Phases of batches, from several positions on, with the gate open and shut."""
    device = open_device(memory_bytes=MEMORY)
    marks = [Command(Opcode.COMMIT, {"phase_mask": 1 << phase}) for phase in (0, 1, 1, 2, 2, 2)]
    program = _load(device, *marks)
    for schedule in SCHEDULES:
        device.set_schedule(schedule, (1, 0))
        for position in POSITIONS:
            for gate in (True, False):
                device.set_position(position, gate)
                device.reset_counters()
                device.start(program, None, batches=23)
                yield "at the end", outcome(device)
                yield "position", str(device.position())
                yield "commands", [device.counters(phase)["commands"] for phase in range(N_PHASES)]
    yield from work(device)


def qualities(open_device: Open) -> Observations:
    """Gates that open and shut by the quality that UPDATEs measure, with exponents near and far; scales that follow."""
    draw, device = random.Random(SEED), open_device(memory_bytes=MEMORY)
    device.set_regions([(0, PROGRAM)])
    for _ in range(24):
        commands = []
        for layer in range(LAYERS):
            count, base = draw.choice((0, 1, 60, 500)), 0x8000 * layer
            fields = {"count": count, "quality": 1, "layer": layer, "scale_id": SCALE + layer, "hyper": 1, "source": 0}
            fields |= {f"{name}_addr": base + 0x1000 * n for n, name in enumerate(("a", "b", "c", "d", "out"), 1)}
            fields |= {f"{name}_id": 10 + 6 * layer + n for n, name in enumerate(("a", "b", "c", "d", "out"))}
            commands.append(Command(Opcode.UPDATE, ALWAYS | fields))
            data = np.random.default_rng(draw.getrandbits(32))
            for address in range(base, base + 0x7000, 0x1000):
                device.write(address, data.integers(-0x7FFF, 0x8000, 0x800).astype("<i2"))
            noise = data.integers(-draw.choice((9, 3000, 30000)), 9, 0x800)
            similar = draw.choice((1, -1)) * device.read(base + 0x1000, 0x1000).view("<i2") + noise
            similar[:: draw.choice((2, 7, 1000))] = -0x8000
            device.write(base + 0x4000, np.clip(similar, -0x8000, 0x7FFF).astype("<i2"))
            device.set_scale(SCALE + layer, draw.randint(-20, 20), draw.randrange(256))
            for n in range(5):
                device.set_exponents(fields["a_id"] + n, draw.randint(-12, 0), draw.randint(-12, 0))
        device.set_schedule(SCHEDULES[1], draw.choice(((0x8000, -16), (0x8000, -18), (1, -30), (0, 0))))
        program = _load(device, *commands, Command(Opcode.COMMIT, ALWAYS))
        device.start(program, draw.choice((0, 1)), calibrate=draw.random() < 0.2)
        yield "at the end", outcome(device)
        yield "gate", device.position()[1]
        yield "scales", [device.scale(SCALE + layer) for layer in range(LAYERS)]
        yield "weights", device.read(0, 0x8000 * LAYERS).tobytes()
    yield from work(device)


def adam(memory: str, open_device: Open) -> Observations:
    """Several steps of one array, with any parameters."""
    draw, device = random.Random(SEED), open_device(memory_bytes=MEMORY, **MEMORIES[memory])
    for _ in range(6):
        command = q.KINDS["adam"]
        before = q.image(draw.getrandbits(16))
        program = q.load(device, [command] * 2, before)
        for index in range(PREDICTING.n_hyper):
            device.set_hyper(index, draw.getrandbits(16), draw.choice((-16, draw.randint(-30, 0))))
        for tensor in range(10):
            device.set_exponents(tensor, draw.randint(-12, 0), draw.randint(-12, 0))
        device.set_adam_powers(draw.getrandbits(32), draw.getrandbits(32))
        device.start(program, 0)
        yield "at the end", outcome(device)
        yield "memory", device.read(0, PROGRAM).tobytes()
        yield "powers", device.adam_powers()
        yield "exponents", tables(device)
    yield from work(device)


def copies(memory: str, open_device: Open) -> Observations:
    """Data into the predictor memory and out of it, at any place in it and across its edges."""
    draw, device = random.Random(SEED), open_device(memory_bytes=MEMORY, **MEMORIES[memory])
    window, n_bytes = PREDICTING.predictor_window, PREDICTING.predictor_bytes
    device.set_predictor_window(window)
    device.set_regions([(0, MEMORY)])
    ones = dict.fromkeys(("n", "h", "w", "oh", "ow", "r", "s", "stride", "nb", "yb", "const_mantissa"), 1)
    bits = [1 << bit for bit in range(1, n_bytes.bit_length())]
    for at in (-60, 0, *bits, n_bytes - 50, n_bytes):
        count, data = draw.randint(1, 200), np.random.default_rng(draw.getrandbits(32))
        values, back = data.integers(-100, 100, count).astype("<i2"), 0x1000 + 2 * draw.randrange(64)
        device.write(0x800, values)
        counts = dict.fromkeys(("c", "q", "cb", "qb"), count)
        moves = [(0x800, window + at), (window + at, back)]
        lines = [
            Command(Opcode.AVGPOOL, {**ALWAYS, **ones, **counts, "a_addr": a, "out_addr": b, "wait_main": n})
            for n, (a, b) in enumerate(moves)
        ]  # fmt: skip
        device.start(_load(device, *lines), 0)
        yield "at the end", outcome(device)
        yield "copy", device.read(back, 2 * count).tobytes()
    yield from work(device)


def queues(open_device: Open) -> Observations:
    """One, two or three commands of as many queues fail."""
    draw = random.Random(SEED)
    for order in permutations(q.QUEUES):
        for _ in range(3):
            commands = [q.KINDS[draw.choice(q.QUEUES[queue])] for queue in order]
            commands = q.waits(commands, [draw.random() < 0.2 for _ in commands])
            troubles = [q.trouble(command, draw) for command in commands if draw.random() < 0.6]
            faults = [fault for one in troubles for fault in one.faults]
            device = open_device(memory_bytes=q.MEMORY, faults=faults, stall=draw.choice((0.0, 0.3)), seed=1)
            program = q.load(device, commands, q.image(1), [one.cut for one in troubles if one.cut])
            device.start(program, 0)
            yield "outcome", outcome(device)
            yield "memory", device.read(0, PROGRAM).tobytes()
            if isinstance(device, SimDevice):
                yield TIMED + "cycles", device.simulation.cycles


def _stage(name, run, **more):
    return Stage(name, run, config=PREDICTING, **more)


STAGES = [
    _stage("predicting commands", partial(cases, "random_predicting_commands", 250), golden=False),
    _stage("schedules", schedules),
    _stage("qualities", qualities),
    *(_stage(f"adam {memory}", partial(adam, memory)) for memory in ("ideal", "stalls")),
    *(_stage(f"copies {memory}", partial(copies, memory)) for memory in ("ideal", "stalls")),
    _stage("predicting networks", partial(cases, "random_predicting_networks", 8), golden=False),
    _stage("queues", queues, golden=False),
    _stage("predicted faults", partial(cases, "predicted_axi_faults", 30), golden=False),
    _stage("predicted resets", partial(cases, "predicted_resets", 15), golden=False),
]
"""Those first that catch most for their time."""
