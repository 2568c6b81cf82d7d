"""Waits keep the order of program where commands of several queues could overtake each other, in the design with most.

In ``max`` the main array, the predictor's and the update unit run at the same time. With their waits the bits are the
golden model's whatever the memory does; without those between any two of them they aren't.
"""

from dataclasses import replace
from functools import cache

import pytest
from adagp.host.program import Program
from adagp.sim import IDEAL
from adagp.spec.commands import Command
from adagp.spec.opcodes import COMPUTE, UPDATES
from scheduled_runs import SEED, Run, config_of, differences, golden, settings, simulated

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

NAME = "linear"
CONFIG = config_of("max")
CYCLE_NS = 1e9 / CONFIG.clock_hz
MEMORIES = {
    "usual": {},
    "ideal": {"part": IDEAL},
    "pausing": {"part": IDEAL, "stall": 0.6, "seed": SEED},
    "late": {"part": replace(IDEAL, latency_ns=400 * CYCLE_NS)},
    "writes late": {"part": IDEAL, "write_latency": 1600},
}
"""Timings of the memory; with the last a result is answered long after the array has begun with something else."""
ALL = ("main", "update", "predictor")
NEEDED = (("update", "predictor"), ("predictor", "main"), ("predictor", "predictor"), ("main", "main"))
"""Who waits for whom."""
IMPLIED = ("update", "main")


def queue(command):
    """Which of ALL the command is executed by, if any."""
    if command.opcode in UPDATES:
        return "update"
    return ("predictor" if command.predictor else "main") if command.opcode in COMPUTE else None


def without(program, waiting, waited):
    """The program whose commands of ``waiting`` don't wait for those of ``waited``, and how many did."""
    field, lines, n_waits = f"wait_{waited}", [], 0
    for line in program:
        command = line.command
        if queue(command) == waiting:
            n_waits += getattr(command, field) > 0
            line = replace(line, command=Command(command.opcode, {**command.fields, field: 0}))
        lines.append(line)
    return Program(lines, program.address), n_waits


def options():
    """Warm-up, a run of GP batches, BP."""
    return settings(NAME, epochs=2, phases="3:1")


@cache
def expected():
    return Run(NAME, golden(), options()).go()


def train(memory, cut=None):
    """The results of a run, and the number of waits that were left out of its program."""
    device = simulated("max", **MEMORIES[memory])
    run, n_waits = Run(NAME, device, options()), 0
    if cut is not None:
        network = run.network
        program, n_waits = without(network.program, *cut)
        network.compiled = replace(network.compiled, program=program, calibrating=program)
        network.install(device)
    run.go()
    device.close()
    return run.seen, n_waits


@pytest.mark.parametrize("memory", MEMORIES)
def test_with_waits_memory_makes_no_difference(memory):
    assert differences(expected(), train(memory)[0]) == []


@pytest.mark.parametrize(("waiting", "waited"), NEEDED)
def test_without_waits_commands_overtake_each_other(waiting, waited):
    found = {memory: train(memory, (waiting, waited)) for memory in ("usual", "writes late")}
    assert all(n_waits > 0 for _, n_waits in found.values())
    assert any(differences(expected(), seen) for seen, _ in found.values())


def test_what_a_command_waits_for_it_need_not_wait_for_twice():
    """Every UPDATE waits for a command of the predictor, and that for all of the main array's that the UPDATE does."""
    seen, n_waits = train("writes late", IMPLIED)
    assert n_waits > 0 and differences(expected(), seen) == []


def test_every_kind_of_wait_is_tried():
    """Every kind of wait is in some program, but for those that no program needs."""
    run = Run(NAME, golden(), options())
    kinds = {(waiting, waited) for waiting in ALL for waited in ALL if without(run.network.program, waiting, waited)[1]}
    assert kinds == {*NEEDED, IMPLIED}
