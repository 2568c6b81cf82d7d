"""Events of the units against the bursts that the memory saw, for commands that don't wait for each other."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from adagp.sim import IDEAL, Simulation
from adagp.sim.native_types import UNITS
from adagp.spec.commands import Command, Opcode
from adagp.spec.config import VERSION
from adagp.spec.presets import preset
from adagp.spec.registers import Control, Status, register

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

CONFIG = preset("tiny")
MEMORY, SOURCE, TARGET, PITCH = 1 << 18, 0x4000, 0x20000, 0x2000
COMMANDS, BATCHES, PHASE = 8, 2, 2
ENGINES = ("fill", "array", "drain", "store")
REQUEST, ANSWER = 10, 4
"""Cycles at most from a descriptor taken to its first burst, and from a last beat or answer to the end of a slice."""
ONES = dict.fromkeys(("n", "h", "w", "oh", "ow", "r", "s", "stride", "nb", "yb", "qb", "const_mantissa"), 1)
COPY = (Opcode.AVGPOOL, {**ONES, "c": 96, "q": 96, "cb": 96}, 96 // CONFIG.rows)
"""A small command: the sequencer is slower than the engines."""
SIDE, CHANNELS, IMAGES = 8, 16, 2
GEMM = (
    Opcode.FORWARD,
    {**ONES, "n": IMAGES, **dict.fromkeys(("h", "w", "oh", "ow", "yb"), SIDE),
     **dict.fromkeys(("c", "q", "cb", "qb"), CHANNELS)},
    IMAGES * SIDE * SIDE * (CHANNELS // CONFIG.rows) * (CHANNELS // CONFIG.cols),
)  # fmt: skip
"""A large one of two tiles: descriptors queue up, and the array goes from command to command without a pause."""
SLOW = replace(IDEAL, latency_ns=1500 * 1e9 / CONFIG.clock_hz)


def command(opcode, shape, place):
    """Everything that a command reads or writes lies PITCH bytes behind that of the one before."""
    at = PITCH * place
    where = {"a_addr": SOURCE + at, "b_addr": SOURCE + at + PITCH // 2, "out_addr": TARGET + at}
    return Command(opcode, {**shape, **where, "phase_mask": 15})


def program(opcode, shape):
    return [
        Command(Opcode.HEADER, {"config_hash": CONFIG.config_hash, "version": VERSION}),
        *(command(opcode, shape, place) for place in range(1, COMMANDS + 1)),
        Command(Opcode.END, {"phase_mask": 15}),
    ]


def run(commands, part, latency):
    """Events of two batches, and the bursts that the memory saw."""
    with Simulation(CONFIG, part, memory_bytes=MEMORY, write_latency=latency) as device:
        words = np.array([word for command in commands for word in command.encode()], np.uint32)
        device.memory[: words.nbytes] = words.view(np.uint8)
        device.memory[SOURCE:TARGET] = 1
        device.record_events()
        device.log_bursts(20_000)
        settings = {"REGION0_START": TARGET, "REGION0_END": MEMORY, "BATCHES": BATCHES, "PHASE": PHASE}
        for name, value in {**settings, "IRQ_ENABLE": 1, "CONTROL": Control.START}.items():
            device.write_register(register(name).offset, value)
        device.run_until_irq(1_000_000)
        assert device.read_register(register("STATUS").offset) == Status.DONE
        return device.events, device.bursts.copy()


@pytest.mark.parametrize(
    ("kind", "part", "latency", "late"),
    [(COPY, IDEAL, 0, 0), (COPY, SLOW, 3000, COMMANDS), (GEMM, IDEAL, 0, 0)],
    ids=["copy", "copy, slow memory", "gemm"],
)
def test_events_are_what_the_memory_saw(kind, part, latency, late):
    opcode, shape, vectors = kind
    events, bursts = run(program(opcode, shape), part, latency)
    tracks = {unit: [e for e in events if UNITS[e["unit"]] == unit] for unit in ("batch", *ENGINES)}
    assert len(tracks["batch"]) == BATCHES and sum(map(len, tracks.values())) == len(events)
    every = [(batch, place) for batch in range(BATCHES) for place in range(1, COMMANDS + 1)]
    for unit in ENGINES:
        assert [(e["batch"], e["command"]) for e in tracks[unit]] == every
        assert all(e["phase"] == PHASE and not e["dry"] for e in tracks[unit])
        assert all(before["end"] <= after["begin"] for before, after in itertools.pairwise(tracks[unit]))
    for unit, base, write in (("fill", SOURCE, 0), ("store", TARGET, 1)):
        clipped = 0
        for number, (batch, place) in enumerate(every):
            at = base + PITCH * place
            mine = [b for b in bursts if b["write"] == write and at <= b["addr"] < at + PITCH]
            mine = mine[batch * len(mine) // BATCHES : (batch + 1) * len(mine) // BATCHES]
            first, last = (edge(b[time] for b in mine) - 1 for edge, time in ((min, "offered"), (max, "last")))
            event, before = tracks[unit][number], tracks[unit][number - 1]["end"] if number else 0
            assert 0 <= event["end"] - 1 - last <= ANSWER
            if event["begin"] == before:
                clipped += 1
            else:
                assert 0 < first - event["begin"] <= REQUEST
            assert event["busy"] == sum(b["beats"] for b in mine) > 0
        assert unit == "fill" or clipped >= late
    for fill, array, drain, store in zip(*(tracks[unit] for unit in ENGINES), strict=True):
        assert array["busy"] == vectors
        assert fill["end"] < array["end"] <= drain["end"] < store["end"]
    pauses = [after["begin"] - before["end"] for before, after in itertools.pairwise(tracks["array"])]
    assert (sum(pause <= 1 for pause in pauses) >= COMMANDS) == (kind is GEMM)
